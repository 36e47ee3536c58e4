"""Copies of pageable memory at the speed of the link, in the order of PyTorch's current stream."""

from __future__ import annotations

from typing import Any

import torch

from .. import _errors, _lib
from . import _memory

SMALL = 1 << 20
"""Bytes below which PyTorch's own copy is as good."""


def _run(where: bytes, host: int, device: int, nbytes: int, to_host: bool, stream: int) -> None:
    """One copy."""
    _lib.run_to_end(_lib.load().pinion_copy, where, len(where), host, device, nbytes, to_host, stream)


def _stream(device: torch.device) -> int:
    return int(torch.cuda.current_stream(device).cuda_stream) if device.type == "cuda" else -1


def _dense(tensor: torch.Tensor) -> bool:
    """Whether the elements fill a part of the memory without a gap, in whatever order."""
    sizes = sorted((stride, size) for stride, size in zip(tensor.stride(), tensor.shape) if size != 1)
    want = 1
    for stride, size in sizes:
        if stride != want:
            return False
        want *= size
    return True


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor whose bytes say what it is: dense, no lazy conjugate or negative."""
    tensor = tensor.detach().resolve_conj().resolve_neg()
    if _dense(tensor):
        return tensor
    return torch.empty_like(tensor, memory_format=torch.contiguous_format).copy_(tensor)


def _target(device: Any) -> torch.device:
    d = torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
    _errors.need_gpu(torch, d)
    if d.type == "cuda" and d.index is None:
        d = torch.device("cuda", torch.cuda.current_device())
    if d.type not in ("cuda", "cpu"):
        raise ValueError(f"the device is {d}, but must be a CUDA device or the CPU")
    return d


class _ToDevice(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, device: torch.device) -> torch.Tensor:  # type: ignore[override]
        ctx.back = tensor.device
        return _up(tensor, device)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:  # type: ignore[override]
        return gradient.to(ctx.back), None


def _up(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    source = _plain(tensor)
    made = torch.empty_strided(source.shape, source.stride(), dtype=source.dtype, device=device)
    nbytes = source.numel() * source.element_size()
    if nbytes:
        _run(_memory.site(device), source.data_ptr(), made.data_ptr(), nbytes, False, _stream(device))
    return made


def to_device(data: Any, device: Any = "cuda", non_blocking: bool = False) -> torch.Tensor:
    """A copy of a tensor or an array on a device, as of tensor.to(device): at the speed of the link from pageable memory.

    PyTorch leaves pageable memory to the driver, which gets a fifth of the link. Here it goes through pinned slots, by
    several threads at once. What gains nothing by that (pinned memory, less than 1 MiB, sparse tensors, tensors on
    another device) PyTorch copies.

    data: a torch.Tensor, a NumPy array, or what torch.as_tensor takes.
    device: "cuda", "cuda:1", a torch.device, a number, or "cpu", for which the result is a copy all the same.
    non_blocking: of pinned memory, return when the copy is queued. Pageable memory has been read when the call returns,
        whatever is said here, so it may change.

    The copy takes its place in the order of the current stream of the device. Strides are kept as tensor.to keeps them;
    gradients flow.
    """
    where = _target(device)
    tensor = data if isinstance(data, torch.Tensor) else torch.as_tensor(data)
    nbytes = tensor.numel() * tensor.element_size() if tensor.layout == torch.strided else 0
    if where.type == "cuda" and (
        tensor.device.type != "cpu" or type(tensor) not in _known or nbytes < SMALL or _memory.is_pinned(tensor)
    ):
        return tensor.to(where, non_blocking=non_blocking)
    if where.type == "cpu" or not nbytes:
        return tensor.to(where, copy=True)
    if tensor.requires_grad and torch.is_grad_enabled():
        return _ToDevice.apply(tensor, where)  # type: ignore[no-any-return]
    return _up(tensor, where)


_known = (torch.Tensor, torch.nn.Parameter)  # not what behaves as a tensor and is something else


def to_host(tensor: torch.Tensor, out: torch.Tensor | None = None, non_blocking: bool = False) -> torch.Tensor:
    """A copy of a tensor in host memory, as of tensor.cpu(): at the speed of the link into pageable memory.

    out: a CPU tensor to copy into, as out.copy_(tensor) does. Memory that was written before is the fastest: pages that
        are new cost more than the copy.
    non_blocking: into pinned out, return when the copy is queued; it is there when the current stream is done with it.

    The copy takes its place in the order of the current stream of the tensor's device.
    """
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"to_host takes a tensor, not {type(tensor).__name__}")
    if out is not None and out.device.type != "cpu":
        raise ValueError(f"out is on {out.device}, but must be on the CPU")
    if tensor.requires_grad and torch.is_grad_enabled():
        return tensor.cpu() if out is None else out.copy_(tensor, non_blocking=non_blocking)
    if tensor.layout != torch.strided or type(tensor) not in _known or tensor.device.type not in ("cuda", "cpu"):
        return tensor.cpu() if out is None else out.copy_(tensor)
    source = _plain(tensor)
    nbytes = source.numel() * source.element_size()
    if out is None:
        out = torch.empty_strided(source.shape, source.stride(), dtype=source.dtype)
    elif (
        out.dtype != source.dtype or out.shape != source.shape or out.stride() != source.stride() or out.is_conj() or out.is_neg()
        or (out.requires_grad and torch.is_grad_enabled())
    ):  # fmt: skip
        return out.copy_(tensor, non_blocking=non_blocking)
    if not nbytes:
        return out
    if source.device.type == "cpu" or nbytes < SMALL or _memory.is_pinned(out):
        return out.copy_(source, non_blocking=non_blocking)
    return _down(source, out)


def _down(source: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    nbytes = source.numel() * source.element_size()
    _run(_memory.site(source.device), out.data_ptr(), source.data_ptr(), nbytes, True, _stream(source.device))
    if out.dim():
        out.narrow(0, 0, 0).zero_()  # so that autograd knows that it was written
    return out
