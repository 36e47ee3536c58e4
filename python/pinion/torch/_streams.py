"""What the offloader needs of a device: streams, events, memory and copies. Tests put one of their own in its place."""

from __future__ import annotations

from typing import Any

import torch

from . import _memory


class Cuda:
    """CUDA by PyTorch."""

    def __init__(self) -> None:
        self._streams: dict[tuple[torch.device, str], torch.cuda.Stream] = {}

    def has(self, device: torch.device) -> bool:
        """Whether tensors on a device may travel now."""
        return device.type == "cuda" and not torch.cuda.is_current_stream_capturing()

    def current(self, device: torch.device) -> Any:
        """The stream that computes."""
        return torch.cuda.current_stream(device)

    def copies(self, device: torch.device, way: str) -> Any:
        """The stream of copies "out" to the host or "back"."""
        stream = self._streams.get((device, way))
        if stream is None:
            stream = self._streams[device, way] = torch.cuda.Stream(device)
        return stream

    def mark(self, stream: Any, timing: bool = False) -> Any:
        """An event behind what is queued on a stream."""
        event = torch.cuda.Event(enable_timing=timing)
        event.record(stream)
        return event

    def wait(self, stream: Any, event: Any) -> None:
        """Makes a stream wait for an event."""
        stream.wait_event(event)

    def copy(self, to: torch.Tensor, of: torch.Tensor, stream: Any) -> None:
        with torch.cuda.stream(stream):
            to.copy_(of, non_blocking=True)

    def device_bytes(self, n: int, device: torch.device) -> torch.Tensor:
        """Memory for the stream that computes."""
        return torch.empty(n, dtype=torch.uint8, device=device)

    def host_bytes(self, n: int, device: torch.device) -> torch.Tensor:
        return _memory.allocate(n, _memory.site(device))

    def host_available(self) -> int:
        """Bytes of host memory that this process may still take."""
        return int(_memory.pinned_stats()["available_bytes"])

    def also_on(self, tensor: torch.Tensor, stream: Any) -> None:
        """Says that a tensor is used on another stream than that of its memory."""
        tensor.record_stream(stream)

    def passed(self, event: Any) -> bool:
        return bool(event.query())

    def finish(self, event: Any) -> None:
        """Waits for an event."""
        event.synchronize()

    def seconds(self, start: Any, end: Any) -> float:
        return float(start.elapsed_time(end)) / 1000
