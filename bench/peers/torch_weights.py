"""Loads a checkpoint to a GPU the ways that PyTorch's users do.

    python3 torch_weights.py MODEL [REPEATS] > torch-weights.json
    python3 torch_weights.py --cold MODEL [REPEATS] > torch-weights-cold.json

MODEL is a .safetensors file, or a folder with model.safetensors, as bench/weights
--generate writes it. It should be in the page cache; with --cold its pages are
dropped before each repeat. Every way is checked by the bytes of some tensors
before it is timed; the ways are timed in turn.

Where the safetensors package is not installed, "mapped" stands for it: that is
what its load_file does (a storage of the mapped file, .to(device) for each
tensor), written with torch alone. "pinned reads" is the fastest that we know how
to write in Python: threads that read into pinned memory and copy from there.
"""

import concurrent.futures
import json
import os
import statistics
import struct
import sys

import torch

import peer

DTYPES = {"BF16": torch.bfloat16, "F16": torch.float16, "F32": torch.float32, "I64": torch.int64, "U8": torch.uint8}
THREADS, PIECE = 16, 8 << 20


def header(path):
    with open(path, "rb") as f:
        n, = struct.unpack("<Q", f.read(8))
        entries = json.loads(f.read(n))
    entries.pop("__metadata__", None)
    return 8 + n, entries


def mapped(path):
    start, entries = header(path)
    storage = torch.UntypedStorage.from_file(path, False, os.path.getsize(path))
    data = torch.empty(0, dtype=torch.uint8).set_(storage)
    tensors = {}
    for name, e in entries.items():
        begin, end = e["data_offsets"]
        tensors[name] = data[start + begin:start + end].to("cuda").view(DTYPES[e["dtype"]]).view(e["shape"])
    return tensors


class PinnedReads:
    def __init__(self):
        self.buffers = [torch.empty(2, PIECE, dtype=torch.uint8, pin_memory=True) for _ in range(THREADS)]
        self.streams = [torch.cuda.Stream() for _ in range(THREADS)]
        self.pool = concurrent.futures.ThreadPoolExecutor(THREADS)

    def __call__(self, path):
        start, entries = header(path)
        size = os.path.getsize(path) - start
        whole = torch.empty(size, dtype=torch.uint8, device="cuda")
        fd = os.open(path, os.O_RDONLY)

        def work(i):
            events = [torch.cuda.Event(), torch.cuda.Event()]
            with torch.cuda.stream(self.streams[i]):
                for k, at in enumerate(range(i * PIECE, size, THREADS * PIECE)):
                    n = min(PIECE, size - at)
                    buffer = self.buffers[i][k % 2]
                    events[k % 2].synchronize()
                    view, done = memoryview(buffer.numpy())[:n], 0
                    while done < n:
                        done += os.preadv(fd, [view[done:]], start + at + done)
                    whole[at:at + n].copy_(buffer[:n], non_blocking=True)
                    events[k % 2].record()
            self.streams[i].synchronize()

        list(self.pool.map(work, range(THREADS)))
        os.close(fd)
        tensors = {}
        for name, e in entries.items():
            begin, end = e["data_offsets"]
            tensors[name] = whole[begin:end].view(DTYPES[e["dtype"]]).view(e["shape"])
        return tensors


def drop(path):
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def main():
    cold = sys.argv[1] == "--cold"
    path, *rest = sys.argv[1 + cold:]
    if os.path.isdir(path):
        path = os.path.join(path, "model.safetensors")
    repeats = int(rest[0]) if rest else 2 if cold else 7
    start, entries = header(path)
    size = os.path.getsize(path) - start
    ways = [("mapped, .to(device) of each tensor", mapped), ("pinned reads by 16 threads", PinnedReads())]
    version = None
    try:
        import safetensors
        from safetensors.torch import load_file
        version = safetensors.__version__
        ways.insert(0, (f"safetensors {version}, load_file", lambda path: load_file(path, device="cuda")))
    except ImportError:
        peer.step("the safetensors package is not installed")

    torch.cuda.init()
    some = sorted(entries)[::max(1, len(entries) // 7)]
    with open(path, "rb") as f:
        for by, load in ways:
            tensors = load(path)
            torch.cuda.synchronize()
            for name in some:
                begin, end = entries[name]["data_offsets"]
                f.seek(start + begin)
                want = torch.frombuffer(bytearray(f.read(end - begin)), dtype=torch.uint8)
                got = tensors[name].reshape(-1).view(torch.uint8).cpu()
                if not torch.equal(got, want) or len(tensors) != len(entries):
                    raise SystemExit(f"{by}: other bytes in {name}")
            del tensors
            torch.cuda.empty_cache()

    def figure(load):
        def run():
            torch.cuda.empty_cache()
            torch.cuda.synchronize()
            if cold:
                drop(path)
            kept = []

            def timed():
                kept.append(load(path))
                torch.cuda.synchronize()

            seconds = peer.timed(timed)
            kept.clear()
            return size / 1e9 / seconds
        return run

    rows = peer.compare("load from disk" if cold else "load in page cache", "GB/s", [(by, figure(load)) for by, load in ways], repeats)
    peer.document("PyTorch " + torch.__version__, "weights", torch.cuda.get_device_name(), rows, repeats=repeats, bytes=size,
                  safetensors=version)


main()
