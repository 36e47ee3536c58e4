"""Slots of shared memory that processes claim, fill, and hand to one another.

The memory is a segment of pinned/segment (layout.go), anonymous and sparse: its
pages are there once somebody has written to them. In its first 64 KiB of data
is a table of slots; the slots follow. Integers are little endian.

    offset  bytes  table
         0      8  offset in the file behind the last slot
         8      4  entries that are in use, at most 1023
        64         entries of 64 bytes

    offset  bytes  entry
         0     24  owner, in the form of the segment's owner slots
        24      8  sequence: how often the slot was claimed
        32      8  offset in the file; whole blocks of 64 KiB
        40      8  bytes; 0: the entry is not used
        48      4  process number of the one that claimed it last

Who changes the table holds the segment's record lock, but for one change: an
owner frees its slot by setting the state to 0. A slot whose owner is dead is
free, as in the segment. So neither a worker that is killed nor a batch that
nobody takes loses a slot: a worker's batch is the worker's until it has arrived.

This is Python alone, and may run in a forked child.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import random
import struct
import threading
import weakref
from collections.abc import Iterator
from typing import NamedTuple

_HEADER = 64 << 10  # of the segment
_TABLE = 64 << 10
_BLOCK = 64 << 10  # a whole number of pages everywhere
_HUGE = 2 << 20
_ENTRY = struct.Struct("<IIQQQQQI12x")
_ENTRIES = 1023
_FREE, _TAKEN = 0, 1

DATA = _HEADER
"""Where the data of the segment begins in its file."""


class LostError(RuntimeError):
    """A slot has been taken back, because the process that had it is dead."""


class Slot(NamedTuple):
    """A slot that this process has."""

    number: int  # of its entry
    sequence: int
    start: int  # in the file
    size: int

    @property
    def state(self) -> int:
        """Where the state is in the file."""
        return _at(self.number)


class _Entry(NamedTuple):
    state: int
    pid: int
    born: int
    namespace: int
    sequence: int
    start: int
    size: int
    writer: int


def _at(index: int) -> int:
    return _HEADER + _ENTRY.size * (1 + index)


def _round(n: int, to: int) -> int:
    return -(-n // to) * to


def _size(n: int) -> int:
    """The size of a slot for n bytes: at most 1/16 or a block more, so that batches of nearly one size share slots."""
    return _round(n, max(_BLOCK, 1 << max(0, n.bit_length() - 5)))


def _stat(path: str) -> tuple[bool, int]:
    """Whether a thread is exiting, and when its process began (pinned/segment/layout.go)."""
    with open(path, "rb") as f:
        fields = f.read().rpartition(b")")[2].split()
    return fields[0] in (b"Z", b"X") or bool(int(fields[6]) & 4), int(fields[19])


def _namespace() -> int:
    return os.stat("/proc/self/ns/pid").st_ino


def _alive(pid: int, born: int, namespace: int) -> bool:
    if namespace != _namespace():
        return True  # nobody can tell from here
    try:
        if _stat(f"/proc/{pid}/stat")[1] != born:
            return False
        return not all(_stat(f"/proc/{pid}/task/{t}/stat")[0] for t in os.listdir(f"/proc/{pid}/task"))
    except OSError:
        pass
    try:  # with hidepid, /proc does not show the processes of other users
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


_rings: weakref.WeakSet[Ring] = weakref.WeakSet()


def _after_fork() -> None:
    for ring in list(_rings):
        ring._begin()


os.register_at_fork(after_in_child=_after_fork)


class Ring:
    """The slots of a file. Every process that has the file may claim, take and free."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.map = mmap.mmap(fd, os.fstat(fd).st_size)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            with contextlib.suppress(OSError):
                self.map.madvise(mmap.MADV_HUGEPAGE)
        self.size, self.generation = struct.unpack_from("<QQ", self.map, 16)
        self.creator = struct.unpack_from("<I", self.map, 36)[0]
        self._begin()
        _rings.add(self)

    def _begin(self) -> None:
        """What is new in a process. A lock of the parent's threads may have been held when it was forked."""
        self._threads = threading.Lock()
        self._self = os.getpid(), _stat("/proc/self/stat")[1], _namespace()

    @classmethod
    def create(cls, size: int) -> Ring:
        """A ring of at most size bytes, none of which it has yet."""
        size = _round(max(size, _TABLE + _BLOCK), _BLOCK)
        fd = os.memfd_create("pinion-collate", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(fd, _HEADER + size)
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
            generation = random.SystemRandom().getrandbits(64) or 1
            header = bytearray(_HEADER)
            struct.pack_into("<8sI4xQQ", header, 0, b"PINIONSG", 1, size, generation)
            struct.pack_into("<IIQQ", header, 32, _TAKEN, os.getpid(), _stat("/proc/self/stat")[1], _namespace())
            struct.pack_into("<64s", header, 64, b"collate")
            os.pwrite(fd, header, 0)
            os.pwrite(fd, struct.pack("<Q", _HEADER + _TABLE), _HEADER)
            return cls(fd)
        except BaseException:
            os.close(fd)
            raise

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps the other threads and processes out of the table; dies with this process."""
        with self._threads:
            fcntl.lockf(self.fd, fcntl.LOCK_EX, 1, 0)
            try:
                yield
            finally:
                fcntl.lockf(self.fd, fcntl.LOCK_UN, 1, 0)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Keeps this process's threads off the lock: it is lost when somebody closes a descriptor of the file."""
        with self._threads:
            yield

    def entries(self) -> list[_Entry]:
        """The table, as it is."""
        (count,) = struct.unpack_from("<I", self.map, _HEADER + 8)
        table = memoryview(self.map)[_at(0) : _at(count)]
        return [_Entry._make(e) for e in _ENTRY.iter_unpack(table)]

    def sweep(self) -> list[_Entry]:
        """Frees the slots of the dead, and gives the table. A claim does so before there are more slots."""
        with self.locked():
            self._bury(self.entries())
            return self.entries()

    def claim(self, need: int) -> Slot | None:
        """A free slot of at least that many bytes; None if there is none, and no room for another."""
        size = _size(need)
        with self.locked():
            entries = self.entries()
            index = self._pick(entries, size)
            if index is None and self._bury(entries):
                entries = self.entries()
                index = self._pick(entries, size)
            if index is None:
                index = self._grow(entries, size)
            if index is None:
                index = self._merge(entries, size)
            return None if index is None else self._own(index, 1)

    def take(self, index: int, sequence: int) -> Slot:
        """Makes a slot that another process has claimed one of this process."""
        with self.locked():
            entry = self._entry(index)
            if entry.state != _TAKEN or entry.sequence != sequence:
                raise LostError(f"a batch is lost: the process {entry.pid} that made it is dead, and its memory was taken by another")
            return self._own(index, 0)

    def free(self, slot: Slot) -> None:
        """Gives back a slot of this process."""
        struct.pack_into("<I", self.map, slot.state, _FREE)

    def leave(self, index: int, sequence: int) -> None:
        """Gives back a slot if it is one of this process."""
        with self.locked():
            entry = self._entry(index)
            if entry.state == _TAKEN and entry[1:4] == self._self and entry.sequence == sequence:
                struct.pack_into("<I", self.map, _at(index), _FREE)

    def _entry(self, index: int) -> _Entry:
        return _Entry._make(_ENTRY.unpack_from(self.map, _at(index)))

    def _own(self, index: int, claims: int) -> Slot:
        e = self._entry(index)
        pid, born, namespace = self._self
        writer = pid if claims else e.writer
        struct.pack_into("<IQQQQQI", self.map, _at(index) + 4, pid, born, namespace, e.sequence + claims, e.start, e.size, writer)
        struct.pack_into("<I", self.map, _at(index), _TAKEN)  # last, so that it counts when it is whole
        return Slot(index, e.sequence + claims, e.start, e.size)

    def _pick(self, entries: list[_Entry], size: int) -> int | None:
        """The smallest that is large enough; among those, one whose pages this process has seen."""
        pid = self._self[0]
        fit = [(e.size, e.writer != pid, i) for i, e in enumerate(entries) if e.state == _FREE and e.size >= size]
        return min(fit)[2] if fit else None

    def _bury(self, entries: list[_Entry]) -> bool:
        """Frees the slots of the dead, and tells whether there were any."""
        owners = {e[1:4] for e in entries if e.state == _TAKEN}
        dead = {owner for owner in owners if owner != self._self and not _alive(*owner)}
        for i, e in enumerate(entries):
            if e.state == _TAKEN and e[1:4] in dead:
                struct.pack_into("<I", self.map, _at(i), _FREE)
        return bool(dead)

    def _grow(self, entries: list[_Entry], size: int) -> int | None:
        """Adds a slot behind the last."""
        (top,) = struct.unpack_from("<Q", self.map, _HEADER)
        start = _round(top, _HUGE if size >= _HUGE else _BLOCK)
        unused = [i for i, e in enumerate(entries) if not e.size]
        index = unused[0] if unused else len(entries)
        if start + size > _HEADER + self.size or index >= _ENTRIES:
            return None
        struct.pack_into("<Q", self.map, _HEADER, start + size)
        self._describe(index, start, size)
        if index == len(entries):
            struct.pack_into("<I", self.map, _HEADER + 8, index + 1)
        return index

    def _merge(self, entries: list[_Entry], size: int) -> int | None:
        """Makes one slot of free ones that lie side by side."""
        run: list[int] = []
        for i in sorted((i for i, e in enumerate(entries) if e.size), key=lambda i: entries[i].start):
            run = [*run, i] if entries[i].state == _FREE else []
            if not run:
                continue
            start, end = entries[run[0]].start, entries[i].start + entries[i].size
            if end - start >= size:
                for j in run[1:]:
                    self._describe(j, 0, 0)
                self._describe(run[0], start, end - start)
                return run[0]
        return None

    def _describe(self, index: int, start: int, size: int) -> None:
        struct.pack_into("<QQ", self.map, _at(index) + 32, start, size)


def available() -> int:
    """The bytes of memory that this process may still take, or 1 GiB where the system does not tell."""
    found = []
    with contextlib.suppress(OSError, ValueError, StopIteration, IndexError):
        with open("/proc/meminfo") as f:
            found.append(next(int(line.split()[1]) << 10 for line in f if line.startswith("MemAvailable:")))
    with contextlib.suppress(OSError, ValueError, StopIteration):
        with open("/proc/self/cgroup") as f:
            group = next(line.rstrip("\n").split(":", 2)[2] for line in f if line.startswith("0::"))
        while True:
            with contextlib.suppress(OSError, ValueError):
                found.append(_number(group, "memory.max") - _number(group, "memory.current"))
            if group == "/":
                break
            group = os.path.dirname(group)
    return max(0, min(found, default=1 << 30))


def _number(group: str, name: str) -> int:
    with open(f"/sys/fs/cgroup{group}/{name}") as f:
        return int(f.read())
