"""Measures pinned memory in two processes through PyTorch, as
`pinion bench processes` does.

    python3 torch_processes.py > torch-processes.json

The rows have the names of Pinion's: a kind of host memory and a direction, by
each process alone and by all together.

    pageable           an ordinary tensor
    private pinned     a pinned tensor that the process has made itself
    serialised pinned  a pinned tensor of the parent, sent through a Queue
    shared pinned      share_memory_() in the parent, cudaHostRegister in each

New processes time the device and their first copy, one process at a time.
Steady copies are timed in turn, by processes that hold all kinds of memory.
Together means that a process copies before and after the copy that it times,
so that this one does not have the link to itself. Bytes are checked first.
"""

import os
import statistics
import time
import traceback

import torch
import torch.multiprocessing as multiprocessing

import peer

SIZE = 256 << 20
PROCESSES = 2
REPEATS = 7
AROUND = 0.002  # seconds of copies around a timed one
PATIENCE = 60  # seconds for one answer

PAGEABLE, PRIVATE = "pageable", "private pinned"
SERIALISED, SHARED = "serialised pinned", "shared pinned"
DIRECTIONS = "h2d", "d2h"


def random_bytes(seed):
    """SIZE bytes that no other process has."""
    words = torch.empty(SIZE // 8, dtype=torch.int64)
    return words.random_(generator=torch.Generator().manual_seed(seed)).view(torch.uint8)


def part_of(segment, number):
    """Each process has a part of the segment for itself."""
    return segment[number * SIZE:(number + 1) * SIZE]


class Child:
    """What a process holds: host memory of several kinds, and device memory."""

    def __init__(self, number, seed, queue, segment):
        self.number, self.queue, self.segment = number, queue, segment
        self.want = random_bytes(seed)
        self.host = {}
        self.device = None

    def open(self):
        def first_use():
            torch.cuda.init()
            torch.cuda.synchronize()  # makes the context
        return peer.timed(first_use)

    def take(self, kind, sent):
        """Returns seconds and whether the memory is pinned."""
        seconds = 0.0
        if kind == PAGEABLE:
            memory = self.want.clone()
        elif kind == PRIVATE:
            start = time.perf_counter()
            memory = torch.empty(SIZE, dtype=torch.uint8, pin_memory=True)
            seconds = time.perf_counter() - start
            memory.copy_(self.want)
        elif kind == SERIALISED:
            memory = self.queue.get(timeout=PATIENCE)
            # On Linux this clock is the same for all processes.
            seconds = time.perf_counter() - sent
        else:
            memory = part_of(self.segment, self.number)
            start = time.perf_counter()
            error = torch.cuda.cudart().cudaHostRegister(
                self.segment.data_ptr(), self.segment.numel(), 0)
            seconds = time.perf_counter() - start
            if int(error) != 0:
                raise RuntimeError(f"cudaHostRegister: {error}")
        if not torch.equal(memory, self.want):
            raise RuntimeError(f"{kind}: wrong bytes before any copy")
        self.host[kind] = memory
        return seconds, memory.is_pinned()

    def copy(self, kind, direction):
        if self.device is None:
            self.device = torch.empty(SIZE, dtype=torch.uint8, device="cuda")
        if direction == "h2d":
            self.device.copy_(self.host[kind], non_blocking=True)
        else:
            self.host[kind].copy_(self.device, non_blocking=True)
        torch.cuda.synchronize()

    def first(self, kind, direction):
        if direction == "d2h":
            self.host[kind].zero_()
        seconds = peer.timed(lambda: self.copy(kind, direction))
        arrived = self.device.cpu() if direction == "h2d" else self.host[kind]
        if not torch.equal(arrived, self.want):
            raise RuntimeError(f"{kind} {direction}: the bytes that arrived are not those that were sent")
        return seconds

    def check(self, kind):
        if self.device is not None:
            self.device.zero_()
        for direction in DIRECTIONS:
            self.first(kind, direction)

    def steady(self, kind, direction, together):
        """Returns begin, start of the timed copy, its end, end of all."""
        def surround():
            start = time.perf_counter()
            self.copy(kind, direction)
            while together and time.perf_counter() - start < AROUND:
                self.copy(kind, direction)

        begin = time.perf_counter()
        surround()
        start = time.perf_counter()
        self.copy(kind, direction)
        stop = time.perf_counter()
        if together:
            surround()
        return begin, start, stop, time.perf_counter()

    def close(self):
        if self.host.get(SHARED) is not None:
            torch.cuda.synchronize()
            torch.cuda.cudart().cudaHostUnregister(self.segment.data_ptr())


def serve(number, seed, conn, queue, segment):
    """What a process runs: it answers (method, arguments) until there are none."""
    try:
        child = Child(number, seed, queue, segment)
        while True:
            request = conn.recv()
            if request is None:
                break
            method, arguments = request
            conn.send((True, getattr(child, method)(*arguments)))
        child.close()
    except EOFError:
        pass  # the parent has died
    except Exception:
        conn.send((False, traceback.format_exc()))


class Worker:
    """A process, seen from its parent."""

    def __init__(self, context, number, seed, segment):
        self.number, self.seed = number, seed
        self.conn, theirs = context.Pipe()
        self.queue = context.Queue()
        self.process = context.Process(
            target=serve, args=(number, seed, theirs, self.queue, segment), daemon=True)
        self.process.start()
        theirs.close()

    def ask(self, method, *arguments):
        self.conn.send((method, arguments))

    def answer(self):
        try:
            if not self.conn.poll(PATIENCE):
                raise SystemExit(f"process {self.number} has not answered for {PATIENCE} s")
            right, value = self.conn.recv()
        except (EOFError, ConnectionError):
            self.process.join(1)
            raise SystemExit(f"process {self.number} ended with exit code {self.process.exitcode}")
        if not right:
            raise SystemExit(f"process {self.number}: {value}")
        return value

    def call(self, method, *arguments):
        self.ask(method, *arguments)
        return self.answer()

    def take(self, kind, segment):
        sent = 0.0
        if kind == SERIALISED:
            # PyTorch moves what it sends into shared memory, so each process
            # is sent a tensor of its own.
            tensor = random_bytes(self.seed).pin_memory()
            sent = time.perf_counter()
            self.queue.put(tensor)
        elif kind == SHARED:
            part_of(segment, self.number).copy_(random_bytes(self.seed))
        return self.call("take", kind, sent)

    def end(self):
        self.conn.send(None)
        self.process.join(PATIENCE)
        if self.process.exitcode != 0:
            raise SystemExit(f"process {self.number} ended with exit code {self.process.exitcode}")


def row(name, unit, figures, **more):
    figures = sorted(figures)
    return dict(name=name, value=statistics.median(figures), unit=unit,
                min=figures[0], max=figures[-1], **more)


def overlap(spans):
    """The shares of the timed copies during which all others copied too."""
    shares = []
    for i, (_, start, stop, _) in enumerate(spans):
        first, last = start, stop
        for j, (begin, _, _, end) in enumerate(spans):
            if j != i:
                first, last = max(first, begin), min(last, end)
        shares.append(max(0.0, last - first) / (stop - start))
    return shares


def steady_rows(workers, kinds):
    rate = lambda seconds: SIZE / 1e9 / seconds
    places = [(kind, direction) for kind in kinds for direction in DIRECTIONS]
    alone = {place: [[] for _ in workers] for place in places}
    together = {place: [[] for _ in workers] for place in places}
    overlaps = {place: [] for place in places}
    for _ in range(REPEATS):
        for place in places:
            for i, worker in enumerate(workers):
                _, start, stop, _ = worker.call("steady", *place, False)
                alone[place][i].append(stop - start)
            for worker in workers:
                worker.ask("steady", *place, True)
            spans = [worker.answer() for worker in workers]
            for i, (_, start, stop, _) in enumerate(spans):
                together[place][i].append(stop - start)
            overlaps[place] += overlap(spans)
    rows = []
    for kind, direction in places:
        for condition, times in ("alone", alone), ("together", together):
            here, private = times[kind, direction], times[PRIVATE, direction]
            # Of the process that is furthest behind.
            share = min(statistics.median(p) / statistics.median(t) for p, t in zip(private, here))
            more = dict(of_private_pinned_ratio=share)
            if condition == "together":
                more["overlap_fraction"] = statistics.median(overlaps[kind, direction])
            rows.append(row(f"{kind} {direction} {condition}", "GB/s",
                            [rate(t) for list_ in here for t in list_], **more))
    return rows


def shared_memory():
    """Bytes that are free where PyTorch puts tensors that processes share."""
    try:
        s = os.statvfs("/dev/shm")
    except OSError:
        return 0
    return s.f_bavail * s.f_frsize


def main():
    context = multiprocessing.get_context("spawn")
    kinds, missing, segment = [PAGEABLE, PRIVATE, SERIALISED, SHARED], [], None
    # The segment, and what each process is sent, first and last.
    if shared_memory() > 4 * PROCESSES * SIZE:
        segment = torch.zeros(PROCESSES * SIZE, dtype=torch.uint8).share_memory_()
    else:
        kinds = [PAGEABLE, PRIVATE]
        missing = [dict(path=kind, reason=f"/dev/shm has {shared_memory()} bytes") for kind in (SERIALISED, SHARED)]

    # All are started at once, since importing PyTorch takes seconds.
    seeds = iter(range(1, 1000))
    new = {kind: [Worker(context, i, next(seeds), segment) for i in range(PROCESSES)] for kind in kinds}
    workers = [Worker(context, i, next(seeds), segment) for i in range(PROCESSES)]

    opened_here = peer.timed(lambda: (torch.cuda.init(), torch.cuda.synchronize()))
    opened, taken, pinned = [], {kind: [] for kind in kinds}, {}
    rows = []
    for kind in kinds:
        firsts = {direction: [] for direction in DIRECTIONS}
        for worker in new[kind]:
            opened.append(worker.call("open"))
            seconds, pinned[kind] = worker.take(kind, segment)
            taken[kind].append(seconds)
            for direction in DIRECTIONS:
                firsts[direction].append(worker.call("first", kind, direction))
            worker.end()
        rows += [row(f"{kind} {direction} first copy", "s", firsts[direction]) for direction in DIRECTIONS]

    for worker in workers:
        opened.append(worker.call("open"))
        for kind in kinds:
            taken[kind].append(worker.take(kind, segment)[0])
    for kind in kinds:
        for worker in workers:
            worker.ask("check", kind)
        for worker in workers:
            worker.answer()
    rows += steady_rows(workers, kinds)
    for worker in workers:
        worker.end()

    rows.append(row("open the device, in this process", "s", [opened_here]))
    rows.append(row("open the device", "s", opened))
    for name, kind in (("pin private memory", PRIVATE), ("pin the shared segment", SHARED),
                       ("serialise and send a pinned buffer", SERIALISED)):
        if kind in kinds:
            rows.append(row(name, "s", taken[kind]))
    by_name = {r["name"]: r["value"] for r in rows}
    pinned_seconds = SIZE / 1e9 / by_name[PRIVATE + " h2d alone"]
    naive = (by_name["open the device"] + by_name[PAGEABLE + " h2d first copy"]) / pinned_seconds
    peer.document("PyTorch " + torch.__version__, "processes", torch.cuda.get_device_name(), rows,
                  repeats=REPEATS, processes=PROCESSES, size_bytes=SIZE, naive_ratio=naive,
                  is_pinned_on_arrival=pinned, not_available=missing)


if __name__ == "__main__":
    main()
