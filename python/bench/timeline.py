"""PyTorch's work on a timeline: whether it is all there with the times that CUDA's events tell, and what recording costs.

usage: timeline.py [--steps 1000] [--rounds 5] [--device cuda] [--trace FILE] [--out FILE]

pinion.timeline records products of matrices on one stream, beside copies on another and a loader; the file is
compared with torch.cuda.Event, and with the host's clock. Then two loops over the loader run with a recording and without,
in turn: one of twenty kernels of a few microseconds a step, which the processor hardly queues as fast as they run, and one
of products of matrices. Both run before the first recording, too, since CUPTI may leave something behind. Some fifteen
seconds. Writes JSON and prints what was checked; a check that fails ends it with code 1. Last, PyTorch's profiler runs beside a recording, where each may refuse. On the CPU
only the loader is checked: --device cpu --steps 50 tries the script.
"""

import argparse
import collections
import json
import os
import statistics
import sys
import tempfile
import time

import numpy
import torch

import pinion

PRODUCTS, SIZE, COPIES, COPY_BYTES = 100, 4096, 20, 64 << 20
failed = []


def check(what: str, good: bool) -> None:
    print(f"{'ok  ' if good else 'FAIL'} {what}", flush=True)
    if not good:
        failed.append(what)


def read(path: str):
    """The spans of a trace, each with the names of its process and row, and its report."""
    with open(path) as f:
        trace = json.load(f)
    names = {(e["name"], e["pid"], e["tid"]): e["args"]["name"] for e in trace["traceEvents"] if e["ph"] == "M" and "name" in e["args"]}
    spans = [
        (names["process_name", e["pid"], 0], names["thread_name", e["pid"], e["tid"]], e)
        for e in trace["traceEvents"]
        if e["ph"] == "X"
    ]
    return spans, trace["otherData"]["overlap"]


def products(device: torch.device, data: str, path: str, loads: int) -> dict:
    """Records products, copies and a loader, and checks what is in the file."""
    gpu = device.type == "cuda"
    if gpu:
        a, b = torch.randn(2, SIZE, SIZE, device=device)
        c = torch.empty_like(a)
        host = torch.empty(COPY_BYTES, dtype=torch.uint8, pin_memory=True)
        there = torch.empty(COPY_BYTES, dtype=torch.uint8, device=device)
        compute, copying = torch.cuda.Stream(), torch.cuda.Stream()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        for stream in compute, copying:
            with torch.cuda.stream(stream):
                torch.mm(a, b, out=c)
                there.copy_(host, non_blocking=True)
        torch.cuda.synchronize()
    before = time.perf_counter()
    recording = pinion.timeline.record(path)
    after = time.perf_counter()
    with pinion.DataLoader(data, 64, device=str(device)) as loader:
        for _, _ in zip(range(loads), loader):
            pass
    first = last = elapsed = 0.0
    if gpu:
        torch.cuda.synchronize()
        first = time.perf_counter()
        with torch.cuda.stream(copying):
            for _ in range(COPIES):
                there.copy_(host, non_blocking=True)
        with torch.cuda.stream(compute):
            begin.record()
            for _ in range(PRODUCTS):
                torch.mm(a, b, out=c)
            end.record()
        torch.cuda.synchronize()
        last = time.perf_counter()
        elapsed = begin.elapsed_time(end) / 1e3
    recording.stop()
    spans, report = read(path)
    found = {"start_seconds": after - before, "file_bytes": os.path.getsize(path), "spans": len(spans), "report": report}
    check(f"the loader's stages are there: {len([1 for p, _, _ in spans if p == 'loader'])} spans", any(p == "loader" for p, _, _ in spans))
    group = "cuda:0" if gpu else "host"
    copied = {
        others: sum(e["args"].get("bytes", 0) for p, row, e in spans if p == group and e["cat"] == "h2d" and row.startswith("other") == others)
        for others in (False, True)
    }
    batch = 64 * 3 * 64 * 64  # bytes; some more are on their way
    check(f"the loader's copies are there, once: {copied[False] / batch:.1f} batches, {loads} were taken", loads <= copied[False] / batch < 1.1 * loads + 32)
    if not gpu:
        return found
    error = report.get("others_error")
    check(f"CUPTI tells of the work of others ({error or 'no error'}; {report.get('lost_records', 0)} records lost)", not error and not report.get("lost_records"))
    rows = collections.defaultdict(list)
    for p, row, e in spans:
        if p == "cuda:0" and row.startswith("other"):
            rows[row, e["cat"]].append(e)
    for (row, cat), list_ in sorted(rows.items()):
        print(f"     {row}: {len(list_)} of {cat}, {sum(e['dur'] for e in list_) / 1e3:.2f} ms, such as {list_[0]['name'][:90]}")
    kernels = max((e for (_, cat), e in rows.items() if cat == "compute"), key=lambda e: sum(x["dur"] for x in e), default=[])
    total = sum(e["dur"] for e in kernels) / 1e6
    found.update(kernel_seconds=total, event_seconds=elapsed, kernels=len(kernels))
    check(f"{len(kernels)} kernels for {PRODUCTS} products, {total * 1e3:.2f} ms; by events {elapsed * 1e3:.2f} ms", bool(elapsed) and abs(total / elapsed - 1) < 0.05 and len(kernels) >= PRODUCTS)
    copies = max((e for (_, cat), e in rows.items() if cat == "h2d"), key=lambda e: sum(x["args"].get("bytes", 0) for x in e), default=[])
    moved = sum(e["args"].get("bytes", 0) for e in copies)
    took = sum(e["dur"] for e in copies) / 1e6
    found["copy_gb_per_s"] = moved / took / 1e9 if took else 0
    check(f"{len(copies)} copies of PyTorch's, {moved >> 20} MiB at {found['copy_gb_per_s']:.1f} GB/s", moved == COPIES * COPY_BYTES and 1 < found["copy_gb_per_s"] < 1000)
    check(f"the others copied nothing else: {copied[True] - moved} bytes", 0 <= copied[True] - moved < 1 << 20)
    own = kernels + copies
    if own:
        begun, ended = min(e["ts"] for e in own) / 1e6, max(e["ts"] + e["dur"] for e in own) / 1e6
        # The clock of the file was zero between before and after.
        early, late = first - after - begun, ended - (last - before)
        error = report["devices"][0]["clock_error_seconds"]
        found.update(early_seconds=early, late_seconds=late, clock_error_seconds=error)
        check(f"they lie between the calls (early by {early * 1e3:.3f} ms, late by {late * 1e3:.3f} ms at most; clocks {error * 1e6:.1f} us apart)", early < 1e-3 and late < 1e-3)
    return found


class Loops:
    """Loops over a loader, of two kinds."""

    def __init__(self, device: torch.device, data: str, steps: int) -> None:
        self.device, self.data, self.steps = device, data, steps
        self.weights = torch.randn(3 * 64 * 64, 256, device=device)
        self.size = 4096 if device.type == "cuda" else 64
        kind = torch.bfloat16 if device.type == "cuda" else torch.float32
        self.x, self.w = (torch.randn(self.size, self.size, device=device, dtype=kind) * self.size**-0.5 for _ in range(2))

    def small(self, x: torch.Tensor) -> None:
        y = x.flatten(1).float() @ self.weights
        for _ in range(20):
            y = y * 0.99

    def products(self, x: torch.Tensor) -> None:
        y = self.x
        for _ in range(4):
            y = torch.relu(y @ self.w)

    def rate(self, kind: str) -> float:
        """Steps a second."""
        step, gpu, warm = getattr(self, kind), self.device.type == "cuda", 20
        with pinion.DataLoader(self.data, 64, device=str(self.device)) as loader:
            done, start = 0, 0.0
            while True:
                for batch in loader:
                    step(batch[0] if isinstance(batch, (tuple, list)) else batch)
                    done += 1
                    if done in (warm, warm + self.steps):
                        if gpu:
                            torch.cuda.synchronize()
                        if done > warm:
                            return self.steps / (time.perf_counter() - start)
                        start = time.perf_counter()


KINDS = "small", "products"


def cost(loops: Loops, path: str, before: dict, rounds: int) -> dict:
    """Steps a second with a recording and without, in turn, beside those before the first recording."""
    found = {}
    for kind in KINDS:
        rates = {"before": before[kind], "off": [], "on": []}
        for _ in range(rounds):
            rates["off"].append(loops.rate(kind))
            recording = pinion.timeline.record(path)
            rates["on"].append(loops.rate(kind))
            recording.stop()
        middle = {k: statistics.median(v) for k, v in rates.items()}
        slower = 1 - middle["on"] / middle["off"]
        print(
            f"     {kind}: {middle['off']:.0f} steps/s without a recording, {middle['on']:.0f} with: {100 * slower:.2f} % slower; "
            f"{middle['before']:.0f} before the first one"
        )
        print("     " + "; ".join(f"{k} {sorted(round(r) for r in v)}" for k, v in rates.items()))
        report = recording.report
        print(f"     {report['records']} records in {report['seconds']:.2f} s, {report.get('lost_records', 0)} lost, {report['dropped_records']} dropped", flush=True)
        found[kind] = {"steps_per_s": rates, "slower": slower, "report": report}
    return found


def profiler(device: torch.device, path: str) -> dict:
    """What PyTorch's profiler and a recording say of each other."""
    from torch.profiler import ProfilerActivity, profile

    def profiled() -> int:
        with profile(activities=[ProfilerActivity.CUDA]) as p:
            torch.ones(1 << 20, device=device).sum().item()
        return sum(e.device_type.name == "CUDA" for e in p.events())

    found = {}
    found["profiled_after_recording"] = profiled()
    with profile(activities=[ProfilerActivity.CUDA]):
        with pinion.timeline.record(path) as recording:
            torch.ones(1 << 20, device=device).sum().item()
        found["inside_profiler"] = recording.report.get("others_error", "recorded")
    with pinion.timeline.record(path) as recording:
        found["profiled_inside_recording"] = profiled()
    with pinion.timeline.record(path) as recording:
        torch.ones(1 << 20, device=device).sum().item()
    found["after_profiler"] = recording.report.get("others_error", "recorded")
    for k, v in found.items():
        print(f"     {k}: {v}", flush=True)
    return found


def main() -> None:
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=1000)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--device", default="cuda")
    p.add_argument("--trace", default="")
    p.add_argument("--out", default="")
    a = p.parse_args()
    device = torch.device("cuda:0" if a.device == "cuda" else a.device)
    with tempfile.TemporaryDirectory() as folder:
        data = os.path.join(folder, "images.npy")
        numpy.save(data, numpy.random.default_rng(1).integers(0, 256, (8192, 3, 64, 64), dtype=numpy.uint8))
        trace = a.trace or os.path.join(folder, "trace.json")
        loops = Loops(device, data, a.steps)
        for kind in KINDS:
            loops.rate(kind)
        before = {kind: [loops.rate(kind) for _ in range(2)] for kind in KINDS}
        result = {"torch": torch.__version__, "products": products(device, data, trace, 64)}

        def save() -> None:
            if a.out:
                with open(a.out, "w") as f:
                    json.dump(result, f, indent=1)

        save()
        scratch = os.path.join(folder, "scratch.json")
        result["cost"] = cost(loops, scratch, before, a.rounds)
        save()
        if device.type == "cuda":
            try:
                result["profiler"] = profiler(device, scratch)
            except Exception as e:  # it is here to be told of
                print(f"     the profiler and a recording: {type(e).__name__}: {e}")
            save()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
