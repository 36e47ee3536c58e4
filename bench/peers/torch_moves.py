"""Measures through PyTorch what bench/moves measures of Pinion.

    python3 torch_moves.py FILE [REPEATS] > torch-moves.json

FILE holds 1 GiB of random bytes or more and should be in the page cache; a
tensor is saved beside it for torch.load, and removed. Bytes are checked before
a row is timed. The rows of one group are timed in turn, one repeat of each
after the other.
"""

import concurrent.futures
import os
import statistics
import sys

import numpy
import torch

import peer

SIZE = 1 << 30  # of arenas, ordinary memory and files
BLOCKS = 256 << 20  # bytes of all blocks of a batch
PIPELINE = 1 << 30  # through a pipeline, in and out each
CHUNK = 32 << 20
REPEATS = int(sys.argv[2]) if len(sys.argv) > 2 else 7  # as many as bench/moves


def rate(n):
    return lambda seconds: n / 1e9 / seconds


def synchronized(run):
    def wrapped():
        run()
        torch.cuda.synchronize()
    return wrapped


def sample(name, n, run):
    run = synchronized(run)
    return name, "GB/s", rate(n), lambda: peer.timed(run)


def check(name, right):
    if not right:
        raise SystemExit(f"{name}: the bytes that arrived are not those that were sent")


def pinned(n):
    return torch.empty(n, dtype=torch.uint8, pin_memory=True)


def scattered(data):
    """Blocks between random places of two arenas, and a strided slice."""
    up = pinned(SIZE)
    up.copy_(data)
    down = pinned(SIZE)
    source = data.to("cuda")
    target = torch.empty(SIZE, dtype=torch.uint8, device="cuda")
    random = torch.Generator().manual_seed(7)
    samples = []

    def add(name, run, clear, result, want):
        clear.zero_()
        synchronized(run)()
        check(name, torch.equal(result(), want))
        samples.append(sample(name, BLOCKS, run))

    for kib in (16, 64, 256):
        size = kib << 10
        places, n = SIZE // size, BLOCKS // size
        view = lambda t, n=places, words=size // 8: t.view(torch.int64).view(n, words)  # bytes are slow to index
        to = torch.randperm(places, generator=random)[:n]
        origin = torch.randperm(places, generator=random)[:n]
        to_dev, origin_dev = to.cuda(), origin.cuda()
        ups, downs, ordinary = view(up), view(down), view(data)
        sources, targets = view(source), view(target)
        want, want_dev = ups[origin], sources[origin_dev]
        staging = view(pinned(BLOCKS), n)
        # Slices are made beforehand: only copies are timed.
        pairs = {"h2d": [(targets[t], ups[o]) for t, o in zip(to.tolist(), origin.tolist())],
                 "d2h": [(downs[t], sources[o]) for t, o in zip(to.tolist(), origin.tolist())]}

        def loop(pairs):
            def run():
                for dst, src in pairs:
                    dst.copy_(src, non_blocking=True)
            return run

        def gather_up(src, staging=staging, origin=origin, to_dev=to_dev, targets=targets):
            def run():
                torch.index_select(src, 0, origin, out=staging)
                targets.index_copy_(0, to_dev, staging.to("cuda", non_blocking=True))
            return run

        def gather_up_pageable(origin=origin, to_dev=to_dev, targets=targets, ordinary=ordinary):
            targets.index_copy_(0, to_dev, ordinary.index_select(0, origin).to("cuda"))

        def scatter_down(staging=staging, origin_dev=origin_dev, to=to, sources=sources, downs=downs):
            staging.copy_(sources.index_select(0, origin_dev), non_blocking=True)
            torch.cuda.current_stream().synchronize()
            downs.index_copy_(0, to, staging)

        def inside(to_dev=to_dev, origin_dev=origin_dev, sources=sources, targets=targets):
            targets.index_copy_(0, to_dev, sources.index_select(0, origin_dev))

        arrived = lambda targets=targets, to_dev=to_dev: targets[to_dev]
        returned = lambda downs=downs, to=to: downs[to]
        name = f"scattered {kib} KiB "
        add(name + "h2d, loop", loop(pairs["h2d"]), target, arrived, want_dev)
        add(name + "h2d, index_select and copy", gather_up(ups), target, arrived, want_dev)
        add(name + "d2h, loop", loop(pairs["d2h"]), down, returned, want)
        add(name + "d2h, copy and index_copy_", scatter_down, down, returned, want)
        add(name + "d2d, index_select", inside, target, arrived, want_dev)
        add(name + "h2d, pageable, index_select and copy", gather_up_pageable, target, arrived, want_dev)

    row = 16 << 10
    rows = BLOCKS // row
    slice_up = up.view(torch.int64).view(rows, -1)[:, :row // 8]
    packed = target[:BLOCKS].view(torch.int64).view(rows, -1)
    add("strided rows 16 KiB h2d, copy_ of a slice", lambda: packed.copy_(slice_up, non_blocking=True),
        target, lambda: packed.cpu(), slice_up)
    return peer.in_turn(samples, REPEATS)


def queued():
    """What it costs to queue a copy of 4 KiB, without the copy."""
    rounds = 256
    src, dst = pinned(4096), torch.empty(4096, dtype=torch.uint8, device="cuda")
    src.fill_(7)

    def queue():
        for _ in range(rounds):
            dst.copy_(src, non_blocking=True)

    def seconds():
        t = peer.timed(queue)
        torch.cuda.synchronize()
        return t / rounds

    seconds()
    check("queued", torch.equal(dst.cpu(), src))
    return peer.in_turn([("4 KiB pinned h2d, queued", "us", lambda s: s * 1e6, seconds)], REPEATS)


class Samples(torch.utils.data.Dataset):
    """A tensor in memory, cut into samples."""

    def __init__(self, data, n):
        self.data = data.view(-1, n)

    def __len__(self):
        return len(self.data)

    def __getitem__(self, i):
        return self.data[i]


def pageable(data):
    """Ordinary memory in each direction and in both, and through a DataLoader."""
    source, target = data.to("cuda"), torch.empty(SIZE, dtype=torch.uint8, device="cuda")
    back = torch.zeros(SIZE, dtype=torch.uint8)
    streams = torch.cuda.Stream(), torch.cuda.Stream()
    threads = concurrent.futures.ThreadPoolExecutor(2)

    def on(stream, dst, src):
        with torch.cuda.stream(stream):
            dst.copy_(src, non_blocking=True)
            stream.synchronize()

    def both():
        jobs = [threads.submit(on, streams[0], target, data), threads.submit(on, streams[1], back, source)]
        for job in jobs:
            job.result()

    samples = [
        sample("pageable h2d", SIZE, lambda: target.copy_(data)),
        sample("pageable d2h", SIZE, lambda: back.copy_(source)),
        sample("pageable both, two threads", 2 * SIZE, both),
    ]
    target.zero_()
    synchronized(both)()
    check("pageable", torch.equal(target, source) and torch.equal(back, data))
    rows = peer.in_turn(samples, REPEATS)

    # 64 samples of 512 KiB are a batch of 32 MiB.
    dataset = Samples(data, 512 << 10)
    for workers in (0, 4):
        loader = torch.utils.data.DataLoader(
            dataset, batch_size=64, num_workers=workers, pin_memory=True,
            **(dict(persistent_workers=True, prefetch_factor=2) if workers else {}))

        def epoch(keep=None):
            for i, batch in enumerate(loader):
                batch = batch.to("cuda", non_blocking=True)
                if keep is not None:
                    keep.view(-1, batch.numel())[i].copy_(batch.view(-1))

        name = f"pageable h2d, DataLoader, {workers} workers"
        target.zero_()
        epoch(target)  # starts the workers, too
        check(name, torch.equal(target, source))
        rows += peer.in_turn([sample(name, SIZE, epoch)], REPEATS)
        del loader, epoch
    threads.shutdown()
    return rows


def pipelines(data):
    """Chunks through the device as people write it by hand, into it only and
    in and out, with computing that takes as long as the slower copy; in per
    cent of a bound, the same work without an order, timed in turn with it."""
    data = data[:PIPELINE]
    n, chunks = CHUNK, PIPELINE // CHUNK
    up = pinned(PIPELINE)
    up.copy_(data)
    down = pinned(PIPELINE)
    back = torch.zeros(PIPELINE, dtype=torch.uint8)
    computed = torch.empty(PIPELINE, dtype=torch.uint8, device="cuda")
    part = lambda t, k: t[k * n:(k + 1) * n]
    ins = [torch.empty(n, dtype=torch.uint8, device="cuda") for _ in range(3)]
    outs = [torch.empty(n, dtype=torch.uint8, device="cuda") for _ in range(3)]
    stage_in, stage_out = [pinned(n) for _ in range(2)], [pinned(n) for _ in range(2)]
    streams = [torch.cuda.Stream() for _ in range(3)]
    threads = concurrent.futures.ThreadPoolExecutor(2)

    def compute(dst, src, times):
        """Adds 1; over and over, the last time over a part."""
        left = max(int(times * n), n)
        while left > 0:
            m = min(left, n)
            torch.add(src[:m], 1, out=dst[:m])
            left -= n

    def alone(run):
        times = [peer.timed(synchronized(lambda: run(k % chunks))) for k in range(12)]
        return statistics.median(times[2:])

    def balance(copy_in, copy_out=None):
        """How often to add, so that computing takes as long as the slower copy."""
        in_s, out_s, times = alone(copy_in), alone(copy_out) if copy_out else 0.0, 1.0
        for _ in range(3):
            times = max(times, 1.0) * max(in_s, out_s) / alone(lambda _: compute(outs[0], ins[0], times))
        return times

    def unordered(times, *copies):
        """All bytes in, all out and all the computing at once, nothing waiting
        for anything."""
        def every(copy, stream):
            with torch.cuda.stream(stream):
                for k in range(chunks):
                    copy(k)
                    stream.synchronize()

        jobs = [threads.submit(every, copy, stream) for copy, stream in zip(copies, streams)]
        with torch.cuda.stream(streams[2]):
            for k in range(chunks):
                compute(part(computed, k), ins[2], times)
        for job in jobs:
            job.result()
        torch.cuda.synchronize()

    # Pinned memory: each chunk's copies and computing in the order of one
    # stream, chunks on two or three streams in turn.
    def in_pinned(k):
        ins[0].copy_(part(up, k), non_blocking=True)

    def out_pinned(k):
        part(down, k).copy_(outs[0], non_blocking=True)

    def by_streams(count, out):
        def run(times):
            for k in range(chunks):
                i = k % count
                with torch.cuda.stream(streams[i]):
                    ins[i].copy_(part(up, k), non_blocking=True)
                    compute(outs[i] if out else part(computed, k), ins[i], times)
                    if out:
                        part(down, k).copy_(outs[i], non_blocking=True)
            torch.cuda.synchronize()
        return run

    # Ordinary memory: the host copies into and out of two pinned buffers each.
    def in_pageable(k):
        stage_in[0].copy_(part(data, k))
        ins[0].copy_(stage_in[0], non_blocking=True)

    def out_pageable(k):
        stage_out[0].copy_(outs[0], non_blocking=True)
        torch.cuda.current_stream().synchronize()
        part(back, k).copy_(stage_out[0])

    read = [torch.cuda.Event() for _ in range(2)]
    written = [torch.cuda.Event() for _ in range(2)]

    def by_buffers(out):
        def finish(k):
            written[k % 2].synchronize()
            part(back, k).copy_(stage_out[k % 2])

        def run(times):
            for k in range(chunks):
                i = k % 2
                read[i].synchronize()
                stage_in[i].copy_(part(data, k))
                if out and k >= 2:
                    finish(k - 2)
                with torch.cuda.stream(streams[i]):
                    ins[i].copy_(stage_in[i], non_blocking=True)
                    read[i].record()
                    compute(outs[i] if out else part(computed, k), ins[i], times)
                    if out:
                        stage_out[i].copy_(outs[i], non_blocking=True)
                        written[i].record()
            if out:
                finish(chunks - 2)
                finish(chunks - 1)
            torch.cuda.synchronize()
        return run

    want = data + 1
    samples, groups = [], []
    for name, copies, ways in (
            ("pipeline in, pinned", (in_pinned,),
             [(f"{word} streams", computed, by_streams(count, False)) for word, count in (("two", 2), ("three", 3))]),
            ("pipeline in and out, pinned", (in_pinned, out_pinned),
             [(f"{word} streams", down, by_streams(count, True)) for word, count in (("two", 2), ("three", 3))]),
            ("pipeline in, pageable", (in_pageable,), [("two pinned buffers", computed, by_buffers(False))]),
            ("pipeline in and out, pageable", (in_pageable, out_pageable),
             [("two pinned buffers", back, by_buffers(True))])):
        times = balance(*copies)
        samples.append((f"{name}, without order", "s", lambda s: s,
                        lambda times=times, copies=copies: peer.timed(lambda: unordered(times, *copies))))
        for way, result, run in ways:
            result.zero_()
            run(times)
            check(f"{name}, {way}", torch.equal(result.cpu(), want))
            samples.append((f"{name}, {way}", "s", lambda s: s,
                            lambda run=run, times=times: peer.timed(lambda: run(times))))
        groups.append(1 + len(ways))
    seconds = peer.in_turn(samples, REPEATS)
    threads.shutdown()
    rows = []
    for size in groups:
        group, seconds = seconds[:size], seconds[size:]
        least = min(row["min"] for row in group)  # the fastest of all shows what can be done
        gb_per_s = lambda t: PIPELINE / 1e9 / t
        rows.append(dict(name=group[0]["name"], value=gb_per_s(group[0]["value"]), unit="GB/s",
                         min=gb_per_s(group[0]["max"]), max=gb_per_s(group[0]["min"])))
        for row in group[1:]:
            rows.append(dict(
                name=row["name"], value=100 * least / row["value"], unit="%",
                min=100 * least / row["max"], max=100 * least / row["min"],
                chunk_bytes=n, gb_per_s=gb_per_s(row["value"])))
    return rows


def files(path, data):
    """A file in the page cache, and the same bytes saved as a tensor."""
    saved = path + ".pt"
    torch.save(data, saved)
    sent = data.cuda()
    samples = []

    def add(name, load):
        check(name, torch.equal(load(), sent))
        samples.append(sample("file in page cache h2d, " + name, SIZE, load))

    try:
        add("fromfile and to", lambda: torch.from_numpy(numpy.fromfile(path, dtype=numpy.uint8, count=SIZE)).to("cuda"))
        add("from_file and to", lambda: torch.from_file(path, size=SIZE, dtype=torch.uint8).to("cuda"))
        add("torch.load", lambda: torch.load(saved, map_location="cuda", weights_only=True))
        add("torch.load, mmap", lambda: torch.load(saved, map_location="cuda", weights_only=True, mmap=True))
        return peer.in_turn(samples, REPEATS)
    finally:
        os.remove(saved)


def main():
    path = sys.argv[1]
    data = torch.from_numpy(numpy.fromfile(path, dtype=numpy.uint8, count=SIZE))
    if len(data) < SIZE:
        raise SystemExit(f"{path} has {len(data)} bytes, not {SIZE}")
    rows = []
    for group in (lambda: scattered(data), queued, lambda: pageable(data), lambda: pipelines(data),
                  lambda: files(path, data)):
        rows += group()
        torch.cuda.empty_cache()
    peer.document("PyTorch " + torch.__version__, "moves", torch.cuda.get_device_name(), rows, repeats=REPEATS)


main()
