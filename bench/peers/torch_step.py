#!/usr/bin/env python3
"""Forward and backward of one block of a GPT with PyTorch, as large as
BenchmarkBlock of step/internal/cudaexec has it: 16 heads, width 2048, 8 x 1024
tokens.

    python3 bench/peers/torch_step.py > torch_step.json

"attention by hand" computes scores, softmax and product as the benchmark's graph
does; "scaled_dot_product_attention" is what PyTorch's users write. bf16 is
autocast.
"""
import argparse
import json
import math
import statistics
import sys

import torch
import torch.nn.functional as F


class Block(torch.nn.Module):
    def __init__(self, width, heads, fused):
        super().__init__()
        self.heads, self.fused = heads, fused
        self.n1, self.n2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.q, self.k, self.v, self.o = (torch.nn.Linear(width, width, bias=False) for _ in range(4))
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x, mask):
        batch, length, width = x.shape
        split = lambda y: y.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
        h = self.n1(x)
        q, k, v = split(self.q(h)), split(self.k(h)), split(self.v(h))
        if self.fused:
            o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = (q @ k.transpose(-2, -1) / math.sqrt(width // self.heads)).masked_fill(mask, -1e30)
            o = torch.softmax(scores, -1) @ v
        x = x + self.o(o.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.n2(x))))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--device", default="cuda")
    p.add_argument("--batch", type=int, default=8)
    p.add_argument("--length", type=int, default=1024)
    p.add_argument("--width", type=int, default=2048)
    p.add_argument("--heads", type=int, default=16)
    p.add_argument("--repeats", type=int, default=10)
    o = p.parse_args()
    cuda = o.device == "cuda"
    rows = []
    mask = torch.ones(o.length, o.length, dtype=torch.bool, device=o.device).triu(1)
    for name, autocast in ("f32", False), ("bf16", True):
        for fused in False, True:
            torch.manual_seed(1)
            block = Block(o.width, o.heads, fused).to(o.device)
            x = torch.randn(o.batch, o.length, o.width, device=o.device, requires_grad=True)
            dy = torch.randn_like(x)
            times = []
            for i in range(o.repeats + 3):
                if cuda:
                    torch.cuda.synchronize()
                    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                    start.record()
                with torch.autocast(o.device, torch.bfloat16, enabled=autocast):
                    y = block(x, mask)
                y.backward(dy)
                if cuda:
                    end.record()
                    end.synchronize()
                    if i >= 3:
                        times.append(start.elapsed_time(end))
                block.zero_grad()
                x.grad = None
            if times:
                rows.append(dict(name=f"GPT block, {name}", by="PyTorch, " + ("scaled_dot_product_attention" if fused else "attention by hand"),
                                 unit="ms", value=statistics.median(times), min=min(times), max=max(times)))
    json.dump(dict(program="torch_step", torch=torch.__version__, rows=rows), sys.stdout, indent=1)


main()
