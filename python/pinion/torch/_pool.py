"""PyTorch's memory pools on Pinion's allocator of device memory."""

from __future__ import annotations

from typing import Any

import torch

from .. import _errors, _lib

_allocator: Any = None


def memory_pool() -> Any:
    """A torch.cuda.MemPool whose memory comes from Pinion's allocator.

    ::

        pool = pinion.torch.memory_pool()
        with torch.cuda.use_mem_pool(pool):
            x = torch.empty(1 << 30, device="cuda")

    Pinion builds segments of pieces of physical memory, so that its free memory serves any size; it shares what is free
    with Pinion's other pools in the process.

    It is offered, and no default, for what it cannot do: PyTorch's caching allocator stays in front of it, so blocks are
    still cut out of segments by PyTorch's rules, and only segments are Pinion's; memory goes back to Pinion when the pool
    dies or torch.cuda.empty_cache() runs; nothing may be allocated from it while a CUDA graph is captured, nor on a stream
    that is destroyed later. It needs PyTorch 2.5.
    """
    global _allocator
    if not hasattr(torch.cuda, "MemPool") or not torch.cuda.is_available():
        raise _errors.UnsupportedError("a memory pool needs a GPU and PyTorch 2.5 or newer")
    if _allocator is None:
        _lib.load()
        _allocator = torch.cuda.memory.CUDAPluggableAllocator(_lib.path(), "pinion_torch_malloc", "pinion_torch_free")
    return torch.cuda.MemPool(_allocator.allocator())
