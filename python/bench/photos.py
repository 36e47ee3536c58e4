"""Feeds a photo folder to PyTorch by pinion.DataLoader, as bench/peers/torch_loader.py does by PyTorch's own.

    PYTHONPATH=bench/peers python3 python/bench/photos.py FOLDER [DEVICE] > python-photos.json

Rows: photos decoded on the GPU and on the processors, as in bench/peers/torch_loader.py, beside `pinion feed` on the
same folder (PINION_COMMAND, or the command in PATH), in turn; next() for a batch that is ready, in a loop that is busy in
between; and where torchvision is installed, a training loop of ResNet-50 (bfloat16, channels last). Its batches are so
large (256) that the GPU, not the processor, is what takes the time of a step: only then does the GPU stand still for want
of data alone. Of the loop there are the time of a step with batches from the loader and with one batch that is there; the
share of the time in which it waited for data, as Pinion counts it; and the share in which the stream that computes had no
work, as PyTorch's profiler shows it, in both loops and their difference. The first batch of an epoch is before all of
these. With QUICK=1 there is less of everything, to try it out: DEVICE may be cpu then.
"""

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


def way(folder, device, decode):
    loader = pinion.DataLoader(folder, BATCH, shuffle=True, drop_last=True, num_workers=WORKERS, device=device, decode=decode, output="torch")
    return f"pinion.DataLoader, {WORKERS} workers, decode {decode}", lambda: peer.epoch_and_middle(
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
    """next() of a batch that is ready, in microseconds."""
    with pinion.DataLoader(folder, BATCH, num_workers=WORKERS, device=device, output=output) as loader:
        times = []
        while len(times) < count:
            it = iter(loader)
            batch = next(it)
            for _ in range(len(loader) - 1):
                busy_for(0.02)
                start = time.perf_counter_ns()
                batch = next(it)
                times.append((time.perf_counter_ns() - start) / 1e3)
        del batch
    times.sort()
    n = len(times)
    return dict(name="next() of a ready batch", by=f"pinion.DataLoader, output {output}", unit="us", value=statistics.median(times),
                min=times[n // 10], max=times[n * 9 // 10])  # fmt: skip


def idle(trace):
    """The share of a profile in which the stream that computes had no work, from its first kernel to the end of its last."""
    with open(trace) as f:
        events = json.load(f)["traceEvents"]
    streams = {}
    for e in events:
        if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"):
            streams.setdefault(e.get("args", {}).get("stream"), []).append((e["ts"], e["ts"] + e["dur"]))
    spans = sorted(max(streams.values(), key=lambda spans: sum(b - a for a, b in spans)))
    total, end = 0.0, spans[0][0]
    for a, b in spans:
        total += max(0.0, b - max(a, end))
        end = max(end, b)
    return 1 - total / (end - spans[0][0])


def profiled(run):
    """idle of what run does."""
    profile = torch.profiler.profile
    more = {"acc_events": True} if "acc_events" in inspect.signature(profile).parameters else {}
    with profile(activities=[torch.profiler.ProfilerActivity.CUDA], **more) as found:
        run()
    with tempfile.TemporaryDirectory() as temp:
        found.export_chrome_trace(temp + "/trace.json")
        return idle(temp + "/trace.json")


def training(folder, device):
    import torchvision

    torch.backends.cudnn.benchmark = True
    model = torchvision.models.resnet50(num_classes=1000).to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3, momentum=0.9)
    loader = pinion.DataLoader(
        folder, TRAINING_BATCH, shuffle=True, drop_last=True, num_workers=WORKERS, device=device, dtype=torch.bfloat16, output="torch"
    )
    kept = [t.clone() for t in next(iter(loader))]

    def step(images, labels):
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(images.contiguous(memory_format=torch.channels_last)), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    def run(batches):
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

    there = [kept] * len(loader)
    run(there)
    fed, still = [], []
    for _ in range(EPOCHS):
        still.append(run(there))
        fed.append(run(loader))
    of = f"ResNet-50, batches of {TRAINING_BATCH}"
    rows = [
        median(f"a step of {of}", "batches of pinion.DataLoader", "ms", [ms for ms, _ in fed]),
        median(f"a step of {of}", "one batch that is there", "ms", [ms for ms, _ in still]),
        median(f"waiting for data: {of}", "Pinion", "of the time", [share for _, share in fed]),
    ]
    if device.type == "cuda":
        fed, still = profiled(lambda: run(loader)), profiled(lambda: run(there))
        for by, share in (("batches of pinion.DataLoader", fed), ("one batch that is there", still), ("the difference", fed - still)):
            rows.append(median(f"stream without work by PyTorch's profiler: {of}", by, "of the time", [share]))
    loader.close()
    return rows


def main():
    folder = sys.argv[1]
    device = torch.device(sys.argv[2] if len(sys.argv) > 2 else "cuda:0")
    decodes = ["gpu", "cpu"] if device.type == "cuda" else ["cpu"]
    rows = []
    for decode in decodes:
        peer.step(f"photos, decode {decode}")
        ways = [way(folder, device, decode), feed(folder, device, decode)]
        rows += peer.epochs(f"photos to 224-px f32 batches of {BATCH}, decode {decode}", "images/s", ways, EPOCHS)
    peer.step("next()")
    rows += [ready(folder, device, output) for output in ("dlpack", "torch")]
    if importlib.util.find_spec("torchvision"):
        peer.step("ResNet-50")
        rows += training(folder, device)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    peer.document(f"pinion {pinion.__version__} in PyTorch {torch.__version__}", "python", name, rows, repeats=EPOCHS, batch=BATCH)


main()
