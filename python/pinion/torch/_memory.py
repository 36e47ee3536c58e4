"""Page-locked memory for tensors: of exactly the bytes that are needed, close to the device that copies it."""

from __future__ import annotations

import collections
import ctypes as C
import json
import mmap
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch

from .. import _errors, _lib

_waiting: collections.deque[int] = collections.deque()  # handles to free when no graph is being captured
_kept: list[Any] = []  # memory that is registered until then
_registered: set[int] = set()  # addresses of the storages that pin_ has pinned


def site(device: Any = None) -> bytes:
    """The library's name of a device. Default: the current GPU, or the host where there is none."""
    d = torch.device("cuda" if device is None and torch.cuda.is_available() else "cpu" if device is None else device)
    if d.type == "cpu":
        return b"host"
    if d.type != "cuda":
        raise ValueError(f"the device is {d}, but must be a CUDA device or the CPU")
    _errors.need_gpu(torch, d)
    return b"cuda:%d" % (torch.cuda.current_device() if d.index is None else d.index)


def itemsize(dtype: torch.dtype) -> int:
    """Bytes of an element."""
    return torch.empty((), dtype=dtype).element_size()


def _capturing() -> bool:
    return torch.cuda.is_available() and torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()


def _free(handle: int) -> None:
    """Ends pinned memory: later, where an event would spoil the capture of a CUDA graph."""
    _waiting.append(handle)
    _free_waiting()


def _free_waiting() -> None:
    if not _waiting or _capturing():
        return
    lib = _lib.loaded()
    while lib is not None and _waiting:
        try:
            handle = _waiting.popleft()
        except IndexError:  # another thread took it
            return
        lib.pinion_pinned_free(handle)
    _kept.clear()


def allocate(nbytes: int, where: bytes) -> torch.Tensor:
    """Bytes of pinned memory, which go back when the last tensor of them does, behind what is queued on the device."""
    lib = _lib.load()
    _free_waiting()
    handle, address, locked = C.c_uint64(), C.c_uint64(), C.c_int32()
    _lib.check(lib.pinion_pinned_alloc(where, len(where), nbytes, C.byref(handle), C.byref(address), C.byref(locked)))
    memory = (C.c_uint8 * nbytes).from_address(address.value)
    weakref.finalize(memory, _free, handle.value).atexit = False
    return torch.frombuffer(memory, dtype=torch.uint8)  # keeps memory


def empty(
    *size: Any,
    dtype: torch.dtype | None = None,
    pin_memory: bool = True,
    device: Any = None,
    requires_grad: bool = False,
) -> torch.Tensor:
    """A tensor in host memory as of torch.empty(..., pin_memory=True), but of exactly its bytes.

    PyTorch rounds pinned memory up to a power of two: 129 MiB take 256. Here they take 129, in whole pages, on the
    NUMA node of the GPU where the machine has several. Small tensors share pages. Pinning is several times faster
    too. Freed memory serves later tensors, and goes back to the system when it was free for a minute.

    size: as of torch.empty.
    device: the GPU that the memory is near; all can copy it. Default: the current one. Without a GPU it is ordinary
        memory, page-locked where the system allows it.

    A tensor that dies while copies of it are queued is no mistake: its memory serves others only behind them.
    """
    if len(size) == 1 and isinstance(size[0], Iterable):
        size = tuple(size[0])
    dtype = torch.get_default_dtype() if dtype is None else dtype
    count = 1
    for n in size:
        if n < 0:
            raise RuntimeError(f"Trying to create tensor with negative dimension {n}: {list(size)}")
        count *= int(n)
    nbytes = count * itemsize(dtype)
    if not pin_memory or not nbytes:
        return torch.empty(size, dtype=dtype, requires_grad=requires_grad)
    _lib.load()  # before CUDA is asked, which a forked child must not do
    made = allocate(nbytes, site(device)).view(dtype).view(size)
    return made.requires_grad_(requires_grad)


def pin_(tensor: torch.Tensor, device: Any = None) -> torch.Tensor:
    """Page-locks the memory of a tensor of the CPU where it is, until the tensor dies, and returns the tensor.

    Copies between it and a GPU then run at the speed of the link, and non_blocking=True means what it says. Nothing
    is copied: x.pin_memory() would need the memory twice. It is worth its time for memory that is copied again and
    again, such as weights that wait in host memory. The whole storage of the tensor is locked, and stays so while views
    of the tensor live. Memory that is pinned already stays as it is.

    The system locks whole pages, and CUDA refuses copies of memory that is pinned in part. So the pages of the tensor
    must be its own, or plain copies of whatever shares them would fail: it is a ValueError where they are not. They are
    those of shared memory and mapped files as a whole (of files on a disk the system may refuse it, which is a
    ValueError, too); of memory that begins and ends with a page; and of blocks that malloc has mapped by themselves: those of 32 MiB or more, with glibc, and smaller ones as it pleases, of
    128 KiB at least. For others there is pinion.torch.empty(x.shape, dtype=x.dtype).copy_(x).
    """
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"pin_ takes a tensor, not {type(tensor).__name__}")
    if tensor.device.type != "cpu" or tensor.layout != torch.strided:
        raise RuntimeError(f"cannot pin a tensor of {tensor.layout} on {tensor.device}: only dense CPU tensors can be pinned")
    lib = _lib.load()
    where = site(device)
    storage = storage_of(tensor)
    address, nbytes = storage.data_ptr(), storage.nbytes()
    if not nbytes or address in _registered or (where != b"host" and is_pinned(bytes_of(storage))):
        return tensor
    _free_waiting()
    if not owns_pages(address, nbytes):
        raise ValueError(
            f"cannot pin {nbytes} bytes at {address:#x} where they are: other memory shares a page with them. "
            "Memory of pinion.torch.empty is pinned; copy the tensor there"
        )
    handle = C.c_uint64()
    _lib.check(lib.pinion_pinned_register(where, len(where), address, nbytes, C.byref(handle)))
    _registered.add(address)
    weakref.finalize(tensor, _unpin, handle.value, address, storage).atexit = False
    return tensor


def is_pinned(tensor: torch.Tensor) -> bool:
    """Whether the memory of a dense tensor is pinned: all of it, where tensor.is_pinned looks at its first byte."""
    if not tensor.is_pinned():
        return False
    last = tensor.storage_offset() + sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride()))
    return bytes_of(storage_of(tensor))[(last + 1) * tensor.element_size() - 1 :].is_pinned()


def owns_pages(address: int, nbytes: int) -> bool:
    """Whether nobody else has memory on the pages of a block."""
    page = mmap.PAGESIZE
    start, end = address // page * page, -(-(address + nbytes) // page) * page
    return (start, end) == (address, address + nbytes) or _mapped_by_malloc(address, nbytes) or _is_file(start, end)


def _mapped_by_malloc(address: int, nbytes: int) -> bool:
    """Whether a block is what glibc's malloc has mapped for it alone."""
    # Before a block is the header: its size, whose lowest bits are flags; and before that, for a mapped block, how far
    # its mapping begins before the header. With another malloc other things are there, which do not make whole pages.
    if address % mmap.PAGESIZE < 16:
        return False  # the header would be on another page, which may not be there
    before, size = C.c_size_t.from_address(address - 16).value, C.c_size_t.from_address(address - 8).value
    whole = (address - 16 - before) % mmap.PAGESIZE == 0 and (before + (size & ~7)) % mmap.PAGESIZE == 0
    return size & 7 == 2 and whole and before < 2 * mmap.PAGESIZE and nbytes <= (size & ~7) - 16 < nbytes + 2 * mmap.PAGESIZE


def _is_file(start: int, end: int) -> bool:
    """Whether exactly these pages are those of a file, or of shared memory."""
    with open("/proc/self/maps") as f:
        # Memory that is no file's may be of several blocks: the system joins and splits mappings of it.
        return any(line.startswith(f"{start:08x}-{end:08x} ") and line.split()[4] != "0" for line in f)


def _unpin(handle: int, address: int, storage: Any) -> None:
    _registered.discard(address)
    _free(handle)
    if _waiting:  # a capture: the memory must outlive its registration
        _kept.append(storage)


def _storage_of_pytorch_1(tensor: torch.Tensor) -> Any:
    storage = tensor.storage()
    return storage.untyped() if hasattr(storage, "untyped") else storage


storage_of: Callable[[torch.Tensor], Any] = getattr(torch.Tensor, "untyped_storage", _storage_of_pytorch_1)
"""The bytes that a tensor is a view of."""


def bytes_of(storage: Any, device: torch.device | None = None) -> torch.Tensor:
    """A storage as a tensor of bytes."""
    return torch.empty(0, dtype=torch.uint8, device=device).set_(storage, 0, (storage.nbytes(),), (1,))


def pinned_stats(device: Any = None) -> dict[str, Any]:
    """What memory empty and pin_ hold for a device, in bytes."""
    _free_waiting()
    where = site(device)
    stats: dict[str, Any] = json.loads(_lib.ask(_lib.load().pinion_pinned_stats, where, len(where)))
    return stats
