#!/usr/bin/env python3
"""Forward and backward of a bottleneck block of a ResNet-50 with PyTorch, as large as
BenchmarkResidual of step/internal/cudaexec has it: 64 images of 56 x 56, 256 channels,
of which the block has 64 inside.

    python3 bench/peers/torch_residual.py > torch_residual.json

Images lie channels last; bf16 is autocast.
"""
import argparse
import statistics

import torch
from torch import nn

import peer


class Block(nn.Module):
    def __init__(self, channels):
        super().__init__()
        inner = channels // 4
        layers = []
        for window, come, go in (1, channels, inner), (3, inner, inner), (1, inner, channels):
            layers += [nn.Conv2d(come, go, window, padding=window // 2, bias=False), nn.BatchNorm2d(go), nn.ReLU(inplace=True)]
        self.layers = nn.Sequential(*layers[:-1])

    def forward(self, x):
        return torch.relu_(self.layers(x) + x)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--device", default="cuda")
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--size", type=int, default=56)
    p.add_argument("--channels", type=int, default=256)
    p.add_argument("--repeats", type=int, default=20)
    o = p.parse_args()
    cuda = o.device == "cuda"
    rows = []
    for tuned in False, True:
        torch.backends.cudnn.benchmark = tuned
        torch.manual_seed(1)
        block = Block(o.channels).to(o.device, memory_format=torch.channels_last)
        x = torch.randn(o.batch, o.channels, o.size, o.size, device=o.device).to(torch.bfloat16, memory_format=torch.channels_last).requires_grad_()
        dy = torch.randn_like(x)
        times = []
        for i in range(o.repeats + 3):
            if cuda:
                torch.cuda.synchronize()
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                start.record()
            with torch.autocast(o.device, torch.bfloat16):
                y = block(x)
            y.backward(dy)
            if cuda:
                end.record()
                end.synchronize()
                if i >= 3:
                    times.append(start.elapsed_time(end))
            block.zero_grad()
            x.grad = None
        if times:
            rows.append(dict(name="residual block, bf16", by="PyTorch, eager" + (", cudnn.benchmark" if tuned else ""),
                             unit="ms", value=statistics.median(times), min=min(times), max=max(times)))
    peer.document("PyTorch " + torch.__version__, "residual", torch.cuda.get_device_name() if cuda else "CPU", rows, repeats=o.repeats)


if __name__ == "__main__":
    main()
