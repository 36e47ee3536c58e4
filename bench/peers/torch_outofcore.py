#!/usr/bin/env python3
"""Products of matrices of which a quarter fits, with PyTorch, as its users
would write them: a loop over blocks of pinned matrices, to be read beside
bench/outofcore.

    python3 bench/peers/torch_outofcore.py > torch_outofcore.json

"one stream" copies a block, multiplies and copies back, all on the current
stream, from pinned memory. "two streams" copies the next block on a stream of
its own meanwhile. Both keep a band of rows of A and let blocks of columns of B
go by; B is stored by blocks of columns, so that no copy is strided.
"""
import argparse
import json
import statistics
import time

import torch


def product(a, b, c, rows, overlap):
    """c = a @ b by bands of so many rows; b and c are lists of column blocks."""
    copies = torch.cuda.Stream() if overlap else torch.cuda.current_stream()
    work = torch.cuda.current_stream()
    for top in range(0, a.shape[0], rows):
        band = a[top:top + rows].cuda(non_blocking=True)
        ahead = None
        for j, block in enumerate(b):
            if ahead is None:
                here = block.cuda(non_blocking=True)
            else:
                work.wait_stream(copies)
                here = ahead
                here.record_stream(work)
            if overlap and j + 1 < len(b):
                with torch.cuda.stream(copies):
                    ahead = b[j + 1].cuda(non_blocking=True)
            c[j][top:top + rows].copy_(band @ here, non_blocking=True)
    torch.cuda.synchronize()


registered = []


def pinned(n, dtype):
    """n elements, page-locked: registering takes a tenth of the time of pin_memory."""
    t = torch.empty(n, dtype=dtype).fill_(0)
    assert torch.cuda.cudart().cudaHostRegister(t.data_ptr(), t.numel() * t.element_size(), 0) == 0 and t.is_pinned()
    registered.append(t)
    return t


def unpin():
    torch.cuda.synchronize()
    while registered:
        torch.cuda.cudart().cudaHostUnregister(registered.pop().data_ptr())


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--repeats", type=int, default=3)
    p.add_argument("--share", type=int, default=4)
    p.add_argument("--scale", type=int, default=1, help="divide all sizes by this")
    o = p.parse_args()
    rows = []
    for name, n, dtype, tf32 in (("f32", 32768, torch.float32, False), ("tf32", 32768, torch.float32, True),
                                 ("bf16", 65536, torch.bfloat16, False)):
        n //= o.scale
        torch.backends.cuda.matmul.allow_tf32 = tf32
        blocks = 32
        bytes_each = n * n * torch.tensor([], dtype=dtype).element_size()
        budget = 3 * bytes_each // o.share
        # A band, two blocks of B (a third for the allocator) and two of C.
        high = 1 << 40
        while high > 128 and high * n * bytes_each // n // n + 5 * bytes_each // blocks > budget:
            high //= 2
        a, b, c = (pinned(n * n, dtype) for _ in range(3))
        a = a.view(n, n).copy_(torch.randn(1, n).to(dtype).expand(n, n))
        b = list(b.fill_(1).view(blocks, n, n // blocks))
        c = list(c.view(blocks, n, n // blocks))
        for by, overlap in (("one stream", False), ("two streams", True)):
            times = []
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            for r in range(o.repeats + 1):
                began = time.perf_counter()
                product(a, b, c, high, overlap)
                if r:
                    times.append(time.perf_counter() - began)
            want = a[0].double().sum().item()
            got = c[-1][0, -1].double().item()
            assert abs(got - want) <= 0.01 * abs(want) + 1e-3 * a[0].double().abs().sum().item(), (got, want)
            rows.append({"name": name, "by": by, "value": statistics.median(times), "unit": "s",
                         "min": min(times), "max": max(times), "n": n, "band_rows": high,
                         "device_bytes": torch.cuda.max_memory_reserved(), "budget_bytes": budget})
        del a, b, c
        unpin()
    print(json.dumps({"peer": "PyTorch " + torch.__version__, "what": "outofcore", "device_name": torch.cuda.get_device_name(),
                      "repeats": o.repeats, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
