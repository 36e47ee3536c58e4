"""What a batch costs in Python: small batches of a cheap dataset, on the host and on the GPU where PyTorch has one.

usage: overhead.py [ROUNDS]     (needs NumPy; torch where it is installed)

Prints, for each form of output, the CPU time and the wall time of a batch, in microseconds, of this process with all
its threads, beside those of `pinion feed` on the same data (PINION_COMMAND, or the command in PATH), and the time of
next() for a batch that is ready. On the GPU there is no `pinion feed`: what it takes to open the device would be much of
its time.
"""

import importlib.util
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import numpy

import pinion

BATCH, EPOCHS = 64, 4


def cpu(who: int) -> float:
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


def command(path: str) -> tuple[float, float]:
    """`pinion feed`: wall and CPU microseconds a batch."""
    before = cpu(resource.RUSAGE_CHILDREN)
    out = subprocess.run(
        [os.environ.get("PINION_COMMAND", "pinion"), "feed", path, "--device", "host", "--batch", str(BATCH), "--epochs", str(EPOCHS), "--json"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    report = json.loads(out.stdout)
    n = report["batches"]
    return report["seconds"] / n * 1e6, (cpu(resource.RUSAGE_CHILDREN) - before) / n * 1e6


def loop(path: str, output: str, device: str) -> tuple[float, float]:
    """A loop over pinion.DataLoader: wall and CPU microseconds a batch."""
    with pinion.DataLoader(path, BATCH, device=device, output=output) as loader:
        next(iter(loader))
        used, start, n = cpu(resource.RUSAGE_SELF), time.perf_counter(), 0
        for _ in range(EPOCHS):
            for _ in loader:
                n += 1
        return (time.perf_counter() - start) / n * 1e6, (cpu(resource.RUSAGE_SELF) - used) / n * 1e6


def ready(path: str, output: str, device: str) -> list[float]:
    """next() for batches that are ready: microseconds, sorted."""
    with pinion.DataLoader(path, BATCH, device=device, output=output) as loader:
        it = iter(loader)
        batch = next(it)
        times = []
        for _ in range(900):
            busy = time.perf_counter() + 0.001  # a thread that slept would be measured as it wakes up
            while time.perf_counter() < busy:
                pass
            start = time.perf_counter_ns()
            batch = next(it)
            times.append((time.perf_counter_ns() - start) / 1e3)
        del batch
        return sorted(times)


def main(rounds: int) -> None:
    forms = ["dlpack", "numpy"] + (["torch"] if importlib.util.find_spec("torch") else [])
    have = bool(os.environ.get("PINION_COMMAND") or shutil.which("pinion"))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "array.npy")
        numpy.save(path, numpy.zeros((65536, 16), dtype=numpy.float32))
        show("host", path, rounds, forms, have)
        if "torch" in forms and has_gpu():
            show("cuda:0", path, rounds, ["dlpack", "torch"], False)


def has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


def show(device: str, path: str, rounds: int, forms: list[str], feed: bool) -> None:
    results: dict[str, list[tuple[float, float]]] = {}
    for _ in range(rounds):
        if feed:
            results.setdefault("feed", []).append(command(path))
        for form in forms:
            results.setdefault(form, []).append(loop(path, form, device))
    for name, values in results.items():
        wall, used = zip(*values)
        print(
            f"{device:6s} {name:7s} a batch: wall {statistics.median(wall):6.1f} us (least {min(wall):.1f}), "
            f"CPU {statistics.median(used):6.1f} us (least {min(used):.1f})"
        )
    for form in forms:
        times = ready(path, form, device)
        print(f"{device:6s} {form:7s} next() of a ready batch: median {times[450]:.1f} us, p10 {times[90]:.1f}, p90 {times[810]:.1f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
