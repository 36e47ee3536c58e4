"""A Python dataset through DataLoader's workers, onto the device: with pinion.Collate, and without.

usage: collate.py [--workers 8] [--batch 64] [--shape 3,224,224] [--batches 100] [--rounds 5] [--device cuda] [--out FILE]

Every round is an epoch of each way, in turns: torch's default_collate with pin_memory=True (on a CPU, where that does nothing,
a copy into one buffer as its thread makes it), default_collate alone, and Collate. Every batch is copied to the device, and
one element of each batch is checked. The default batch has 38.5 MB (float32). Times are of whole epochs without the first
batch, which waits for the workers to start; medians of the rounds. CPU seconds are those of all processes.
"""

import argparse
import datetime
import gc
import json
import resource
import statistics
import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset

import pinion


class Made(Dataset):
    def __init__(self, n: int, shape: tuple) -> None:
        self.n, self.samples = n, torch.rand(64, *shape).numpy()

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: int) -> tuple:
        return self.samples[i % 64], i


def cpu() -> float:
    return sum(u.ru_utime + u.ru_stime for u in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--workers", type=int, default=8)
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--shape", default="3,224,224")
    p.add_argument("--batches", type=int, default=100)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    p.add_argument("--context", default="fork", choices=["fork", "spawn", "forkserver"])
    p.add_argument("--out")
    a = p.parse_args()
    device, shape = torch.device(a.device), tuple(map(int, a.shape.split(",")))
    gpu = device.type == "cuda"
    if gpu:
        torch.zeros(1, device=device)
    dataset, collate = Made(a.batch * a.batches, shape), pinion.Collate()
    staging: list = []

    def onto_gpu(x: torch.Tensor) -> torch.Tensor:
        return x.to(device, non_blocking=True)

    def through_staging(x: torch.Tensor) -> torch.Tensor:
        if not staging:
            staging.append(torch.empty_like(x))
        return staging[0].copy_(x)

    use = onto_gpu if gpu else lambda x: x
    ways = {
        "pin_memory": ({"pin_memory": gpu}, onto_gpu if gpu else through_staging),
        "default_collate": ({}, use),
        "pinion": ({"collate_fn": collate}, use),
    }
    results: dict = {way: {"seconds": [], "cpu_seconds": [], "is_pinned": False} for way in ways}
    wrong = torch.zeros((), dtype=torch.int64, device=device)

    def epoch(way: str) -> tuple[float, float]:
        options, move = ways[way]
        used = cpu()
        loader = DataLoader(dataset, a.batch, num_workers=a.workers, multiprocessing_context=a.context, **options)
        start, check = 0.0, torch.from_numpy(dataset.samples[:, ..., -1].reshape(64, -1)[:, -1].copy()).to(device)
        for n, (x, y) in enumerate(loader):
            if not start:
                if gpu:
                    torch.cuda.synchronize(device)
                start = time.perf_counter()
                results[way]["is_pinned"] = gpu and x.is_pinned()
            x, y = move(x), y.to(device, non_blocking=True)
            # Behind the copy, and after the host's memory has been let go: what is wrong would be seen here.
            wrong.add_((x.view(a.batch, -1)[:, -1] != check[y % 64]).sum() + (y[0] != n * a.batch))
        if gpu:
            torch.cuda.synchronize(device)
        took = time.perf_counter() - start
        del loader, x, y
        gc.collect()
        return took, cpu() - used

    for r in range(a.rounds + 1):  # the first is warm-up
        for way in list(ways) if r % 2 else list(ways)[::-1]:
            took, used = epoch(way)
            if r:
                results[way]["seconds"].append(took)
                results[way]["cpu_seconds"].append(used)
    if int(wrong):
        sys.exit(f"{int(wrong)} values are wrong")
    bytes_ = a.batch * dataset.samples[0].nbytes
    for way, r in results.items():
        r["median_seconds"] = statistics.median(r["seconds"])
        r["batch_seconds"] = r["median_seconds"] / (a.batches - 1)
        r["gb_per_s"] = bytes_ / r["batch_seconds"] / 1e9
        r["batch_cpu_seconds"] = statistics.median(r["cpu_seconds"]) / a.batches
        print(f"{way:16} {r['batch_seconds'] * 1e3:8.2f} ms a batch  {r['gb_per_s']:6.2f} GB/s  {r['batch_cpu_seconds'] * 1e3:8.2f} ms CPU")
    for way in ("pin_memory", "default_collate"):
        print(f"Collate is {results[way]['batch_seconds'] / results['pinion']['batch_seconds']:.2f}x {way}")
    if a.out:
        document = {
            "benchmark": "collate",
            "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "torch": torch.__version__, "device": torch.cuda.get_device_name(device) if gpu else "cpu",
            "workers": a.workers, "batch": a.batch, "shape": shape, "batch_bytes": bytes_, "batches": a.batches,
            "start_method": a.context, "collate": collate.stats(), "results": results,
        }  # fmt: skip
        with open(a.out, "w") as f:
            json.dump(document, f, indent=1)


if __name__ == "__main__":
    main()
