"""libpinion by ctypes: the Python side of capi/pinion.h.

A runtime of Go begins to run when the library is loaded, so that is put off
until something needs it: use load(), never the library of a global variable.
"""

from __future__ import annotations

import atexit
import ctypes as C
import os
import threading
from collections.abc import Callable
from typing import Any, NoReturn

from . import _errors

ABI = 5
ARRAYS, DIMS = 12, 8
OK, END, WAIT, MEMORY = 0, 1, 2, 3
FRESH, CAPTURE = 1, 2
SAMPLES, LABELS, LENGTHS, MASK, MIX, TARGET, TARGET_LENGTHS = range(7)

POLL = 100
"""Milliseconds for which a call may keep signals waiting."""


class Array(C.Structure):
    """pinion_array."""

    _fields_ = [
        ("data", C.c_uint64), ("role", C.c_int32), ("ndim", C.c_int32),
        ("code", C.c_uint8), ("bits", C.c_uint8), ("lanes", C.c_uint16),
        ("device_type", C.c_int32), ("device_id", C.c_int32), ("shape", C.c_int64 * DIMS),
    ]  # fmt: skip


class Batch(C.Structure):
    """pinion_batch."""

    _fields_ = [
        ("hold", C.c_void_p),
        ("epoch", C.c_int32), ("number", C.c_int32), ("arrays", C.c_int32), ("_", C.c_int32),
        ("array", Array * ARRAYS),
    ]  # fmt: skip


# name: result, arguments. One table for each file of capi.
_core: dict[str, tuple[Any, list[Any]]] = {
    "pinion_abi": (C.c_int, []),
    "pinion_forked": (C.c_int, []),
    "pinion_message": (C.c_char_p, []),
    "pinion_detail": (C.c_char_p, []),
    "pinion_free": (None, [C.c_void_p]),
    "pinion_holds": (C.c_int64, []),
    "pinion_retain": (None, [C.c_void_p]),
    "pinion_release": (None, [C.c_void_p]),
    "pinion_python": (None, [C.c_void_p, C.c_void_p, C.c_void_p, C.c_void_p]),
    "pinion_test_panic": (C.c_int, []),
    "pinion_task_wait": (C.c_int, [C.c_uint64, C.c_int32, C.POINTER(C.c_uint64)]),
    "pinion_task_cancel": (C.c_int, [C.c_uint64]),
}
_loader: dict[str, tuple[Any, list[Any]]] = {
    "pinion_loader_open": (C.c_int, [C.c_char_p, C.c_int64, C.POINTER(C.c_uint64)]),
    "pinion_loader_next": (C.c_int, [C.c_uint64, C.c_int32, C.c_int32, C.c_int64, C.c_void_p]),
    "pinion_loader_close": (C.c_int, [C.c_uint64, C.POINTER(C.c_uint64)]),
    "pinion_loader_state": (C.c_int, [C.c_uint64, C.POINTER(C.c_void_p)]),
    "pinion_loader_resume": (C.c_int, [C.c_uint64, C.c_char_p, C.c_int64, C.POINTER(C.c_uint64)]),
    "pinion_loader_seek": (C.c_int, [C.c_uint64, C.c_int64, C.c_int32, C.c_int32, C.POINTER(C.c_uint64)]),
    "pinion_loader_stats": (C.c_int, [C.c_uint64, C.POINTER(C.c_void_p)]),
    "pinion_loader_info": (C.c_int, [C.c_uint64, C.POINTER(C.c_void_p)]),
}
_borrow: dict[str, tuple[Any, list[Any]]] = {
    "pinion_borrow_new": (C.c_int, [C.POINTER(C.c_uint64)]),
    "pinion_borrow_wanted": (C.c_int, [C.c_uint64, C.c_void_p]),
    "pinion_borrow_refuse": (C.c_int, [C.c_uint64, C.c_uint64, C.c_char_p, C.c_int64]),
}
_torch: dict[str, tuple[Any, list[Any]]] = {
    "pinion_pinned_alloc": (
        C.c_int,
        [C.c_char_p, C.c_int64, C.c_int64, C.POINTER(C.c_uint64), C.POINTER(C.c_uint64), C.POINTER(C.c_int32)],
    ),
    "pinion_pinned_register": (C.c_int, [C.c_char_p, C.c_int64, C.c_void_p, C.c_int64, C.POINTER(C.c_uint64)]),
    "pinion_pinned_free": (C.c_int, [C.c_uint64]),
    "pinion_pinned_stats": (C.c_int, [C.c_char_p, C.c_int64, C.POINTER(C.c_void_p)]),
    "pinion_copy": (
        C.c_int,
        [C.c_char_p, C.c_int64, C.c_void_p, C.c_uint64, C.c_int64, C.c_int32, C.c_int64, C.POINTER(C.c_uint64)],
    ),
    "pinion_task_stop": (C.c_int, [C.c_uint64]),
    "pinion_torch_malloc": (C.c_void_p, [C.c_int64, C.c_int32, C.c_void_p]),  # PyTorch calls these two
    "pinion_torch_free": (None, [C.c_void_p, C.c_int64, C.c_int32, C.c_void_p]),
}
_safetensors: dict[str, tuple[Any, list[Any]]] = {
    "pinion_safetensors_open": (C.c_int, [C.c_char_p, C.c_int64, C.POINTER(C.c_uint64)]),
    "pinion_safetensors_close": (C.c_int, [C.c_uint64]),
    "pinion_safetensors_info": (C.c_int, [C.c_uint64, C.POINTER(C.c_void_p)]),
    "pinion_safetensors_read": (
        C.c_int,
        [C.c_uint64, C.c_char_p, C.c_int64, C.c_char_p, C.c_int64, C.c_int64, C.POINTER(C.c_uint64)],
    ),
    "pinion_safetensors_save": (C.c_int, [C.c_char_p, C.c_int64, C.POINTER(C.c_uint64)]),
}
_memory: dict[str, tuple[Any, list[Any]]] = {
    "pinion_memory_replay": (C.c_int, [C.c_char_p, C.c_int64, C.POINTER(C.c_uint64)]),
    "pinion_memory_text": (C.c_int, [C.c_uint64, C.POINTER(C.c_void_p)]),
}
_collate: dict[str, tuple[Any, list[Any]]] = {
    "pinion_collate_open": (C.c_int, [C.c_int, C.POINTER(C.c_uint64), C.POINTER(C.c_uint64)]),
    "pinion_collate_use": (C.c_int, [C.c_uint64, C.c_char_p]),
    "pinion_collate_settle": (C.c_int, [C.c_uint64]),
    "pinion_collate_lend": (C.c_int, [C.c_uint64, C.c_uint64, C.c_uint64, C.c_uint64, C.c_void_p]),
    "pinion_collate_stats": (C.c_int, [C.c_uint64, C.POINTER(C.c_void_p)]),
    "pinion_collate_close": (C.c_int, [C.c_uint64]),
}
_monitor: dict[str, tuple[Any, list[Any]]] = {
    "pinion_monitor_offer": (C.c_int, []),
    "pinion_monitor_withdraw": (C.c_int, []),
    "pinion_monitor_snapshot": (C.c_int, [C.POINTER(C.c_void_p)]),
    "pinion_monitor_foreign": (C.c_int, [C.c_char_p, C.c_int64]),
    "pinion_monitor_memory": (C.c_int, [C.c_char_p, C.c_int64]),
    "pinion_monitor_watched": (C.c_int, [C.POINTER(C.c_int32)]),
    "pinion_monitor_serve": (C.c_int, [C.c_int32, C.POINTER(C.c_void_p)]),
    "pinion_monitor_unserve": (C.c_int, []),
}
_timeline: dict[str, tuple[Any, list[Any]]] = {
    "pinion_timeline_start": (C.c_int, [C.c_char_p, C.c_int64]),
    "pinion_timeline_stop": (C.c_int, [C.c_char_p, C.c_int64, C.POINTER(C.c_uint64)]),
}
_tables = (_core, _loader, _borrow, _torch, _safetensors, _memory, _collate, _monitor, _timeline)

_lib: Any = None
_loading = threading.Lock()


def path() -> str:
    """Where the library is: beside this file, or where PINION_LIBRARY says."""
    return os.environ.get("PINION_LIBRARY") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "libpinion.so")


def _open() -> Any:
    where = path()
    try:
        lib = C.CDLL(where)
    except OSError as e:
        raise ImportError(f"Pinion's library cannot be loaded: {e}") from None
    other = f"{where} is not the library of this package: install pinion again, and unset PINION_LIBRARY"
    try:
        lib.pinion_abi.restype = C.c_int
        abi = lib.pinion_abi()
        if abi != ABI:
            raise ImportError(f"{other} (its ABI is {abi}, {ABI} is needed)")
        for table in _tables:
            for name, (result, arguments) in table.items():
                f = getattr(lib, name)
                f.restype, f.argtypes = result, arguments
    except AttributeError as e:
        raise ImportError(f"{other} ({e})") from None
    api = C.pythonapi
    lib.pinion_python(*(C.cast(f, C.c_void_p) for f in (api.PyCapsule_New, api.PyCapsule_IsValid, api.PyCapsule_GetPointer, api.PyCapsule_SetName)))
    lib.pinion_monitor_offer()  # for `pinion top`; where that cannot be, nobody needs to know: pinion.monitor.offer() says why
    return lib


def path_bytes(path: Any) -> bytes:
    """A path as the library's functions take it."""
    encoded = os.fsencode(path)
    if 0 in encoded:
        raise ValueError(f"a path is {os.fsdecode(path)!r}, but no path has a null character")
    return encoded


def name(path: Any) -> str:
    """A path as the library's JSON has it, which is UTF-8."""
    try:
        return path_bytes(path).decode()
    except UnicodeDecodeError:
        raise ValueError(f"a path is {os.fsdecode(path)!r}, but must be UTF-8") from None


def load() -> Any:
    """The library. It raises ForkedError in a child of the process that loaded it."""
    global _lib
    if _lib is None:
        with _loading:
            if _lib is None:
                _lib = _open()
                atexit.register(_withdraw)
    if _lib.pinion_forked():
        raise _errors.ForkedError(_errors.FORKED)
    return _lib


def _withdraw() -> None:
    """Takes the process off the list of `pinion top`. A forked child leaves the list alone."""
    lib = loaded()
    if lib is not None:
        lib.pinion_monitor_withdraw()


def loaded() -> Any:
    """The library if it was loaded and can be used here, else None."""
    return _lib if _lib is not None and not _lib.pinion_forked() else None


def fail(code: int) -> NoReturn:
    """Raises the error that the last call of this thread returned."""
    raise _errors.make(code, _lib.pinion_message().decode(errors="replace"), _lib.pinion_detail().decode(errors="replace"))


def check(code: int) -> int:
    """A code that is no error; raises one that is."""
    if code < 0:
        fail(code)
    return code


def take(text: Any) -> str:
    """A text of the library, which is freed."""
    try:
        return C.string_at(text).decode(errors="replace")
    finally:
        _lib.pinion_free(text)


def ask(function: Any, *arguments: Any) -> str:
    """The text that a function gives by its last argument."""
    out = C.c_void_p()
    check(function(*arguments, C.byref(out)))
    return take(out)


def run(function: Any, *arguments: Any, patience: int | None = None, serve: Callable[[], None] | None = None) -> int:
    """The value of a task, which a function gives by its last argument. An interrupt gives the task up; so does the end
    of patience, in milliseconds, without a word. Serve gives it the memory that it wants."""
    lib = load()
    task, value = C.c_uint64(), C.c_uint64()
    check(function(*arguments, C.byref(task)))
    try:
        while code := check(lib.pinion_task_wait(task, POLL, C.byref(value))):
            if code == MEMORY and serve is not None:
                serve()
            elif patience is not None and (patience := patience - POLL) <= 0:
                break
    finally:
        lib.pinion_task_cancel(task)  # is nothing where the task is over
    return value.value


def run_to_end(function: Any, *arguments: Any) -> None:
    """A task that uses memory of the caller's. An interrupt ends it, and returns when it touches the memory no more."""
    lib = load()
    task, value = C.c_uint64(), C.c_uint64()
    check(function(*arguments, C.byref(task)))
    try:
        while check(lib.pinion_task_wait(task, POLL, C.byref(value))) == WAIT:
            pass
    finally:
        lib.pinion_task_stop(task)  # is nothing where the task is over
