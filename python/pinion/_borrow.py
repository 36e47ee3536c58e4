"""Device memory that PyTorch's own allocator gives to the library.

The library calls nothing here: what waits for it answers its wants, see serve(),
and the deleters of the tensors bring the memory back.
"""

from __future__ import annotations

import ctypes as C
import importlib
import sys
from typing import Any

from . import _dlpack, _errors, _lib


class Want(C.Structure):
    """pinion_want."""

    _fields_ = [("id", C.c_uint64), ("bytes", C.c_int64), ("device_type", C.c_int32), ("device_id", C.c_int32)]


class Lender:
    """Gives a loader what memory it wants."""

    def __init__(self) -> None:
        self.handle = C.c_uint64()
        _lib.check(_lib.load().pinion_borrow_new(C.byref(self.handle)))
        self._want = Want()
        self._refused: BaseException | None = None

    def serve(self) -> None:
        """Answers all wants. One that an interrupt comes before stays, and is answered the next time."""
        lib, want, give = _lib.load(), self._want, _dlpack.objects().pinion_borrow_give
        while _lib.check(lib.pinion_borrow_wanted(self.handle, C.byref(want))) == _lib.OK:
            why = b""
            if want.device_type != _dlpack.CUDA or not _capturing():  # a graph's memory would be the graph's; this is not
                try:
                    capsule = _empty(want.bytes, want.device_type, want.device_id)
                except Exception as e:
                    why = (str(e).partition("\n")[0] or type(e).__name__).encode()
                    self._refused = e
                else:
                    _lib.check(give(self.handle, want.id, capsule))
                    continue
            _lib.check(lib.pinion_borrow_refuse(self.handle, want.id, why, len(why)))

    def explain(self, error: BaseException) -> BaseException:
        """An error of the loader, with what PyTorch said if that is why."""
        cause, self._refused = self._refused, None
        if cause is not None and isinstance(error, (MemoryError, _errors.device_memory())):
            error.__cause__ = cause
        return error


def _capturing() -> bool:
    torch: Any = sys.modules["torch"]
    return bool(torch.cuda.is_available() and torch.cuda.is_current_stream_capturing())


_sides: dict[int, Any] = {}


def _empty(n: int, kind: int, device: int) -> Any:
    """A capsule with a tensor of n bytes, which nothing that is queued uses any more."""
    torch: Any = importlib.import_module("torch")
    pack = importlib.import_module("torch.utils.dlpack").to_dlpack
    if kind != _dlpack.CUDA:
        return pack(torch.empty(n, dtype=torch.uint8))
    # PyTorch gives memory out again as soon as it is freed, to work on the stream that it was used on. The loader's streams
    # are others: so it comes from a stream of its own, where nothing is queued that they would have to wait for, or little.
    side = _sides.get(device)
    if side is None:
        side = _sides[device] = torch.cuda.Stream(device)
    with torch.cuda.stream(side):
        tensor = torch.empty(n, dtype=torch.uint8, device=torch.device("cuda", device))
    side.synchronize()
    return pack(tensor)
