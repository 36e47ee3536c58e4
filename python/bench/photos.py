"""Feeds a photo folder to PyTorch by pinion.DataLoader, as bench/peers/torch_loader.py does by PyTorch's own.

    PYTHONPATH=bench/peers python3 python/bench/photos.py FOLDER [DEVICE [PART …]] > python-photos.json

Parts, all by default:

photos: decoded on the GPU, also with cpu_share="auto", and on the processors, as in bench/peers/torch_loader.py, beside
`pinion feed` on the same folder (PINION_COMMAND, or the command in PATH), in turn.

next: next() for a batch that is ready, in a loop that is busy in between.

resnet: a training loop of ResNet-50 (bfloat16, channels last), where torchvision is installed. Its batches are so large
(256) that the GPU, not the processor, is what takes the time of a step: only then does the GPU stand still for want of data
alone. There are the time of a step, with batches from the loader and with one batch that is there, and what share of the time
the loop waited for data: as Pinion counts it, and as PyTorch's profiler shows it. That is the time in which the stream that
computes had no work between the last kernel of a step and the first one of the next, less what it is with the batch that is
there. Beside it stands the time without work within steps, which is no waiting for data, and how much of both other streams,
such as the decoder's, were at work. The first batch of an epoch is before all of these.

With QUICK=1 there is less of everything, to try it out: DEVICE may be cpu then.
"""

import contextlib
import importlib.util
import inspect
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import peer
import torch

import pinion

QUICK = bool(os.environ.get("QUICK"))
BATCH = 8 if QUICK else 64
TRAINING_BATCH = 8 if QUICK else 256
EPOCHS = 2 if QUICK else 3
WORKERS = 2 if QUICK else 16


def wait(device):
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def way(folder, device, decode, share=0):
    loader = pinion.DataLoader(
        folder, BATCH, shuffle=True, drop_last=True, num_workers=WORKERS, device=device, decode=decode, cpu_share=share, output="torch"
    )
    helps = ", which help" if share else ""
    return f"pinion.DataLoader, {WORKERS} workers{helps}, decode {decode}", lambda: peer.epoch_and_middle(
        loader, len(loader), lambda batch: len(batch[0]), lambda: wait(device)
    )


def feed(folder, device, decode):
    """`pinion feed`: the rate of whole epochs, for both figures."""

    def run():
        name = "host" if device.type == "cpu" else f"cuda:{device.index or 0}"
        out = subprocess.run(
            [os.environ.get("PINION_COMMAND", "pinion"), "feed", folder, "--device", name, "--batch", str(BATCH), "--shuffle", "--drop-last",
             "--workers", str(WORKERS), "--decode", decode, "--epochs", "3", "--json"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        report = json.loads(out.stdout)
        rate = report["samples"] / report["seconds"]
        return rate, rate

    return f"pinion feed, {WORKERS} workers, decode {decode}", run


def busy_for(seconds):
    """Lets time pass as a training loop does, whose thread works. One that sleeps would be measured as it wakes up."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def ready(folder, device, output, count=20 if QUICK else 150):
    """next() of a batch that is ready, in microseconds; of DLPack arrays also what PyTorch takes to make tensors of them, as
    next() does for output torch."""
    found = {"next() of a ready batch": []}
    if output == "dlpack":
        found |= {"PyTorch's tensors of a batch": [], "labels of a batch as int64": []}
    with pinion.DataLoader(folder, BATCH, num_workers=WORKERS, device=device, output=output) as loader:
        while len(found["next() of a ready batch"]) < count:
            it = iter(loader)
            batch = next(it)
            for _ in range(len(loader) - 1):
                busy_for(0.02)
                times = [time.perf_counter_ns()]
                batch = next(it)
                times.append(time.perf_counter_ns())
                if output == "dlpack":
                    tensors = [a.torch() for a in batch]
                    times.append(time.perf_counter_ns())
                    tensors[-1] = tensors[-1].long()
                    times.append(time.perf_counter_ns())
                    del tensors
                for values, start, end in zip(found.values(), times, times[1:]):
                    values.append((end - start) / 1e3)
        del batch
    rows = []
    for name, values in found.items():
        values.sort()
        n = len(values)
        rows.append(dict(name=name, by=f"pinion.DataLoader, output {output}", unit="us", value=statistics.median(values),
                         min=values[n // 10], max=values[n * 9 // 10]))  # fmt: skip
    return rows


def cold(device, count=20 if QUICK else 60):
    """What PyTorch alone takes to cast as many labels after the same pause: code that did not run for so long is slow."""
    labels, times = torch.zeros(BATCH, dtype=torch.int32, device=device), []
    for _ in range(count):
        busy_for(0.02)
        start = time.perf_counter_ns()
        labels.long()
        times.append((time.perf_counter_ns() - start) / 1e3)
    times.sort()
    return dict(name="labels of a batch as int64", by="PyTorch alone", unit="us", value=statistics.median(times),
                min=times[count // 10], max=times[count * 9 // 10])  # fmt: skip


def end_of_step(device):
    """A kernel that marks the end of a step in a profile."""
    if device.type == "cuda":
        torch.cuda._sleep(1)


MARK = "spin_kernel"


def idle(events):
    """What shares of the time the stream that computes had no work, by the events of a trace: between steps and within them,
    and how much of each other streams were at work. It begins with the second step."""
    streams = {}
    for e in events:
        if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"):
            streams.setdefault(e.get("args", {}).get("stream"), []).append((e["ts"], e["ts"] + e["dur"], MARK in e.get("name", "")))
    computes = next(stream for stream, spans in streams.items() if any(mark for _, _, mark in spans))
    spans = sorted(streams.pop(computes))
    marks = [i for i, (_, _, mark) in enumerate(spans) if mark]
    spans = spans[marks[0] + 1 : marks[-1] + 1]
    gaps = {"between": [], "within": []}
    end, marked = spans[0][0], False
    for a, b, mark in spans:
        if a > end:
            gaps["between" if marked else "within"].append((end, a))
        end, marked = max(end, b), mark
    total = end - spans[0][0]
    others = union([(a, b) for spans in streams.values() for a, b, _ in spans])
    found = {where: sum(b - a for a, b in of) / total for where, of in gaps.items()}
    return found | {f"others {where}": overlap(of, others) / total for where, of in gaps.items()}


def union(spans):
    """Spans without overlaps, in order."""
    joined = []
    for a, b in sorted(spans):
        if joined and a <= joined[-1][1]:
            joined[-1][1] = max(b, joined[-1][1])
        else:
            joined.append([a, b])
    return joined


def overlap(some, others):
    """How long spans of two lists, each in order and without overlaps, are at the same time."""
    total, i = 0.0, 0
    for a, b in some:
        while i < len(others) and others[i][1] <= a:
            i += 1
        k = i
        while k < len(others) and others[k][0] < b:
            total += min(b, others[k][1]) - max(a, others[k][0])
            k += 1
    return total


def profiled(run):
    """idle of what run does."""
    profile = torch.profiler.profile
    more = {"acc_events": True} if "acc_events" in inspect.signature(profile).parameters else {}
    with profile(activities=[torch.profiler.ProfilerActivity.CUDA], **more) as found:
        run()
    with tempfile.TemporaryDirectory() as temp:
        found.export_chrome_trace(temp + "/trace.json")
        with open(temp + "/trace.json") as f:
            return idle(json.load(f)["traceEvents"])


def training(folder, device, decodes):
    import torchvision

    torch.backends.cudnn.benchmark = True
    model = torchvision.models.resnet50(num_classes=1000).to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3, momentum=0.9)

    def step(images, labels):
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(images.contiguous(memory_format=torch.channels_last)), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        end_of_step(device)

    def run(loader, batches):
        """Milliseconds of a step, and the share of the time in which Pinion's batches were waited for."""
        it = iter(batches)
        step(*next(it))
        wait(device)
        before, start, n = loader.stats()["device_wait_seconds"], time.perf_counter(), 0
        for images, labels in it:
            step(images, labels)
            n += 1
        wait(device)
        seconds = time.perf_counter() - start
        return seconds / n * 1e3, (loader.stats()["device_wait_seconds"] - before) / seconds

    def median(name, by, unit, values):
        return dict(name=name, by=by, unit=unit, value=statistics.median(values), min=min(values), max=max(values))

    rows, of, there = [], f"ResNet-50, batches of {TRAINING_BATCH}", None
    with contextlib.ExitStack() as stack:
        loaders = {}
        for decode in decodes:
            loaders[decode] = stack.enter_context(pinion.DataLoader(
                folder, TRAINING_BATCH, shuffle=True, drop_last=True, num_workers=WORKERS, device=device, dtype=torch.bfloat16, output="torch",
                decode=decode,
            ))  # fmt: skip
        ways = {f"batches of pinion.DataLoader, decode {decode}": (loader, loader) for decode, loader in loaders.items()}
        first = loaders[decodes[0]]
        there = [[t.clone() for t in next(iter(first))]] * len(first)
        ways["one batch that is there"] = (first, there)
        run(first, there)
        found = {by: [] for by in ways}
        for _ in range(EPOCHS):
            for by, batches in ways.items():
                found[by].append(run(*batches))
        for by, values in found.items():
            rows.append(median(f"a step of {of}", by, "ms", [ms for ms, _ in values]))
        for by, values in found.items():
            if ways[by][1] is not there:
                rows.append(median(f"waiting for data: {of}", f"Pinion, {by}", "of the time", [share for _, share in values]))
        if device.type == "cuda":
            shares = {by: profiled(lambda batches=batches: run(*batches)) for by, batches in ways.items()}
            still = shares["one batch that is there"]
            for by, share in shares.items():
                if share is not still:
                    value = max(0.0, share["between"] - still["between"])
                    rows.append(median(f"waiting for data: {of}", f"PyTorch's profiler, {by}", "of the time", [value]))
            for where in ("between", "within", "others between", "others within"):
                what = "other streams at work meanwhile" if where.startswith("others") else "stream without work"
                for by, share in shares.items():
                    rows.append(median(f"{what}, {where.split()[-1]} steps: {of}", by, "of the time", [share[where]]))
    return rows


def main():
    folder = sys.argv[1]
    device = torch.device(sys.argv[2] if len(sys.argv) > 2 else "cuda:0")
    parts = sys.argv[3:] or ["photos", "next", "resnet"]
    decodes = ["gpu", "cpu"] if device.type == "cuda" else ["cpu"]
    rows = []
    for decode in decodes if "photos" in parts else ():
        peer.step(f"photos, decode {decode}")
        ways = [way(folder, device, decode), feed(folder, device, decode)]
        if decode == "gpu":
            ways.append(way(folder, device, decode, "auto"))
        rows += peer.epochs(f"photos to 224-px f32 batches of {BATCH}, decode {decode}", "images/s", ways, EPOCHS)
    if "next" in parts:
        peer.step("next()")
        rows += [*ready(folder, device, "dlpack"), *ready(folder, device, "torch"), cold(device)]
    if "resnet" in parts and importlib.util.find_spec("torchvision"):
        peer.step("ResNet-50")
        rows += training(folder, device, decodes)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    peer.document(f"pinion {pinion.__version__} in PyTorch {torch.__version__}", "python", name, rows, repeats=EPOCHS, batch=BATCH)


if __name__ == "__main__":
    main()
