#!/usr/bin/env python3
"""Consumer of a pinion segment: shared memory that each process pins itself.

    consumer.py --socket PATH   receive the segment from a Unix socket
    consumer.py --path PATH     open the segment's file by name

It maps the segment, becomes one of its owners, and prints the CRC-32 of the
data. With PyTorch and a GPU it registers the memory with CUDA (cudaHostRegister)
and copies it to the GPU and back. It needs Python 3.9 and nothing else.

The layout of the file is described in pinned/segment/layout.go.
"""

import argparse
import contextlib
import ctypes
import fcntl
import mmap
import os
import socket
import struct
import sys
import zlib

MAGIC = b"PINIONSG"
VERSION = 1
HEADER = 64 << 10  # where the data starts
SLOTS, SLOT_BYTES, SLOT_COUNT = 4096, 32, 1024
FREE, TAKEN = 0, 1


class SegmentError(Exception):
    """Not a usable segment."""


def read_stat(path):
    """Whether a thread is exiting, and when its process started, in clock ticks after boot."""
    with open(path, "rb") as f:
        fields = f.read().rpartition(b")")[2].split()
    exiting = fields[0] in (b"Z", b"X") or int(fields[6]) & 4
    return exiting, int(fields[19])


def pid_namespace():
    return os.stat("/proc/self/ns/pid").st_ino


def alive(pid, start, namespace):
    if not 0 < pid < 1 << 31:
        return False
    if namespace != pid_namespace():
        return True  # nobody can tell from here
    try:
        if read_stat(f"/proc/{pid}/stat")[1] != start:
            return False
        threads = os.listdir(f"/proc/{pid}/task")
        return not all(read_stat(f"/proc/{pid}/task/{t}/stat")[0] for t in threads)
    except OSError:
        pass
    try:  # with hidepid, /proc does not show the processes of other users
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


class Segment:
    """A mapping of the segment in a file descriptor, which it takes over."""

    def __init__(self, fd, generation=None):
        self.fd, self.slot = fd, None
        size = os.fstat(fd).st_size
        if size < HEADER:
            raise SegmentError(f"{size} bytes, less than the header of {HEADER}")
        self.map = mmap.mmap(fd, size)  # shared, for reading and writing
        magic, version, self.size, self.generation = struct.unpack_from("<8sI4xQQ", self.map)
        if magic != MAGIC:
            raise SegmentError(f"starts with {magic!r}, not {MAGIC!r}")
        if version != VERSION:
            raise SegmentError(f"layout version {version}, this program knows {VERSION}")
        if size != HEADER + -(-self.size // mmap.PAGESIZE) * mmap.PAGESIZE:
            raise SegmentError(f"{self.size} bytes of data in a file of {size} bytes")
        if generation not in (None, self.generation):
            raise SegmentError(f"generation {self.generation:016x}, expected {generation:016x}")
        self.data = memoryview(self.map)[HEADER : HEADER + self.size]
        self._join()

    @contextlib.contextmanager
    def _locked(self):
        """Keeps other processes out of the owner table; dies with this one."""
        fcntl.lockf(self.fd, fcntl.LOCK_EX, 1, 0)
        try:
            yield
        finally:
            fcntl.lockf(self.fd, fcntl.LOCK_UN, 1, 0)

    def _slots(self):
        """The live owners, as (slot, pid); it frees the slots of the dead."""
        for i in range(SLOT_COUNT):
            at = SLOTS + i * SLOT_BYTES
            state, pid, start, namespace = struct.unpack_from("<IIQQ", self.map, at)
            if state == FREE:
                continue
            if alive(pid, start, namespace):
                yield i, pid
            else:
                struct.pack_into("<I", self.map, at, FREE)

    def _join(self):
        pid = os.getpid()
        with self._locked():
            taken = {i for i, _ in self._slots()}
            free = [i for i in range(SLOT_COUNT) if i not in taken]
            if not free:
                raise SegmentError(f"all {SLOT_COUNT} owner slots are taken")
            at = SLOTS + free[0] * SLOT_BYTES
            struct.pack_into("<IQQ", self.map, at + 4, pid, read_stat("/proc/self/stat")[1], pid_namespace())
            struct.pack_into("<I", self.map, at, TAKEN)  # last, so that it counts when it is whole
            self.slot = free[0]

    def owners(self):
        with self._locked():
            return [pid for _, pid in self._slots()]

    def close(self):
        """Gives up ownership. The last owner removes the segment's path."""
        with self._locked():
            path = bytes(self.map[128:4096]).split(b"\0", 1)[0]
            if path and [i for i, _ in self._slots()] == [self.slot]:
                with contextlib.suppress(FileNotFoundError):
                    if os.path.samestat(os.stat(path), os.fstat(self.fd)):
                        os.unlink(path)
            struct.pack_into("<I", self.map, SLOTS + self.slot * SLOT_BYTES, FREE)
        self.data.release()
        self.map.close()
        os.close(self.fd)


def receive(path):
    """Takes a segment from the producer that listens at a Unix socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as conn:
        conn.connect(path)
        message, fds, _, _ = socket.recv_fds(conn, 24, 4)
        while len(message) < 24 and (more := conn.recv(24 - len(message))):
            message += more
        if len(message) < 24 or len(fds) != 1:
            for fd in fds:
                os.close(fd)
            raise SegmentError(f"a message of {len(message)} bytes with {len(fds)} descriptors")
        magic, generation, _ = struct.unpack("<8sQQ", message)
        if magic != MAGIC:
            raise SegmentError(f"a message that starts with {magic!r}")
        return Segment(fds[0], generation)


def copy_to_gpu(segment):
    """Pins the segment for the GPU and copies it there and back."""
    try:
        import torch
    except ImportError:
        return "no PyTorch, no copy"
    if not torch.cuda.is_available():
        return "no GPU, no copy"
    torch.cuda.init()
    cudart = torch.cuda.cudart()
    pages = len(segment.map) - HEADER
    anchor = ctypes.c_char.from_buffer(segment.map, HEADER)
    address = ctypes.addressof(anchor)
    portable = 1  # cudaHostRegisterPortable
    status = cudart.cudaHostRegister(address, pages, portable)
    if int(status) != 0:
        return f"cudaHostRegister: {cudart.cudaGetErrorString(status)}, no copy"
    try:
        host = torch.frombuffer(segment.data, dtype=torch.uint8)
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        gpu = torch.empty_like(host, device="cuda")
        gpu.copy_(host, non_blocking=True)  # the first copy is never the fast one
        start.record()
        gpu.copy_(host, non_blocking=True)
        end.record()
        torch.cuda.synchronize()
        if not torch.equal(gpu.cpu(), host):
            raise SegmentError("the GPU has other bytes")
        rate = segment.size / start.elapsed_time(end) / 1e6
        pinned = host.is_pinned()
        del host, gpu
        return f"copied to the GPU at {rate:.1f} GB/s, pinned {pinned}"
    finally:
        cudart.cudaHostUnregister(address)
        del anchor


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--socket", help="Unix socket where a producer serves the segment")
    where.add_argument("--path", help="file of the segment")
    parser.add_argument("--hold", action="store_true", help="stay an owner until standard input ends")
    args = parser.parse_args()
    try:
        if args.socket:
            segment = receive(args.socket)
        else:
            segment = Segment(os.open(args.path, os.O_RDWR))
    except (OSError, SegmentError) as err:
        sys.exit(f"consumer: {err}")
    print(f"{segment.size} bytes, generation {segment.generation:016x}, crc32 {zlib.crc32(segment.data):08x}")
    print(f"owners: {' '.join(map(str, segment.owners()))}")
    print(copy_to_gpu(segment), flush=True)
    if args.hold:
        sys.stdin.read()
    segment.close()


if __name__ == "__main__":
    main()
