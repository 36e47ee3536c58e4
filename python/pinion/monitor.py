"""What Pinion holds and does in this process, and who else may see it.

    with pinion.monitor.watch():
        train()

`pinion top`, in another terminal, shows every process that uses Pinion: what its
loaders wait for, what moves, what its memory is used for. watch() adds what
PyTorch's own allocator holds.

The processes are found by a Unix socket that only their user can open. PINION_TOP=off
in the environment turns that off; nothing is sent anywhere.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import threading
from types import TracebackType
from typing import Any

from . import _lib

__all__ = ["offer", "snapshot", "watch", "withdraw"]


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
    """

    def __init__(self, interval: float = 1.0) -> None:
        if not interval > 0:
            raise ValueError(f"interval is {interval}, but must be above 0, in seconds")
        _lib.load()
        self._interval = min(interval, threading.TIMEOUT_MAX)
        self._end = threading.Event()
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
            if self._end.wait(self._interval):
                return


_lock = threading.Lock()
_watches: set[watch] = set()


def _forget() -> None:
    """In a forked child: its parent's threads are not there, and one of them may have had the lock."""
    global _lock
    _lock = threading.Lock()
    _watches.clear()


os.register_at_fork(after_in_child=_forget)


@atexit.register
def _stop() -> None:
    for each in list(_watches):
        each.stop()


def _tell(lib: Any) -> None:
    text = json.dumps(_torch()).encode()
    _lib.check(lib.pinion_monitor_foreign(text, len(text)))


def _torch() -> list[dict[str, Any]]:
    """What PyTorch's allocator holds, for each GPU on which that is something."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)  # while torch is being imported it may have none
    if cuda is None or not getattr(cuda, "is_initialized", bool)():
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
