"""Where GPU memory went, and how large a batch fits.

    torch.cuda.memory._record_memory_history()
    ...
    torch.cuda.memory._dump_snapshot("run.pickle")
    print(pinion.memory.leaks("run.pickle"))
    print(pinion.memory.replay("run.pickle")["torch_expandable"])

    batch_size = pinion.memory.fit_batch_size(train_step, start=8)
"""

from __future__ import annotations

import contextlib
import gc
import gzip
import json
import os
import pickle
import random
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import _lib

__all__ = ["Leak", "Leaks", "fit_batch_size", "leaks", "replay"]


def replay(snapshot: str | os.PathLike[str] | Mapping[str, Any], *, capacity: int | None = None, device: int | None = None) -> dict[str, Any]:
    """What allocators would reserve for the allocations that a run made.

    snapshot: what torch.cuda.memory._snapshot() returned or _dump_snapshot() wrote, best with a history; or another file
        that ``pinion replay`` reads.
    capacity: bytes of the GPU. Default: those of the current one, or 80 GiB.
    device: of a snapshot of several. Default: the one with most events.

    The result has the peak of the live bytes, and for "pinion" (its pool), "torch" (PyTorch's allocator by default,
    simulated by its rules) and "torch_expandable" (with expandable_segments:True) the peak of the reserved bytes, that
    over the live ones ("fragmentation"), and how many allocations would have failed ("ooms").
    """
    if capacity is None:
        torch = sys.modules.get("torch")
        capacity = torch.cuda.mem_get_info()[1] if torch is not None and torch.cuda.is_available() else 80 << 30
    if capacity < 1:
        raise ValueError(f"capacity is {capacity}, but must be at least 1")
    with _file(snapshot) as path:
        text = json.dumps({"path": path, "device": device, "capacity": capacity}).encode()
        lib = _lib.load()
        found: dict[str, Any] = json.loads(_lib.ask(lib.pinion_memory_text, _lib.run(lib.pinion_memory_replay, text, len(text))))
        return found


@contextlib.contextmanager
def _file(snapshot: Any) -> Iterator[str]:
    if not isinstance(snapshot, Mapping):
        yield _lib.name(snapshot)
        return
    with tempfile.NamedTemporaryFile(suffix=".pickle") as f:
        pickle.dump(dict(snapshot), f)
        f.flush()
        yield f.name


class _Plain(pickle.Unpickler):
    """Reads what a snapshot has, and runs nothing."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"a snapshot has no {module}.{name}")


def _read(snapshot: Any) -> Mapping[str, Any]:
    if isinstance(snapshot, Mapping):
        return snapshot
    with open(snapshot, "rb") as f:
        packed = f.read(2) == b"\x1f\x8b"
        f.seek(0)
        try:
            found = _Plain(gzip.open(f) if packed else f).load()
        except (pickle.UnpicklingError, EOFError, OSError, IndexError, KeyError, AttributeError, ValueError, TypeError) as e:
            raise ValueError(f"{os.fspath(snapshot)} is no snapshot of torch.cuda.memory: {e}") from None
    if not isinstance(found, Mapping) or not isinstance(found.get("device_traces"), list):
        raise ValueError(f"{os.fspath(snapshot)} is no snapshot of torch.cuda.memory: it has no device_traces")
    return found


@dataclass(frozen=True)
class Leak:
    """Memory that one place of a program allocated, and that was there at the end."""

    bytes: int
    blocks: int
    growing: bool
    """Whether the blocks come from three or all quarters of the history: a little is left behind again and again."""
    stack: tuple[str, ...]
    """Where, the innermost first: "train.py:12 in step". Empty where the history has no stacks."""


@dataclass(frozen=True)
class Leaks:
    """What leaks found."""

    leaks: tuple[Leak, ...]
    """The growing ones first, then by size."""
    bytes: int
    """That were allocated within the history and are there at the end."""
    older_bytes: int
    """That were there before it began, and still are."""
    events: int

    def __str__(self) -> str:
        lines = [f"{_gib(self.bytes)} of the recorded allocations are live, and {_gib(self.older_bytes)} from before."]
        for leak in self.leaks[:20]:
            lines.append(f"{_gib(leak.bytes)} in {leak.blocks} blocks{', growing' if leak.growing else ''}")
            lines += [f"    {frame}" for frame in leak.stack[:8]] or ["    (no stack was recorded)"]
        if len(self.leaks) > 20:
            lines.append(f"and {len(self.leaks) - 20} more places")
        return "\n".join(lines)


def _gib(n: int) -> str:
    return f"{n / 2**30:.2f} GiB" if n >= 1 << 30 else f"{n / 2**20:.2f} MiB"


def leaks(snapshot: str | os.PathLike[str] | Mapping[str, Any], *, device: int | None = None) -> Leaks:
    """What was allocated in a run and is still there, by the place that allocated it.

    snapshot: as in replay, with a history: call torch.cuda.memory._record_memory_history() first.
    device: of a snapshot of several. Default: the one with most events.

    Not everything is a leak: the state of an optimizer stays too. What grows does not belong there.
    """
    found = _read(snapshot)
    traces: list[list[Mapping[str, Any]]] = list(found["device_traces"])
    if device is None:
        device = max(range(len(traces)), key=lambda i: len(traces[i])) if traces else 0
    elif not 0 <= device < len(traces):
        raise ValueError(f"device is {device}, but the snapshot has {len(traces)}")
    events = traces[device] if traces else []
    live: dict[Any, tuple[int, Mapping[str, Any]]] = {}
    touched: set[Any] = set()
    for i, event in enumerate(events):
        action, address = event.get("action"), event.get("addr")
        if action == "alloc":
            live[address] = i, event
            touched.add(address)
        elif action in ("free_requested", "free_completed"):
            live.pop(address, None)
            touched.add(address)
    older = 0
    for segment in found.get("segments", ()):
        if segment.get("device", 0) != device:
            continue
        address = segment.get("address", 0)
        for block in segment.get("blocks", ()):
            start = block.get("address", address)
            address = start + block["size"]
            if block.get("state") == "active_allocated" and start not in touched:
                older += block.get("requested_size", block["size"])
    places: dict[tuple[str, ...], list[tuple[int, int]]] = {}
    for i, event in live.values():
        stack = tuple(_frame(frame) for frame in event.get("frames", ()))
        places.setdefault(stack, []).append((i, event["size"]))
    result = []
    for stack, blocks in places.items():
        quarters = {4 * i // len(events) for i, _ in blocks}
        result.append(Leak(sum(size for _, size in blocks), len(blocks), len(quarters) >= 3, stack))
    result.sort(key=lambda leak: (not leak.growing, -leak.bytes, leak.stack))
    return Leaks(tuple(result), sum(leak.bytes for leak in result), older, len(events))


def _frame(frame: Any) -> str:
    if isinstance(frame, Mapping):
        return f"{frame.get('filename', '?')}:{frame.get('line', 0)} in {frame.get('name', '?')}"
    return str(frame)


_texts = ("out of memory", "DefaultCPUAllocator", "CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED")


def _is_memory(error: BaseException) -> bool:
    """Whether an error says that memory is short, of the device or the host."""
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and any(t in str(error) for t in _texts))


def fit_batch_size(
    fn: Callable[[int], Any],
    start: int = 1,
    *,
    max_batch_size: int | None = None,
    multiple_of: int = 1,
    steps: int = 2,
    headroom: float = 0.0,
    restore: Sequence[Any] = (),
    device: Any = None,
) -> int:
    """The largest batch size with which a function runs in the memory of the GPU.

    fn: runs one step with a batch size: makes a batch, forward, backward, optimizer. What it returns is not used.
    start: the first size that is tried. It is doubled while that works; then the sizes between are halved.
    max_batch_size: the largest that is tried. Default: no limit; then fn must run out of memory somewhere.
    multiple_of: sizes are multiples of it.
    steps: how often fn runs with a size: optimizers take memory in their first step, so that the second needs more.
    headroom: what part of the device's memory must stay free, such as 0.05 for fragmentation and longer samples.
    restore: models and optimizers (what has state_dict and load_state_dict) that get their state back in the end. Copies
        wait in host memory.
    device: the GPU. Default: the current one.

    Running out of memory does not end the process: between trials everything is freed and the allocator's cache emptied.
    Random numbers go on as if nothing had been tried. Other exceptions arrive as they are. If not even the smallest size
    runs, its exception arrives.
    """
    if start < 1 or multiple_of < 1 or steps < 1 or not 0 <= headroom < 1:
        raise ValueError(f"start is {start}, multiple_of {multiple_of}, steps {steps}, headroom {headroom}: at least 1, 1, 1, and from 0 to below 1")
    largest = None if max_batch_size is None else max_batch_size // multiple_of
    if largest is not None and largest < 1:
        raise ValueError(f"max_batch_size is {max_batch_size}, but must be at least multiple_of, {multiple_of}")
    torch = sys.modules.get("torch")
    gpu = torch if torch is not None and torch.cuda.is_available() else None
    states = [(x, _to_host(x.state_dict())) for x in restore]
    numbers = _Random(torch)
    try:

        def works(n: int) -> bool:
            numbers.restore()
            _clear(gpu)
            return _try(fn, n * multiple_of, steps, headroom, gpu, device)

        good, bad = 0, None  # in units of multiple_of
        n = max(1, start // multiple_of)
        if largest is not None:
            n = min(n, largest)
        while bad is None:
            if works(n):
                good = n
                if n == largest:
                    break
                n = 2 * n if largest is None else min(2 * n, largest)
            else:
                bad = n
        while bad is not None and bad - good > 1:
            middle = (good + bad) // 2
            if works(middle):
                good = middle
            else:
                bad = middle
        if not good:
            numbers.restore()
            _clear(gpu)
            fn(multiple_of)  # so that its own exception arrives
            raise MemoryError(f"a batch of {multiple_of} leaves less than {headroom:.0%} of the device's memory")
        return good * multiple_of
    finally:
        for x, state in states:
            x.load_state_dict(state)
        _clear(gpu)
        numbers.restore()


def _try(fn: Callable[[int], Any], batch_size: int, steps: int, headroom: float, gpu: Any, device: Any) -> bool:
    try:
        for _ in range(steps):
            fn(batch_size)
        if gpu is None:
            return True
        gpu.cuda.synchronize(device)
        free, total = gpu.cuda.mem_get_info(device)
        return bool(free >= headroom * total)
    except Exception as e:
        if not _is_memory(e):
            raise
        return False  # and with e go the frames that hold tensors


def _clear(gpu: Any) -> None:
    gc.collect()
    if gpu is not None:
        gpu.cuda.empty_cache()


def _to_host(x: Any) -> Any:
    """A copy of a state, in host memory."""
    if hasattr(x, "detach") and hasattr(x, "clone"):
        return x.detach().to("cpu", copy=True)
    if isinstance(x, Mapping):
        return {k: _to_host(v) for k, v in x.items()}
    if isinstance(x, (list, tuple)):
        return type(x)(_to_host(v) for v in x)
    return x


class _Random:
    """The state of all generators of random numbers."""

    def __init__(self, torch: Any) -> None:
        self.torch, self.numpy = torch, sys.modules.get("numpy")
        self.python = random.getstate()
        self.numpy_state = self.numpy.random.get_state() if self.numpy is not None else None
        self.cpu = torch.get_rng_state() if torch is not None else None
        self.cuda = torch.cuda.get_rng_state_all() if torch is not None and torch.cuda.is_available() else None

    def restore(self) -> None:
        random.setstate(self.python)
        if self.numpy is not None:
            self.numpy.random.set_state(self.numpy_state)
        if self.cpu is not None:
            self.torch.set_rng_state(self.cpu)
        if self.cuda is not None:
            self.torch.cuda.set_rng_state_all(self.cuda)
