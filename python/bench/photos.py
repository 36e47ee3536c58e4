"""Feeds a photo folder to PyTorch by pinion.DataLoader, as bench/peers/torch_loader.py does by PyTorch's own.

    PYTHONPATH=bench/peers python3 python/bench/photos.py FOLDER [DEVICE] > python-photos.json

Rows: photos decoded on the GPU and on the processors, as in bench/peers/torch_loader.py, beside `pinion feed` on the
same folder (PINION_COMMAND, or the command in PATH), in turn; next() for a batch that is ready; and where torchvision
is installed, a training loop of ResNet-50 (bfloat16, channels last, batches of 64): its step with batches from the
loader and with one batch that is there, and the share of the time in which the GPU had no work, as Pinion counts it and
as PyTorch's profiler shows it. With QUICK=1 there is less of everything, to try it out: DEVICE may be cpu then.
"""

import importlib.util
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
EPOCHS = 2 if QUICK else 5
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


def ready(folder, device):
    """next() of a batch that is ready, in microseconds."""
    with pinion.DataLoader(folder, BATCH, num_workers=WORKERS, device=device, output="torch") as loader:
        times = []
        while len(times) < (20 if QUICK else 300):
            for it in [iter(loader)]:
                next(it)
                for _ in range(len(loader) - 1):
                    time.sleep(0.02)
                    start = time.perf_counter_ns()
                    batch = next(it)
                    times.append((time.perf_counter_ns() - start) / 1e3)
        del batch
    times.sort()
    return dict(name="next() of a ready batch", by="pinion.DataLoader", unit="us", value=statistics.median(times),
                min=times[len(times) // 10], max=times[len(times) * 9 // 10])  # fmt: skip


def busy(trace):
    """The share of a profile in which the GPU worked: of the time from its first kernel or copy to the end of its last."""
    with open(trace) as f:
        events = json.load(f)["traceEvents"]
    spans = sorted((e["ts"], e["ts"] + e["dur"]) for e in events if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"))
    total, end = 0.0, spans[0][0]
    for a, b in spans:
        total += max(0.0, b - max(a, end))
        end = max(end, b)
    return total / (end - spans[0][0])


def training(folder, device):
    import torchvision

    model = torchvision.models.resnet50(num_classes=1000).to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3, momentum=0.9)

    def step(images, labels):
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(images.contiguous(memory_format=torch.channels_last)), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    loader = pinion.DataLoader(folder, BATCH, shuffle=True, drop_last=True, num_workers=WORKERS, device=device, dtype=torch.bfloat16, output="torch")
    kept = [t.clone() for t in next(iter(loader))]

    def run(batches):
        wait(device)
        start, n = time.perf_counter(), 0
        for images, labels in batches:
            step(images, labels)
            n += 1
        wait(device)
        return (time.perf_counter() - start) / n * 1e3

    fed, still, waited = [], [], []
    run([kept] * 20)
    for _ in range(EPOCHS):
        still.append(run([kept] * len(loader)))
        before, start = loader.stats()["device_wait_seconds"], time.perf_counter()
        fed.append(run(loader))
        waited.append((loader.stats()["device_wait_seconds"] - before) / (time.perf_counter() - start))
    rows = [
        dict(name="a step of ResNet-50", by=by, unit="ms", value=statistics.median(v), min=min(v), max=max(v))
        for by, v in (("batches of pinion.DataLoader", fed), ("one batch that is there", still))
    ]
    rows.append(dict(name="waiting for data", by="Pinion", unit="of the time", value=statistics.median(waited), min=min(waited), max=max(waited)))
    if device.type == "cuda":
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            run(loader)
        with tempfile.TemporaryDirectory() as temp:
            profile.export_chrome_trace(temp + "/trace.json")
            idle = 1 - busy(temp + "/trace.json")
        rows.append(dict(name="GPU without work", by="PyTorch's profiler", unit="of the time", value=idle, min=idle, max=idle))
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
    rows.append(ready(folder, device))
    if importlib.util.find_spec("torchvision"):
        peer.step("ResNet-50")
        rows += training(folder, device)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    peer.document(f"pinion {pinion.__version__} in PyTorch {torch.__version__}", "python", name, rows, repeats=EPOCHS, batch=BATCH)


main()
