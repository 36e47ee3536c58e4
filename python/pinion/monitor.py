"""What Pinion holds and does in this process, and who else may see it.

    with pinion.monitor.watch():
        train()

`pinion top`, in another terminal, shows every process that uses Pinion: what its
loaders wait for, what moves, what its memory is used for. watch() adds what
PyTorch's own allocator holds, and serve() shows all of it in a browser.

The processes are found by a Unix socket that only their user can open. PINION_TOP=off
in the environment turns that off; nothing is sent anywhere.
"""

from __future__ import annotations

import atexit
import ctypes as C
import json
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from . import _lib

__all__ = ["offer", "serve", "snapshot", "watch", "withdraw"]


def snapshot() -> dict[str, Any]:
    """What Pinion holds and has done in this process, as `pinion top --json` shows it.

    Lists by device: "vram" (device memory by purpose), "pinned", "transfer" (copies by direction and path), "tier", "loader"
    (with the time of each stage), and "foreign", which is what watch() adds. Amounts, such as reserved_bytes, are those of
    now; counts, such as copies, only grow, over "seconds" of time.
    """
    lib = _lib.load()
    with _lock:
        if _watches:
            _tell(lib)
    found: dict[str, Any] = json.loads(_lib.ask(lib.pinion_monitor_snapshot))
    return found


def offer() -> None:
    """Shows this process in `pinion top`, as the first use of Pinion does by itself. It raises what went wrong there."""
    _lib.check(_lib.load().pinion_monitor_offer())


def withdraw() -> None:
    """Shows this process in `pinion top` no more."""
    _lib.check(_lib.load().pinion_monitor_withdraw())


class watch:
    """Adds the figures of PyTorch's CUDA allocator to the snapshots of this process, until it is stopped.

        with pinion.monitor.watch():
            ...

    or, for as long as the process lives, pinion.monitor.watch(). They are read in a thread, every so many seconds, once
    PyTorch uses CUDA; a reading takes a fraction of a millisecond and queues nothing on the device.

    While somebody looks at the dashboard (see serve), PyTorch's segments and blocks are read too, for the allocation map and
    the top holders; that takes at most a twentieth of the time. Who allocated them is known from
    torch.cuda.memory._record_memory_history("state", stacks="python") on.
    """

    def __init__(self, interval: float = 1.0) -> None:
        if not interval > 0:
            raise ValueError(f"interval is {interval}, but must be above 0, in seconds")
        _lib.load()
        self._interval = min(interval, threading.TIMEOUT_MAX)
        self._end = threading.Event()
        self._map_at = 0.0  # when the blocks may be read again
        self._thread = threading.Thread(target=self._run, name="pinion.monitor.watch", daemon=True)
        with _lock:
            _watches.add(self)
        self._thread.start()

    def stop(self) -> None:
        """Ends it. The figures go with the last watch."""
        self._end.set()
        with _lock:
            _watches.discard(self)
            lib = _lib.loaded()
            if lib is not None and not _watches:
                _lib.check(lib.pinion_monitor_foreign(b"[]", 2))
                _lib.check(lib.pinion_monitor_memory(b"[]", 2))
        if self._thread is not threading.current_thread():
            self._thread.join(1)  # it may be waiting for PyTorch's lock

    def __enter__(self) -> watch:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def _run(self) -> None:
        while True:
            with _lock:
                lib = _lib.loaded()
                if lib is None or self not in _watches:
                    return
                _tell(lib)
                if time.monotonic() >= self._map_at and _watched(lib):
                    begin = time.monotonic()
                    _tell_blocks(lib)
                    self._map_at = time.monotonic() + 20 * (time.monotonic() - begin)
            if self._end.wait(self._interval):
                return


class serve:
    """Serves the dashboard of this process, until it is stopped: one page, live, with what Pinion and PyTorch hold and do.

        with pinion.monitor.serve(8080) as page:
            print(page.url)
            train()

    Only programs of this machine reach it; from another one, forward the port: ssh -L 8080:localhost:8080 gpu7. Port 0 takes a
    free one. It raises PinionError if the port is in use, or if the dashboard is served already. It watches PyTorch, too.
    """

    url: str  # where it is

    def __init__(self, port: int = 0) -> None:
        if not 0 <= port < 1 << 16:
            raise ValueError(f"port is {port}, but must be 0 to 65535")
        lib = _lib.load()
        self.url = _lib.ask(lib.pinion_monitor_serve, port)
        self._watch = watch()
        _served.append(self)

    def stop(self) -> None:
        """Ends it. A second call does nothing."""
        if self not in _served:
            return
        _served.remove(self)
        self._watch.stop()
        lib = _lib.loaded()
        if lib is not None:
            _lib.check(lib.pinion_monitor_unserve())

    def __enter__(self) -> serve:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()


_lock = threading.Lock()
_watches: set[watch] = set()
_served: list[serve] = []  # one at most
_unreadable = False  # what PyTorch says was, and that was told


def _forget() -> None:
    """In a forked child: its parent's threads are not there, and one of them may have had the lock."""
    global _lock
    _lock = threading.Lock()
    _watches.clear()
    _served.clear()


os.register_at_fork(after_in_child=_forget)


@atexit.register
def _stop() -> None:
    for page in list(_served):
        page.stop()
    for each in list(_watches):
        each.stop()


def _read(what: Callable[[], list[dict[str, Any]]]) -> bytes:
    """What PyTorch says, as JSON: nothing while it cannot be read, which is logged once. The next time it may be there."""
    global _unreadable
    try:
        return json.dumps(what()).encode()
    except Exception as e:
        if not _unreadable:
            _unreadable = True
            logging.getLogger(__name__).warning("PyTorch's memory cannot be read: %s: %s", type(e).__name__, e)
        return b"[]"


def _tell(lib: Any) -> None:
    text = _read(_torch)
    _lib.check(lib.pinion_monitor_foreign(text, len(text)))


def _watched(lib: Any) -> bool:
    yes = C.c_int32()
    _lib.check(lib.pinion_monitor_watched(C.byref(yes)))
    return bool(yes.value)


def _tell_blocks(lib: Any) -> None:
    text = _read(_blocks)
    _lib.check(lib.pinion_monitor_memory(text, len(text)))


def _cuda() -> Any:
    """torch.cuda, if the program uses it."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)  # while torch is being imported it may have none
    return cuda if cuda is not None and getattr(cuda, "is_initialized", bool)() else None


_STATES = {"active_allocated": "live", "active_pending_free": "pending", "active_awaiting_free": "pending"}
_FRAMES = 16  # of a stack, from the innermost on


def _blocks() -> list[dict[str, Any]]:
    """PyTorch's segments and blocks, by GPU, as monitor.ForeignMemory."""
    cuda = _cuda()
    if cuda is None:
        return []
    try:
        try:
            segments = cuda.memory.memory_snapshot(include_traces=False)  # since PyTorch 2.10: without the history, which is long
        except TypeError:
            segments = cuda.memory.memory_snapshot()
    except RuntimeError:  # another allocator in its place does not tell
        return []
    devices: dict[int, dict[str, Any]] = {}
    stacks: dict[tuple[Any, ...], int] = {}
    streams: dict[int, int] = {0: 0}
    for segment in segments:
        device = segment["device"]
        memory = devices.setdefault(device, {"source": "pytorch", "device": f"cuda:{device}", "segments": [], "stacks": []})
        out: dict[str, Any] = {}
        at = None
        for block in segment["blocks"]:
            address = block.get("address", segment["address"] if at is None else at)  # since PyTorch 2.1
            if address != at:  # memory that is not mapped lies between
                stream = streams.setdefault(segment.get("stream", 0), len(streams))
                out = {"address": address, "stream": stream, "blocks": []}
                memory["segments"].append(out)
            at = address + block["size"]
            state = _STATES.get(block["state"], "free")
            x = {"bytes": block["size"], "state": state}
            if state != "free":
                x["requested_bytes"] = min(block.get("requested_size", block["size"]), block["size"])
                frames = block.get("frames") or (block.get("history") or [{}])[-1].get("frames") or []
                if frames:
                    _add_stack(x, frames, memory["stacks"], stacks, device)
            out["blocks"].append(x)
    return [devices[d] for d in sorted(devices)]


def _add_stack(x: dict[str, Any], frames: list[Any], texts: list[Any], stacks: dict[tuple[Any, ...], int], device: int) -> None:
    """Names a block by the innermost line that is not PyTorch's own, and gives it its stack, each of which is sent once."""
    frames = [(f["name"], f["filename"], f["line"]) for f in frames[:_FRAMES]]
    key = (device, *frames)
    if key not in stacks:
        texts.append([f"{name} {file}:{line}" for name, file, line in frames])
        stacks[key] = len(texts)
    x["stack"] = stacks[key]
    name, file, line = next((f for f in frames if f[1].endswith((".py", ">")) and "/torch/" not in f[1]), frames[0])
    x["name"] = f"{name} {os.path.basename(file)}:{line}"


def _torch() -> list[dict[str, Any]]:
    """What PyTorch's allocator holds, for each GPU on which that is something."""
    cuda = _cuda()
    if cuda is None:
        return []
    found = []
    for i in range(cuda.device_count()):
        try:
            stats = cuda.memory_stats(i)
        except RuntimeError:  # another allocator in its place does not tell, Pinion's for one
            continue
        if not stats.get("allocation.all.allocated"):
            continue
        allocated = stats["allocated_bytes.all.current"]
        found.append({
            "source": "pytorch",
            "device": f"cuda:{i}",
            "reserved_bytes": stats["reserved_bytes.all.current"],
            "allocated_bytes": allocated,
            "requested_bytes": stats.get("requested_bytes.all.current", allocated),  # since PyTorch 2.0
            "active_bytes": stats["active_bytes.all.current"],
            "fragmented_bytes": stats["inactive_split_bytes.all.current"],
            "blocks": stats["allocation.all.current"],
            "allocations": stats["allocation.all.allocated"],
            "frees": stats["allocation.all.freed"],
            "driver_calls": stats["segment.all.allocated"] + stats["segment.all.freed"],
            "retries": stats["num_alloc_retries"],
            "out_of_memory": stats["num_ooms"],
        })  # fmt: skip
    return found
