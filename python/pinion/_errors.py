"""Exceptions of the package, and which one an error of the library is."""

from __future__ import annotations

import json
import sys
from typing import Any


class PinionError(RuntimeError):
    """What Pinion raises where no exception of Python's own says it better."""


class InternalError(PinionError):
    """A mistake of Pinion itself: please report it, with its text."""


class ForkedError(PinionError):
    """Pinion was used in a child of the process that uses it."""


class ClosedError(PinionError, ValueError):
    """Something was used after it was closed."""


class UnavailableError(PinionError):
    """A device or a server that is not there."""


class UnsupportedError(PinionError, NotImplementedError):
    """Something that this device or this format cannot do."""


class DataError(PinionError, ValueError):
    """Files that are damaged, empty, or of no known format."""


class SampleError(PinionError):
    """A sample that cannot be read."""

    index: int = -1
    """Its number in the dataset; -1 where it is about many."""
    name: str = ""
    """Its name: a path, say."""
    epoch: int = -1
    batch: int = -1


class StateError(PinionError, ValueError):
    """A state of another dataset, order or batch size."""


class HeldError(PinionError, MemoryError):
    """No batch can come, because the program keeps all that there is memory for."""


def device_memory() -> type[BaseException]:
    """torch.OutOfMemoryError where torch is used and has it."""
    torch = sys.modules.get("torch")
    if torch is None:
        return MemoryError
    found = getattr(torch, "OutOfMemoryError", None) or getattr(torch.cuda, "OutOfMemoryError", None)
    return found or MemoryError


def need_gpu(torch: Any, device: Any) -> None:
    """Raises UnavailableError for a CUDA device where PyTorch has none, as PyTorch's own errors do not say."""
    if device.type == "cuda" and not torch.cuda.is_available():
        raise UnavailableError(f"device is {device}, but this PyTorch has no GPU")


FORKED = (
    "Pinion was used before this process was forked, and cannot be used in the child: use the start method "
    "'spawn' or 'forkserver', or make the first Pinion object in the child"
)

_classes: dict[int, type[BaseException]] = {
    -1: PinionError,
    -2: InternalError,
    -3: ForkedError,
    -4: ClosedError,
    -5: ValueError,
    -6: FileNotFoundError,
    -7: PermissionError,
    -9: MemoryError,
    -10: UnavailableError,
    -11: UnsupportedError,
    -12: DataError,
    -13: SampleError,
    -14: StateError,
    -15: HeldError,
}

PASSING = (-8, -9, -15)
"""Errors of memory, after which a loader goes on when there is some."""


def make(code: int, message: str, detail: str = "") -> BaseException:
    """The exception of an error of the library."""
    if code == -3:
        message = FORKED
    kind = device_memory() if code == -8 else _classes.get(code, PinionError)
    error = kind(message)
    if isinstance(error, SampleError) and detail:
        fields: dict[str, Any] = json.loads(detail)
        error.__dict__.update(fields)
    return error
