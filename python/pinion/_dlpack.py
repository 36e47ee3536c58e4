"""Memory of the library as NumPy arrays, torch tensors and DLPack objects.

A Hold keeps memory: everything made from it keeps it, and the last to go gives
the memory back.
"""

from __future__ import annotations

import ctypes as C
from collections.abc import Sequence
from typing import Any

from . import _lib

_new = C.pythonapi.PyCapsule_New
_new.restype, _new.argtypes = C.py_object, [C.c_void_p, C.c_char_p, C.c_void_p]
_destructor: Any = None

CPU, CUDA = 1, 2  # DLPack's device types
_kinds = {0: "i", 1: "u", 2: "f", 4: "bf", 6: "b"}


def destructor() -> Any:
    """What frees a capsule that nobody took."""
    global _destructor
    if _destructor is None:
        _destructor = _lib.load().pinion_capsule_destructor()
    return _destructor


class Hold:
    """One holder of memory, until it is deleted.

    It is made empty, and gets its pointer by an assignment, between whose two sides no signal can come: what a call
    returned would be lost when an interrupt came before it was kept.
    """

    __slots__ = ("pointer", "_release", "__weakref__")

    def __init__(self) -> None:
        self.pointer: int | None = None
        self._release = _lib.load().pinion_release  # modules may be gone before the last hold is

    def __del__(self) -> None:
        if self.pointer is not None:
            self._release(self.pointer)


class Array:
    """An array in the memory of a device, for numpy.from_dlpack, torch.from_dlpack and the like.

    The memory lives as long as this object and everything made from it.
    """

    __slots__ = ("_array", "_hold")

    def __init__(self, array: _lib.Array, hold: Hold) -> None:
        self._array, self._hold = array, hold

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
        managed = _lib.load().pinion_dlpack(self._hold.pointer, C.byref(self._array), versioned)
        if not managed:
            raise MemoryError("no memory for a tensor")
        return _new(managed, b"dltensor_versioned" if versioned else b"dltensor", destructor())

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
        from torch.utils.dlpack import from_dlpack

        return from_dlpack(self)


def take(out: Any) -> Hold:
    """The hold in a struct, which is empty afterwards."""
    hold = Hold()
    hold.pointer = out.hold
    out.hold = None
    return hold


def arrays(described: Sequence[_lib.Array], hold: Hold) -> tuple[Array, ...]:
    """Arrays as they are described in a struct that will be used again."""
    return tuple(Array(_lib.Array.from_buffer_copy(a), hold) for a in described)
