"""Measures through PyTorch what bench/loop measures of Pinion.

    python3 torch_loop.py > torch-loop.json

A loop that needs tensors for one iteration each: made by torch.empty each time,
and there before. All of it with the caching allocator as it comes, and once
more in a process of its own with expandable segments. Bytes are checked before
a loop is timed. The rows of one name are timed in turn, one repeat of each
after the other.
"""

import json
import os
import random
import statistics
import subprocess
import sys
import time

import torch

import peer

REPEATS = 7
ITERATIONS = 100
SETTLE = 0.02  # seconds before each repeat, as in bench/loop
CALLS = 5000  # of one repeat


def patterns():
    """Name, sizes of the tensors of each iteration, and whether each is waited for."""
    source = random.Random(7)
    times = lambda tensors, size: [[size() for _ in range(tensors)] for _ in range(ITERATIONS)]
    same = times(1, lambda: 400_000_000)
    varied = times(1, lambda: source.randint(200_000_000, 400_000_000))
    small = times(50, lambda: int(2 ** source.uniform(10, 22)))
    name = f"loop of {ITERATIONS}: "
    return [
        (name + "400 MB", same, False),
        (name + "400 MB, waited for each time", same, True),
        (name + "200 MB to 400 MB", varied, False),
        (name + "50 tensors of 1 KiB to 4 MiB", small, False),
    ]


def empty(n):
    return torch.empty(n, dtype=torch.uint8, device="cuda")


def mark(k):
    return 1 + k % 251


def loop(sizes, waits, make, written=None):
    """Makes, fills and drops the tensors of each iteration."""
    live = []
    for i, iteration in enumerate(sizes):
        for slot, n in enumerate(iteration):
            tensor = make(slot, n)
            tensor.fill_(mark(i * len(iteration) + slot))
            live.append(tensor)
        del tensor
        if written:
            written(i, live)
        live.clear()
        if waits:
            torch.cuda.synchronize()
    torch.cuda.synchronize()


def check(name, sizes, make):
    """Copies the ends of every tensor away before it is dropped."""
    tensors = len(sizes[0])
    record = torch.zeros(len(sizes), tensors, 2, dtype=torch.uint8, device="cuda")

    def written(i, live):
        for slot, tensor in enumerate(live):
            record[i, slot].copy_(tensor[::len(tensor) - 1])

    loop(sizes, False, make, written)
    want = torch.tensor([mark(k) for k in range(len(sizes) * tensors)], dtype=torch.uint8)
    if not torch.equal(record.cpu(), want.view(len(sizes), tensors, 1).expand(-1, -1, 2)):
        raise SystemExit(f"{name}: a tensor holds what was not written into it")


def in_turn(name, unit, ways):
    """Times ways, which are (by, run) with run giving a figure in unit. Those
    after the first are compared with it, if it is preallocated memory."""
    for _, run in ways:
        run()
    figures = [[] for _ in ways]
    for _ in range(REPEATS):
        for i, (_, run) in enumerate(ways):
            time.sleep(SETTLE)
            figures[i].append(run())
    rows = []
    for (by, _), values in zip(ways, figures):
        row = dict(name=name, by=by, value=statistics.median(values), unit=unit, min=min(values), max=max(values))
        if ways[0][0] == "preallocated" and by != "preallocated":
            row["slower_fraction"] = statistics.median(
                value / reference - 1 for value, reference in zip(values, figures[0]))
        rows.append(row)
    return rows


def loops(how):
    rows = []
    for name, sizes, waits in patterns():
        slots = [max(column) for column in zip(*sizes)]
        buffers = [empty(n) for n in slots]
        ways = []
        for by, make in (("preallocated", lambda slot, n: buffers[slot][:n]), ("torch.empty", lambda slot, n: empty(n))):
            check(name, sizes, make)
            ways.append((by if by == "preallocated" else by + how,
                         lambda make=make: 1e3 * peer.timed(lambda: loop(sizes, waits, make))))
        rows += in_turn(name, "ms", ways)
        del buffers, ways, make
        torch.cuda.empty_cache()
    return rows


def calls(how):
    rows = []
    for name, n in (("4 KiB", 4 << 10), ("1 MiB", 1 << 20), ("64 MiB", 64 << 20)):
        def run(n=n):
            start = time.perf_counter_ns()
            for _ in range(CALLS):
                tensor = empty(n)
                del tensor
            return (time.perf_counter_ns() - start) / CALLS

        rows += in_turn("alloc and free " + name, "ns", [("torch.empty" + how, run)])
    return rows


def holes(how):
    """Blocks of 512 bytes, of which every other was dropped, and larger ones."""
    count = 65536
    blocks = [empty(512) for _ in range(2 * count)]
    del blocks[1::2]
    rows = []
    for batch in (1, 1000):
        def run(batch=batch):
            start = time.perf_counter_ns()
            for done in range(0, CALLS, batch):
                live = [empty(1024 + 512 * ((done + i) % 3)) for i in range(batch)]
                del live
            return (time.perf_counter_ns() - start) / CALLS

        name = f"alloc and free 1 KiB to 2 KiB beside {count:,} holes of 512 B"
        rows += in_turn(name + (f", {batch:,} at a time" if batch > 1 else ""), "ns", [("torch.empty" + how, run)])
    del blocks
    torch.cuda.empty_cache()
    return rows


def first(how):
    def run():
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        start = time.perf_counter()
        tensor = empty(1 << 30)
        seconds = time.perf_counter() - start
        del tensor
        return 1e3 * seconds

    return in_turn("first alloc of 1 GiB", "ms", [("torch.empty" + how, run)])


def measure(how):
    return loops(how) + calls(how) + holes(how) + first(how)


def main():
    if sys.argv[1:] == ["--expandable"]:
        rows = measure(", expandable segments")
        # There is no other way to preallocate.
        print(json.dumps([row for row in rows if row["by"] != "preallocated"]))
        return
    rows = measure("")
    other = subprocess.run(
        [sys.executable, __file__, "--expandable"], check=True, stdout=subprocess.PIPE,
        env=dict(os.environ, PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True"))
    rows += json.loads(other.stdout)
    peer.document("PyTorch " + torch.__version__, "hold", torch.cuda.get_device_name(), rows, repeats=REPEATS)


main()
