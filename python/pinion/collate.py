"""pinion.Collate: batches of any Python dataset, written by DataLoader's workers straight into pinned memory.

    loader = DataLoader(dataset, 64, num_workers=8, collate_fn=pinion.Collate())
    for images, labels in loader:
        images = images.to("cuda", non_blocking=True)

A worker stacks the samples into a slot of memory that it shares with the main
process, which has pinned it. What it sends is a ticket of some hundred bytes:
no tensor is pickled, copied or made for a batch in the main process, and no
thread pins memory. Batches look as torch's default_collate makes them.

A slot is used again when the batch's tensors are gone and the copies that were
queued from them are done. When you keep batches there are more slots, up to a
limit; after that batches come the way they do without Collate.
"""

from __future__ import annotations

import ctypes as C
import io
import json
import math
import os
import pickle
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from multiprocessing.reduction import DupFd, ForkingPickler
from typing import Any, NamedTuple

import torch
from torch.utils.data import get_worker_info
from torch.utils.data import default_convert
from torch.utils.data._utils import collate as _torch
from torch.utils.dlpack import from_dlpack

from . import _dlpack, _errors, _lib, _ring
from ._loader import _number

__all__ = ["Collate", "default_collate", "out"]

_ALIGN = 64
_INT, _UINT, _FLOAT, _BFLOAT, _COMPLEX = 0, 1, 2, 4, 5
_codes = {
    torch.uint8: (_UINT, 8), torch.int8: (_INT, 8), torch.int16: (_INT, 16), torch.int32: (_INT, 32), torch.int64: (_INT, 64),
    torch.float16: (_FLOAT, 16), torch.float32: (_FLOAT, 32), torch.float64: (_FLOAT, 64), torch.bfloat16: (_BFLOAT, 16),
    torch.complex64: (_COMPLEX, 64), torch.complex128: (_COMPLEX, 128),
}  # fmt: skip


class Collate:
    """A collate_fn that writes batches into pinned memory which the main process shares with the workers.

    collate_fn  makes a batch of a list of samples, with out and default_collate in place; the tensors and NumPy arrays
                of its result that are elsewhere are copied. None: torch's default_collate for lists, default_convert for
                the single samples of batch_size=None.
    limit       bytes of memory that batches may have. None: a quarter of what this process may still use. It is taken as
                it is needed, and goes when the Collate and its batches have gone.
    pin         True: page-lock the memory for CUDA. False: never. None: as soon as this process uses CUDA.

    Give it to the DataLoader as it is, not wrapped in another function: what workers return is a ticket. With num_workers=0
    it only calls collate_fn. One Collate may serve several DataLoaders. Make it where the loop is: in the main process.
    """

    def __init__(self, collate_fn: Callable[[Any], Any] | None = None, *, limit: int | None = None, pin: bool | None = None) -> None:
        if collate_fn is not None and not callable(collate_fn):
            raise TypeError(f"collate_fn must be a function, not {collate_fn!r}")
        if limit is not None:
            limit = _number("limit", limit, 1, 1 << 46)  # half of what a process can address
        if pin and not torch.cuda.is_available():
            raise _errors.UnavailableError("pin=True needs CUDA, which PyTorch has not here")
        self._begin(collate_fn, _Memory(_ring.Ring.create(_ring.available() // 4 if limit is None else limit), pin))

    def _begin(self, collate_fn: Callable[[Any], Any] | None, memory: _Memory) -> None:
        self._fn, self._memory = collate_fn, memory
        self._last = 0  # bytes of the last batch of collate_fn

    def __call__(self, samples: Any) -> Any:
        fn = self._fn or _default
        if get_worker_info() is None or self._memory.ring.creator == os.getpid():
            return fn(samples)
        outer = getattr(_here, "room", None)
        _here.room = room = _Room(self._memory.ring, self._last or _estimate(samples))
        try:
            payload = room.pack(fn(samples))
        except BaseException:
            room.abandon()
            raise
        finally:
            _here.room = outer
        if self._fn is not None:
            self._last = room.used
        return _Ticket(self._memory.ring.generation, payload, tuple((s.number, s.sequence) for s in room.slots), room.short)

    def stats(self) -> dict[str, Any]:
        """What memory there is: slot_bytes, of which pinned_bytes, at most limit_bytes; and how many slots that are.

        slots counts all, free_slots those that nobody has, lent_slots those with tensors in this process, and pending_slots
        those whose tensors are gone, but perhaps not the copies from them. The rest are with workers.
        """
        return self._memory.stats()

    def __reduce__(self) -> Any:
        return _attach, (self._fn, self._memory.pin, self._memory.ring.generation, DupFd(self._memory.ring.fd))

    def __copy__(self) -> Collate:
        return self  # the memory cannot be copied

    def __deepcopy__(self, _: Any) -> Collate:
        return self


def default_collate(samples: Any) -> Any:
    """torch's default_collate; in a collate_fn of Collate it stacks straight into the batch's memory."""
    return _torch.collate(samples, collate_fn_map=_functions())


def out(shape: Sequence[int] | int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """An uninitialised tensor in the memory of the batch that is being made, for a collate_fn to fill and return.

    What is returned may be a part of it. Where no Collate is at work, or its memory is used up, it is an ordinary tensor.
    """
    shape = tuple(shape) if isinstance(shape, Iterable) else (shape,)
    room: _Room | None = getattr(_here, "room", None)
    tensor = room.tensor(shape, dtype) if room is not None else None
    return torch.empty(shape, dtype=dtype) if tensor is None else tensor


_here = threading.local()  # room: of the batch that this thread is making


def _default(samples: Any) -> Any:
    # A batch is a list: DataLoader makes it. Anything else is one sample.
    return default_collate(samples) if isinstance(samples, list) else default_convert(samples)


def _functions() -> dict[Any, Any]:
    """torch's table, with the function for tensors in place if it is torch's."""
    table = dict(_torch.default_collate_fn_map)
    if table.get(torch.Tensor) is _torch.collate_tensor_fn:
        table[torch.Tensor] = _stack
    return table


def _stack(batch: Any, *, collate_fn_map: Any = None) -> Any:
    first = batch[0]
    alike = all(type(x) is torch.Tensor and x.shape == first.shape and x.dtype == first.dtype and not x.requires_grad for x in batch)
    if alike and _plain(first):
        room: _Room | None = getattr(_here, "room", None)
        where = room.tensor((len(batch), *first.shape), first.dtype) if room is not None else None
        if where is not None:
            return torch.stack(batch, 0, out=where)
    return _torch.collate_tensor_fn(batch, collate_fn_map=collate_fn_map)


def _plain(x: torch.Tensor) -> bool:
    """Whether a tensor is nothing but numbers in the memory of the host."""
    return (
        x.device.type == "cpu" and x.layout == torch.strided and x.numel() > 0
        and not (x.requires_grad or x.is_quantized or x.is_nested)
    )  # fmt: skip


def _estimate(samples: Any) -> int:
    """About the bytes of a batch, of whose samples the first tells the size."""
    if isinstance(samples, list) and samples:
        return _weigh(samples[0], len(samples))
    return _weigh(samples, 1)


def _weigh(x: Any, n: int) -> int:
    if isinstance(x, (str, bytes)):
        return 0
    if isinstance(x, torch.Tensor):
        return _aligned(x.numel() * x.element_size() * n)
    size = 8 if isinstance(x, (int, float)) else getattr(x, "nbytes", None)
    if isinstance(size, int):
        return _aligned(size * n)
    if isinstance(x, Mapping):
        return sum(_weigh(x[k], n) for k in x)
    if isinstance(x, Sequence):
        return sum(_weigh(v, n) for v in x)
    return 0


def _aligned(n: int) -> int:
    return -(-n // _ALIGN) * _ALIGN


class _Room:
    """The memory of a batch that a worker is making: slots, which it fills one after another."""

    def __init__(self, ring: _ring.Ring, need: int) -> None:
        self.ring, self.need = ring, need
        self.slots: list[_ring.Slot] = []
        self.at = self.end = 0
        self.used = 0
        self.short = False  # there was too little
        self._base = torch.frombuffer(ring.map, dtype=torch.uint8, count=1).data_ptr()

    def claim(self, n: int) -> int | None:
        """Where n bytes are free in the file."""
        if self.at + n > self.end:
            slot = self.ring.claim(max(n, self.need)) or (self.ring.claim(n) if self.need > n else None)
            self.need = 0
            if slot is None:
                self.short = True
                return None
            self.slots.append(slot)
            self.at, self.end = slot.start, slot.start + slot.size
        at, size = self.at, _aligned(n)
        self.at += size
        self.used += size
        return at

    def tensor(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor | None:
        count = math.prod(shape)
        at = self.claim(count * torch.empty(0, dtype=dtype).element_size()) if count > 0 else None
        return None if at is None else torch.frombuffer(self.ring.map, dtype=dtype, count=count, offset=at).view(shape)

    def pack(self, batch: Any) -> bytes:
        """The batch without its tensors, which are in the slots then."""
        file = io.BytesIO()
        _Pickler(file, self).dump(batch)
        return file.getvalue()

    def place(self, x: torch.Tensor) -> tuple[int, int] | None:
        """Slot and offset of a tensor, which is copied unless it is there."""
        found = self._find(x.data_ptr()) if x.is_contiguous() and not (x.is_conj() or x.is_neg()) else None
        if found is None and (copy := self.tensor(tuple(x.shape), x.dtype)) is not None:
            found = self._find(copy.copy_(x).data_ptr())
        return found

    def place_array(self, x: Any) -> tuple[int, int] | None:
        """place of a NumPy array."""
        found = self._find(x.ctypes.data) if x.flags.c_contiguous else None
        if found is None and (at := self.claim(x.nbytes)) is not None:
            copy = sys.modules["numpy"].frombuffer(self.ring.map, x.dtype, x.size, at).reshape(x.shape)
            copy[...] = x
            found = self._find(copy.ctypes.data)
        return found

    def _find(self, address: int) -> tuple[int, int] | None:
        at = address - self._base
        for i, s in enumerate(self.slots):
            if s.start <= at < s.start + s.size:
                return i, at - s.start
        return None

    def abandon(self) -> None:
        for slot in self.slots:
            self.ring.free(slot)
        self.slots = []


class _Pickler(ForkingPickler):
    """Pickles a batch; of tensors and arrays, where they are."""

    def __init__(self, file: Any, room: _Room) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._room = room
        self._seen: dict[int, Any] = {}
        self._array = getattr(sys.modules.get("numpy"), "ndarray", ())

    def persistent_id(self, x: Any) -> Any:
        # What this returns None for is pickled, tensors by torch.
        if type(x) is torch.Tensor and _plain(x):
            place, what = self._room.place, x.dtype
        elif type(x) is self._array and x.dtype.kind in "biufc" and x.size:
            place, what = self._room.place_array, x.dtype.str
        else:
            return None
        leaf = self._seen.get(id(x))
        if leaf is None and (found := place(x)) is not None:
            leaf = self._seen[id(x)] = (len(self._seen), *found, what, tuple(x.shape))
        return leaf


class _Ticket:
    """What a worker sends: unpickling it gives the batch."""

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments

    def __reduce__(self) -> Any:
        return _arrive, self.arguments


_memories: weakref.WeakValueDictionary[int, _Memory] = weakref.WeakValueDictionary()
"""Of this process, by generation: what tickets find."""


def _attach(fn: Any, pin: bool | None, generation: int, fd: Any) -> Collate:
    """Makes a Collate of another process, or of this one, one of this process."""
    memory = _memories.get(generation)
    number = fd.detach()
    if memory is None:
        memory = _Memory(_ring.Ring(number), pin)
    elif number != memory.ring.fd:
        with memory.ring.alone():
            os.close(number)
    collate = Collate.__new__(Collate)
    collate._begin(fn, memory)
    return collate


def _arrive(generation: int, payload: bytes, slots: tuple[tuple[int, int], ...], short: bool) -> Any:
    memory = _memories.get(generation)
    if memory is None:
        raise RuntimeError("a batch of a pinion.Collate came to a process that has not got it: make it where the loop is")
    return memory.receive(payload, slots, short)


class _Memory:
    """A ring, and in the process where its batches arrive the library that keeps them."""

    def __init__(self, ring: _ring.Ring, pin: bool | None) -> None:
        self.ring, self.pin = ring, pin
        self._handle = self._address = 0
        self._opening = threading.Lock()
        self._devices: list[int] = []  # that may read batches
        self._warned: set[str] = set()
        self._handles: list[int] = []
        weakref.finalize(self, _close, ring.fd, self._handles).atexit = False
        _memories[ring.generation] = self

    def _open(self) -> Any:
        """The library, with the memory mapped; None where it cannot be used: in a process forked from one that uses it."""
        try:
            lib = _lib.load()
        except _errors.ForkedError:
            return None
        with self._opening:
            if not self._handle:
                handle, address = C.c_uint64(), C.c_uint64()
                with self.ring.alone():
                    _lib.check(lib.pinion_collate_open(self.ring.fd, C.byref(handle), C.byref(address)))
                self._handles.append(handle.value)
                self._address, self._handle = address.value, handle.value
        return lib

    def receive(self, payload: bytes, slots: tuple[tuple[int, int], ...], short: bool) -> Any:
        """The batch of a ticket."""
        if short:
            self._warn(
                "short",
                f"Collate: its memory ({self.ring.size >> 20} MiB at most) is used up, or has too many slots; batches come through torch's "
                "shared memory until others are dropped. Keep fewer batches, or give Collate a larger limit.",
            )
        outs = [_Out() for _ in slots]  # an interrupt at any place loses nothing
        lib: Any = None
        try:
            mine = [self.ring.take(number, sequence) for number, sequence in slots]
            lib = self._open()
            if lib is None:
                return _Unpickler(payload, _Copies(self.ring, mine)).load()
            self._settle(lib)
            return _Unpickler(payload, _Views([self._lend(lib, *each) for each in zip(mine, outs)])).load()
        finally:
            for (number, sequence), out in zip(slots, outs):
                if out.hold:
                    lib.pinion_release(out.hold)
                elif not out.lent:
                    self.ring.leave(number, sequence)

    def _lend(self, lib: Any, slot: _ring.Slot, out: _Out) -> _Lent:
        """Lends a slot to tensors."""
        start = slot.start - _ring.DATA
        code = lib.pinion_collate_lend(self._handle, start, slot.size, slot.state - _ring.DATA, C.byref(out))
        if not out.lent:
            _lib.check(code)
        if code < 0:
            self._warn("pin", f"Collate: batches are not pinned: {lib.pinion_message().decode(errors='replace')}")
        return _Lent(out.lent, _dlpack.take(out), self._address + start)

    def _settle(self, lib: Any) -> None:
        """Frees the slots whose copies are done; not in the capture of a CUDA graph, which that would end."""
        if self.pin is not False and (self.pin or torch.cuda.is_initialized()) and torch.version.cuda:
            current = torch.cuda.current_device()
            for i in [current, *range(torch.cuda.device_count())]:
                if i not in self._devices and (i == current or _in_use(i)):
                    self._use(lib, i)  # before the slots that it may read are free
            if torch.cuda.is_current_stream_capturing():
                return
        _lib.check(lib.pinion_collate_settle(self._handle))

    def _use(self, lib: Any, device: int) -> None:
        with self._opening:
            if device not in self._devices:
                _lib.check(lib.pinion_collate_use(self._handle, f"cuda:{device}".encode()))
                self._devices.append(device)

    def _warn(self, kind: str, text: str) -> None:
        if kind not in self._warned:
            self._warned.add(kind)
            warnings.warn(text, RuntimeWarning, stacklevel=2)

    def stats(self) -> dict[str, Any]:
        result: dict[str, Any] = {"limit_bytes": self.ring.size, "lent_slots": 0, "pending_slots": 0, "pinned_bytes": 0}
        lib = _lib.loaded()
        if lib is not None and self._handle:
            self._settle(lib)
            result.update(json.loads(_lib.ask(lib.pinion_collate_stats, self._handle)))
        entries = [e for e in self.ring.sweep() if e.size]
        result.update(slots=len(entries), free_slots=sum(not e.state for e in entries), slot_bytes=sum(e.size for e in entries))
        return result


def _close(fd: int, handles: list[int]) -> None:
    lib = _lib.loaded()
    for handle in handles if lib is not None else ():
        lib.pinion_collate_close(handle)
    os.close(fd)


def _in_use(device: int) -> bool:
    """Whether this process has a context on a device: without one nothing was copied there."""
    ask = getattr(torch._C, "_cuda_hasPrimaryContext", None)
    return ask is None or bool(ask(device))


class _Out(C.Structure):
    """What pinion_collate_lend fills: with a hold, until it is taken, and with what that was."""

    _fields_ = [("hold", C.c_void_p), ("lent", C.c_void_p)]


class _Lent(NamedTuple):
    """A slot that is lent: its hold, what keeps that, and its address."""

    pointer: int
    hold: Any
    address: int


class _Views:
    """Makes tensors of the slots of a batch, which keep them."""

    def __init__(self, slots: list[_Lent]) -> None:
        self._slots = slots

    def _array(self, slot: int, at: int, code: int, bits: int, shape: tuple[int, ...]) -> _dlpack.Array:
        pointer, hold, address = self._slots[slot]
        array = _lib.Array(data=address + at, ndim=len(shape), code=code, bits=bits, lanes=1, device_type=_dlpack.CPU)
        array.shape[: len(shape)] = shape
        return _dlpack.Array(array, hold, pointer)

    def tensor(self, slot: int, at: int, dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
        code, bits = _codes.get(dtype, (0, 0))
        if not bits or len(shape) > _lib.DIMS:
            count = math.prod(shape) * torch.empty(0, dtype=dtype).element_size()
            return self.tensor(slot, at, torch.uint8, (count,)).view(dtype).view(shape)
        return from_dlpack(self._array(slot, at, code, bits, shape).__dlpack__())

    def array(self, slot: int, at: int, dtype: str, shape: tuple[int, ...]) -> Any:
        import numpy

        kind = numpy.dtype(dtype)
        return self._array(slot, at, _UINT, 8, (math.prod(shape) * kind.itemsize,)).numpy().view(kind).reshape(shape)


class _Copies:
    """Makes tensors of their own."""

    def __init__(self, ring: _ring.Ring, slots: list[_ring.Slot]) -> None:
        self._ring, self._slots = ring, slots

    def tensor(self, slot: int, at: int, dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
        count, start = math.prod(shape), self._slots[slot].start + at
        return torch.frombuffer(self._ring.map, dtype=dtype, count=count, offset=start).view(shape).clone()

    def array(self, slot: int, at: int, dtype: str, shape: tuple[int, ...]) -> Any:
        import numpy

        start = self._slots[slot].start + at
        return numpy.frombuffer(self._ring.map, dtype=dtype, count=math.prod(shape), offset=start).reshape(shape).copy()


class _Unpickler(pickle.Unpickler):
    def __init__(self, payload: bytes, make: _Views | _Copies) -> None:
        super().__init__(io.BytesIO(payload))
        self._make, self._made = make, {}  # type: Any, dict[int, Any]

    def persistent_load(self, leaf: Any) -> Any:
        number, slot, at, what, shape = leaf
        if number not in self._made:
            make = self._make.array if isinstance(what, str) else self._make.tensor
            self._made[number] = make(slot, at, what, shape)
        return self._made[number]
