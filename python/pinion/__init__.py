"""Pinion: batches from disk into the memory of the device, as fast as the machine can.

    loader = pinion.DataLoader("photos", batch_size=64, shuffle=True)
    for images, labels in loader:
        ...

The library behind it is loaded when it is first used, not by importing the package.
"""

import importlib as _importlib
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from ._dlpack import Array
from ._errors import (
    ClosedError,
    DataError,
    ForkedError,
    HeldError,
    InternalError,
    PinionError,
    SampleError,
    StateError,
    UnavailableError,
    UnsupportedError,
)
from ._loader import DataLoader

if _TYPE_CHECKING:
    from .collate import Collate

__version__ = "0.1.0.dev0"

__all__ = [
    "Array",
    "ClosedError",
    "Collate",
    "DataError",
    "DataLoader",
    "ForkedError",
    "HeldError",
    "InternalError",
    "PinionError",
    "SampleError",
    "StateError",
    "UnavailableError",
    "UnsupportedError",
]


def __getattr__(name: str) -> _Any:
    """Submodules that need more than Python are imported when they are first used."""
    if name in ("collate", "memory", "monitor", "safetensors", "timeline", "torch"):
        return _importlib.import_module(f"{__name__}.{name}")
    if name == "Collate":
        from .collate import Collate

        return Collate
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
