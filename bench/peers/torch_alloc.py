"""Replays allocation traces on PyTorch's caching allocator, beside `pinion
replay`.

    python3 torch_alloc.py TRACE … > torch-replay.json

Traces are JSON lines, as `pinion replay --generate` writes them. Each is
replayed with the allocator as it comes and, in a process of its own, with
expandable segments: once with all of the device, and once with so little that
the trace's peak of live bytes is 97 % of it. What does not fit is left out and
counted. Memory is allocated, not written. Times are those of torch.empty and
of dropping the tensor, from Python.
"""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import time

import torch

import peer

FULL = 0.97  # of the capacity is live at the peak


def events(path):
    """Of each line: the ID, the bytes or None for a free, and the stream."""
    with open(path) as lines:
        for number, line in enumerate(lines, 1):
            event = json.loads(line)
            if event["op"] == "alloc":
                if not event.get("failed"):
                    yield event["id"], event["bytes"], event.get("stream") or 0
            elif event["op"] == "free":
                yield event["id"], None, None
            else:
                raise SystemExit(f"{path}:{number}: op is {event['op']}")


def percentile(values, q):
    return values[min(int(len(values) * q), len(values) - 1)] if values else 0


def replay(trace, how, share):
    """Replays a list of events, with so little memory that its peak of live
    bytes is that share of it; 0 is with all of the device."""
    free, total = torch.cuda.mem_get_info()
    most = peak(trace)
    capacity = int(most / share) if share else free
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(min(capacity / total, 1.0) if share else 1.0)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_stats()
    if before["reserved_bytes.all.current"]:
        raise SystemExit("something is still allocated")

    live, streams = {}, {}
    live_bytes = peak_live = ooms = least_oom = 0
    alloc_ns, free_ns = [], []
    for name, size, stream in trace:
        if size is None:
            if name not in live:  # it did not fit
                continue
            tensor, size = live.pop(name)
            start = time.perf_counter_ns()
            del tensor
            free_ns.append(time.perf_counter_ns() - start)
            live_bytes -= size
            continue
        if stream and stream not in streams:
            streams[stream] = torch.cuda.Stream()
        with torch.cuda.stream(streams[stream]) if stream else contextlib.nullcontext():
            try:
                start = time.perf_counter_ns()
                tensor = torch.empty(size, dtype=torch.uint8, device="cuda")
                alloc_ns.append(time.perf_counter_ns() - start)
            except torch.OutOfMemoryError:
                ooms += 1
                least_oom = min(least_oom or total, live_bytes + size)
                continue
        live[name] = tensor, size
        del tensor
        live_bytes += size
        peak_live = max(peak_live, live_bytes)

    after = torch.cuda.memory_stats()
    live.clear()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(1.0)
    calls = lambda key: after[key] - before[key]
    alloc_ns.sort()
    free_ns.sort()
    return dict(
        allocator=how, capacity_bytes=capacity, events=len(trace), peak_trace_bytes=most,
        peak_live_bytes=peak_live, peak_reserved_bytes=after["reserved_bytes.all.peak"],
        ooms=ooms, least_oom_bytes=least_oom,  # that would have been live when it failed
        driver_calls=calls("num_device_alloc") + calls("num_device_free"),
        alloc_p50_seconds=percentile(alloc_ns, 0.5) * 1e-9, alloc_p99_seconds=percentile(alloc_ns, 0.99) * 1e-9,
        free_p50_seconds=percentile(free_ns, 0.5) * 1e-9)


def peak(trace):
    """The most bytes that are live if everything fits."""
    sizes, live, most = {}, 0, 0
    for name, size, _ in trace:
        if size is None:
            live -= sizes.pop(name)
        else:
            sizes[name] = size
            live += size
            most = max(most, live)
    return most


def measure(paths, how):
    torch.empty(1, device="cuda")  # makes the context
    replays = []
    for path in paths:
        trace = list(events(path))
        for share in 0, FULL:
            replays.append(dict(trace=pathlib.Path(path).stem, **replay(trace, how, share)))
    return replays


def main():
    paths = sys.argv[1:]
    if paths[:1] == ["--expandable"]:
        print(json.dumps(measure(paths[1:], "expandable segments")))
        return
    if not paths:
        raise SystemExit(__doc__)
    replays = measure(paths, "default")
    other = subprocess.run(
        [sys.executable, __file__, "--expandable", *paths], check=True, stdout=subprocess.PIPE,
        env=dict(os.environ, PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True"))
    replays += json.loads(other.stdout)
    peer.document("PyTorch " + torch.__version__, "replay", torch.cuda.get_device_name(), [], replays=replays)


main()
