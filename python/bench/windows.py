"""Inference in windows: pinion.torch.sliding_window, beside all sums on the device.

usage: windows.py [--size 384] [--window 128] [--classes 100] [--rounds 3] [--device cuda] [--out FILE]

A model of two convolutions over a volume, in windows with half of them covered by the next, blended by a Gaussian. In turns:
with all sums on the device, and by sliding_window with the result in host memory and on the device. Times in seconds (median,
and all of them), and the peak of device memory. Results are compared. JSON. Two minutes on a GPU.
"""

import argparse
import datetime
import itertools
import json
import statistics
import sys
import time

import torch

import pinion.torch
from pinion.torch import _window


def plain(x: torch.Tensor, roi: int, model: torch.nn.Module, classes: int) -> torch.Tensor:
    """All sums on the device of the volume."""
    starts = _window._starts(x.shape[2], roi, 0.5)
    weights = _window._weights([roi] * 3, "gaussian", [0.125] * 3).to(x.device)
    sums, counts = x.new_zeros(1, classes, *x.shape[2:]), x.new_zeros(1, 1, *x.shape[2:])
    for a, b, c in itertools.product(starts, starts, starts):
        at = (slice(None), slice(None), slice(a, a + roi), slice(b, b + roi), slice(c, c + roi))
        sums[at] += model(x[at]).mul_(weights)
        counts[at] += weights
    return sums.div_(counts)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--size", type=int, default=384)
    p.add_argument("--window", type=int, default=128)
    p.add_argument("--classes", type=int, default=100)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    p.add_argument("--out")
    a = p.parse_args()
    device = torch.device(a.device)
    gpu = device.type == "cuda"
    torch.manual_seed(1)
    volume = torch.rand(1, 1, a.size, a.size, a.size)
    model = torch.nn.Sequential(torch.nn.Conv3d(1, 16, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv3d(16, a.classes, 3, padding=1)).to(device)
    there = volume.to(device)

    def windows(lies_on: str) -> torch.Tensor:
        return pinion.torch.sliding_window(volume, a.window, 1, model, 0.5, "gaussian", sw_device=device, device=lies_on)

    ways = {
        "all sums on the device": lambda: plain(there, a.window, model, a.classes),
        "sliding_window, result in host memory": lambda: windows("cpu"),
        "sliding_window, result on the device": lambda: windows(str(device)),
    }
    times: dict = {name: [] for name in ways}
    peaks: dict = {}
    want = None
    with torch.inference_mode():
        for r in range(a.rounds + 1):  # the first is warm-up
            for name, way in ways.items():
                if gpu:
                    torch.cuda.synchronize(device)
                    torch.cuda.empty_cache()
                    torch.cuda.reset_peak_memory_stats(device)
                start = time.perf_counter()
                made = way()
                if gpu:
                    torch.cuda.synchronize(device)
                if r > 0:
                    times[name].append(time.perf_counter() - start)
                else:
                    peaks[name] = torch.cuda.max_memory_allocated(device) if gpu else 0
                    made = made.cpu()
                    want = made if want is None else want
                    if not torch.allclose(made, want, rtol=1e-4, atol=1e-4):
                        sys.exit(f"{name}: another result")
                del made
    document = {
        "benchmark": "windows",
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "machine": {"device": torch.cuda.get_device_name(device) if gpu else "cpu", "torch": torch.__version__, "pinion": pinion.__version__},
        "size": a.size,
        "window": a.window,
        "classes": a.classes,
        "ways": [
            {"name": n, "seconds": statistics.median(times[n]), "seconds_all": times[n], "peak_bytes": peaks[n]} for n in ways
        ],
    }
    text = json.dumps(document, indent=1)
    if a.out:
        with open(a.out, "w") as f:
            f.write(text + "\n")
    else:
        print(text)
    for w in document["ways"]:
        print(f"{w['name']:40} {w['seconds']:8.3f} s {w['peak_bytes'] / 1e9:8.2f} GB", file=sys.stderr)


if __name__ == "__main__":
    main()
