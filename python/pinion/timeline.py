"""What this process did, and when: a file for https://ui.perfetto.dev.

    with pinion.timeline.record("trace.json") as recording:
        train()
    print(recording)

It has the stages of Pinion's loaders, copies, and, by CUPTI, the kernels and copies that PyTorch and others queue on
NVIDIA GPUs. docs/timeline.md says how to read it.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import errno
import importlib.util
import json
import operator
import os
import sys
from types import TracebackType
from typing import Any

from . import _lib

__all__ = ["record"]


class record:
    """Records this process until it is stopped, and then writes path. There is one recording at a time.

    records: how many are kept, of 88 bytes each; the oldest go. Default: 1,048,576.

    A path that cannot be written is an error at once, where that can be known. Begin it before the loaders that it is about: their copies then come with the calls that queued them. PyTorch's
    profiler and Nsight Systems use CUPTI, too, which has one user in a process: while one of them is on, the work of
    PyTorch is left out, and the report says so.
    """

    report: dict[str, Any] | None = None
    """Once it is stopped: how well the work overlapped, as otherData.overlap of the file has it."""

    def __init__(self, path: str | os.PathLike[str], *, records: int | None = None) -> None:
        if records is not None and not 4096 <= operator.index(records) < 1 << 31:
            raise ValueError(f"records is {records}, but must be from 4096 to {(1 << 31) - 1}")
        if not os.fspath(path):
            raise ValueError("path is empty, but must name a file")
        self._path = os.path.abspath(os.fsdecode(path))
        # What cannot be written is better known now than once the program is over.
        if os.path.isdir(self._path):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), self._path)
        if not os.path.isdir(folder := os.path.dirname(self._path)):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), folder)
        self._text = f"Timeline, for {self._path}, goes on\n"
        arguments = json.dumps({"records": 0 if records is None else operator.index(records)}).encode()
        _preload()
        _lib.check(_lib.load().pinion_timeline_start(arguments, len(arguments)))
        _active.append(self)

    def stop(self) -> dict[str, Any] | None:
        """Ends it once the GPU has done what is queued, writes the file and returns the report. A second stop does nothing
        but that. In a forked child it is None."""
        if self not in _active:
            return self.report
        lib = _lib.loaded()
        if lib is None:
            return None
        with contextlib.suppress(RuntimeError):  # work that failed: its own program hears of it
            _settle()  # an interrupt of it leaves the recording on: it can be stopped again
        try:
            _active.remove(self)
        except ValueError:  # another thread was first
            return self.report
        self._text = f"Timeline, for {self._path}, is over, without a report\n"
        path = _lib.path_bytes(self._path)
        found = json.loads(_lib.ask(lib.pinion_memory_text, _lib.run(lib.pinion_timeline_stop, path, len(path))))
        self.report, self._text = found["report"], found["text"]
        return self.report

    def __str__(self) -> str:
        return self._text

    def __enter__(self) -> record:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()


_active: list[record] = []


@atexit.register
def _stop() -> None:
    for each in list(_active):
        each.stop()


def _preload() -> None:
    """Loads the CUPTI of NVIDIA's wheels, which the library finds when the process has it: PyTorch, once it is imported,
    brings the same one."""
    global _cupti
    if _cupti is not None or "torch" in sys.modules or os.environ.get("PINION_LIB_CUPTI"):
        return
    try:
        spec = importlib.util.find_spec("nvidia")
    except ValueError:  # a module that was made by hand
        return
    for folder in (spec and spec.submodule_search_locations) or ():
        for name in ("cu13/lib/libcupti.so.13", "cuda_cupti/lib/libcupti.so.12"):
            with contextlib.suppress(OSError):
                _cupti = ctypes.CDLL(os.path.join(folder, name))
                return


_cupti: ctypes.CDLL | None = None


def _settle() -> None:
    """Waits for what PyTorch has queued: CUPTI tells of work that has ended."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda is None or not getattr(cuda, "is_initialized", bool)() or _capturing(cuda):
        return
    for i in range(cuda.device_count()):
        if i == cuda.current_device() or cuda.memory_reserved(i):  # others may have no context, and get none
            cuda.synchronize(i)


def _capturing(cuda: Any) -> bool:
    return bool(getattr(cuda, "is_current_stream_capturing", bool)())
