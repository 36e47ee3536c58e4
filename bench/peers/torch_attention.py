"""Attention of one new token for each of many sequences, by each of PyTorch's ways, over keys and values in one piece.

    python3 bench/peers/torch_attention.py > torch-attention.json

The cases are those of BenchmarkDecode in kvcache/attention. GB/s count keys and values once. A way that does not take a
case is left out.
"""

import sys

import peer
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

REPEATS = 20
CASES = [(64, 8192, 32, 32, 128), (64, 8192, 32, 8, 128), (64, 8192, 64, 8, 128), (64, 8192, 32, 8, 64), (64, 8192, 28, 4, 128),
         (1, 131072, 32, 8, 128), (256, 1024, 32, 8, 128)]  # fmt: skip
WAYS = {"flash": SDPBackend.FLASH_ATTENTION, "efficient": SDPBackend.EFFICIENT_ATTENTION, "cuDNN": SDPBackend.CUDNN_ATTENTION,
        "math": SDPBackend.MATH}  # fmt: skip


def seconds(run):
    for _ in range(3):
        run()
    times = []
    for _ in range(REPEATS):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        run()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / 1e3)
    return sorted(times)


def main():
    rows = []
    for n, tokens, heads, of, width in CASES:
        q = torch.randn(n, heads, 1, width, device="cuda", dtype=torch.bfloat16)
        k, v = (torch.randn(n, of, tokens, width, device="cuda", dtype=torch.bfloat16) for _ in range(2))
        size = 2 * k.numel() * 2
        want = None
        for name, way in WAYS.items():
            try:
                with sdpa_kernel(way), torch.no_grad():
                    run = lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=heads != of)
                    got = run()
                    want = got if want is None else want
                    assert (got - want).abs().max() < 0.05, f"{name} comes to something else"
                    t = seconds(run)
            except RuntimeError as e:
                print(f"{n} x {tokens}, {heads} of {of}, {width}: {name}: {str(e).splitlines()[0][:100]}", file=sys.stderr)
                continue
            rows.append(dict(name=f"attention, {n} x {tokens} tokens, {heads} heads of {of}, {width} wide", by=f"PyTorch, {name}",
                             value=size / t[len(t) // 2] / 1e9, unit="GB/s", min=size / t[-1] / 1e9, max=size / t[0] / 1e9))  # fmt: skip
        del q, k, v
    a = torch.empty(4 << 30, device="cuda", dtype=torch.uint8)
    b = torch.empty_like(a)
    t = seconds(lambda: b.copy_(a))
    rows.append(dict(name="copies in device memory, read and written", by="PyTorch", value=2 * a.numel() / t[len(t) // 2] / 1e9, unit="GB/s",
                     min=2 * a.numel() / t[-1] / 1e9, max=2 * a.numel() / t[0] / 1e9))  # fmt: skip
    t = seconds(lambda: torch.sum(a.view(torch.float32)))
    rows.append(dict(name="a sum in device memory, read", by="PyTorch", value=a.numel() / t[len(t) // 2] / 1e9, unit="GB/s",
                     min=a.numel() / t[-1] / 1e9, max=a.numel() / t[0] / 1e9))  # fmt: skip
    peer.document(f"PyTorch {torch.__version__}", "feeding", torch.cuda.get_device_name(), rows, repeats=REPEATS)


if __name__ == "__main__":
    main()
