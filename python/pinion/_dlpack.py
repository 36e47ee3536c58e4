"""Memory of the library as NumPy arrays, torch tensors and DLPack objects.

A hold keeps memory: everything made from it keeps it, and the last to go gives
the memory back.
"""

from __future__ import annotations

import ctypes as C
from collections.abc import Sequence
from typing import Any

from . import _errors, _lib

CPU, CUDA = 1, 2  # DLPack's device types
_kinds = {0: "i", 1: "u", 2: "f", 4: "bf", 6: "b"}


# These work on objects of Python, so they keep Python's lock: see pinion.h.
_functions: Any = None


def objects() -> Any:
    global _functions
    if _functions is None:
        _lib.load()
        functions = C.PyDLL(_lib.path())
        functions.pinion_take.restype, functions.pinion_take.argtypes = C.py_object, [C.c_void_p]
        functions.pinion_dlpack.restype, functions.pinion_dlpack.argtypes = C.py_object, [C.c_void_p, C.c_void_p, C.c_int]
        functions.pinion_borrow_give.restype = C.c_int
        functions.pinion_borrow_give.argtypes = [C.c_uint64, C.c_uint64, C.py_object]
        _functions = functions
    return _functions


class Array:
    """An array in the memory of a device, for numpy.from_dlpack, torch.from_dlpack and the like.

    The memory lives as long as this object and everything made from it.
    """

    __slots__ = ("_array", "_hold", "_pointer")

    def __init__(self, array: _lib.Array, hold: Any, pointer: int) -> None:
        self._array, self._hold, self._pointer = array, hold, pointer

    @property
    def role(self) -> int:
        """What it is in a batch."""
        return int(self._array.role)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._array.shape[: self._array.ndim])

    @property
    def dtype(self) -> str:
        """The element type: "f4", "bf2", "i8" and so on: the kind, and the bytes."""
        return f"{_kinds[self._array.code]}{self._array.bits // 8}"

    def __len__(self) -> int:
        if not self._array.ndim:
            raise TypeError("an array of no axes has no length")
        return int(self._array.shape[0])

    def __repr__(self) -> str:
        return f"<pinion.Array {self.shape} {self.dtype} on {self.__dlpack_device__()}>"

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.device_type, self._array.device_id

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[Any, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A capsule: versioned for those who ask for max_version, else of DLPack 0.x.

        The array is complete, so no stream has to wait for it.
        """
        if dl_device is not None and (int(dl_device[0]), int(dl_device[1])) != self.__dlpack_device__():
            raise BufferError(f"the array is on device {self.__dlpack_device__()} and is not copied to {dl_device}")
        if copy:
            raise BufferError("the array is not copied: copy what is made of it")
        versioned = max_version is not None and max_version[0] >= 1
        _lib.load()
        return objects().pinion_dlpack(self._pointer, C.byref(self._array), versioned)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        a = self._array
        if a.device_type != CPU:
            raise TypeError(f"the array is on device {self.__dlpack_device__()}, where NumPy cannot reach it")
        if a.code == 4:
            raise TypeError("NumPy has no bfloat16: take dtype='f16' or 'f32'")
        return {"version": 3, "shape": self.shape, "typestr": f"<{self.dtype}" if a.bits > 8 else f"|{self.dtype}", "data": (a.data, False)}

    def numpy(self) -> Any:
        """A NumPy array of the memory, which can be written to."""
        import numpy

        return numpy.asarray(self)

    def torch(self) -> Any:
        """A torch tensor of the memory."""
        from torch import __version__
        from torch.utils.dlpack import from_dlpack

        try:
            return from_dlpack(self)
        except RuntimeError:
            if self.dtype == "u2":
                raise _errors.UnsupportedError(f"PyTorch {__version__} has no uint16: take dtype='f32' or 'i32', or output='numpy'") from None
            raise


def take(out: Any) -> Any:
    """An object that keeps the hold in a struct, which it is the first field of and is taken from; None for none."""
    return objects().pinion_take(C.byref(out)) if out.hold else None


def arrays(out: Any, described: Sequence[_lib.Array]) -> tuple[Array, ...]:
    """Arrays as they are described, with the hold in a struct, both of which will be used again for others."""
    pointer = out.hold
    hold = take(out)
    return tuple(Array(_lib.Array.from_buffer_copy(a), hold, pointer) for a in described)
