"""Pinion for programs that have tensors already: pinned memory, copies, and activations that wait in host memory.

    x = pinion.torch.empty(1024, 1024, pin_memory=True)  # exactly 4 MiB of page-locked memory
    y = pinion.torch.to_device(features, "cuda")         # pageable memory, at the speed of the link
    z = pinion.torch.sliding_window(volume, 128, 4, model, overlap=0.5, mode="gaussian", sw_device="cuda")

    offload = pinion.torch.offload(hide=True)
    for batch in loader:
        with offload:
            loss = model(batch)
        loss.backward()
"""

from ._copy import to_device, to_host
from ._load import load
from ._memory import empty, pin_, pinned_stats
from ._offload import offload
from ._pool import memory_pool
from ._window import sliding_window

__all__ = ["empty", "load", "memory_pool", "offload", "pin_", "pinned_stats", "sliding_window", "to_device", "to_host"]
