"""Pinned memory and copies of pageable memory, beside PyTorch's own.

usage: copies.py [--mib 1024] [--rounds 10] [--device cuda] [--out FILE]

Copies a pageable tensor to the device and back in turns: by PyTorch, and by pinion.torch.to_device and to_host into memory
that was written before; times in seconds (median, and all of them) and GB/s. Then it pins 129,500,000 bytes: what each of
the two takes for that, and how long. JSON. A few seconds on a GPU; on the CPU all copies are plain.
"""

import argparse
import datetime
import json
import statistics
import sys
import time

import torch

import pinion.torch

PINNED = 129_500_000


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--mib", type=int, default=1024)
    p.add_argument("--rounds", type=int, default=10)
    p.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    p.add_argument("--out")
    a = p.parse_args()
    device, n = torch.device(a.device), a.mib << 20
    gpu = device.type == "cuda"
    source = torch.randint(256, (n,), dtype=torch.uint8)
    there, back = source.to(device, copy=True), torch.zeros_like(source)

    def sync() -> None:
        if gpu:
            torch.cuda.synchronize(device)

    ways = {
        "to_device": {"pytorch": lambda: source.to(device, copy=True), "pinion": lambda: pinion.torch.to_device(source, device)},
        "to_host": {"pytorch": lambda: back.copy_(there), "pinion": lambda: pinion.torch.to_host(there, out=back)},
    }
    times: dict = {way: {who: [] for who in who_of} for way, who_of in ways.items()}
    for r in range(a.rounds + 2):  # the first two are warm-up
        for way, who_of in ways.items():
            for who in sorted(who_of, reverse=bool(r % 2)):
                sync()
                start = time.perf_counter()
                made = who_of[who]()
                sync()
                if r >= 2:
                    times[way][who].append(time.perf_counter() - start)
                elif not torch.equal(made.cpu(), source):
                    sys.exit(f"{way} by {who}: other bytes")
                del made
    document = {
        "benchmark": "copies",
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "machine": {
            "device": torch.cuda.get_device_name(device) if gpu else "cpu", "torch": torch.__version__, "pinion": pinion.__version__,
        },
        "bytes": n,
        "copies": [
            {
                "name": way, "by": who, "seconds": statistics.median(t), "seconds_all": t,
                "gb_per_s": n / statistics.median(t) / 1e9,
            }
            for way, who_of in times.items() for who, t in who_of.items()
        ],
        "pinned": [],
    }  # fmt: skip
    before = pinion.torch.pinned_stats(device)["active_bytes"]
    start = time.perf_counter()
    x = pinion.torch.empty(PINNED, dtype=torch.uint8, device=device)
    seconds = time.perf_counter() - start
    taken = pinion.torch.pinned_stats(device)["active_bytes"] - before
    document["pinned"].append({"by": "pinion", "bytes": PINNED, "pinned_bytes": taken, "seconds": seconds})
    del x
    if gpu:
        stats = getattr(torch.cuda, "host_memory_stats", None)
        before = stats().get("allocated_bytes.current", 0) if stats else 0
        start = time.perf_counter()
        x = torch.empty(PINNED, dtype=torch.uint8, pin_memory=True)
        seconds = time.perf_counter() - start
        row = {"by": "pytorch", "bytes": PINNED, "seconds": seconds}
        if stats:
            row["pinned_bytes"] = stats().get("allocated_bytes.current", 0) - before
        document["pinned"].append(row)
        del x
    text = json.dumps(document, indent=1)
    if a.out:
        with open(a.out, "w") as f:
            f.write(text + "\n")
    else:
        print(text)
    for c in document["copies"]:
        print(f"{c['name']:10} {c['by']:8} {c['gb_per_s']:6.1f} GB/s", file=sys.stderr)


if __name__ == "__main__":
    main()
