#!/usr/bin/env python3
"""Training steps with PyTorch: what `pinion bench step` is compared with.

    python3 bench/peers/torch_step.py [--only eager,compile-0.1] > torch_step.json

A GPT of 24 blocks of width 2048, 16 heads, 16 x 1024 tokens, forward and backward
under autocast to bf16, with scaled_dot_product_attention:

  eager        as it is written
  compile      torch.compile of each block
  compile-0.3, compile-0.1
               the same, with that activation_memory_budget
  whole, whole-0.3, whole-0.1
               torch.compile of the model, which takes minutes
  checkpoint   torch.utils.checkpoint around each block
  save_on_cpu  torch.autograd.graph.save_on_cpu with pinned memory, one step
  ddp, ddp-compile
               eager, and torch.compile of each block, in DistributedDataParallel: started
               by torchrun, of whose ranks the first prints

and besides

  resnet50     ResNet-50, 64 images of 224 pixels, channels_last
  gpt2         GPT-2 of 124M weights, one token at a time, as a CUDA graph
  block        a block of 8 x 1024 tokens, also with attention by hand, and in f32

By default eager, compile-0.1 and checkpoint: within a minute on an H200. A row's memory
is the most that tensors had in the timed steps.
"""
import argparse
import gc
import math
import os
import statistics
import time

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

import peer

GPT_WAYS = ["eager", "compile", "compile-0.3", "compile-0.1", "whole", "whole-0.3", "whole-0.1", "checkpoint", "save_on_cpu", "ddp", "ddp-compile"]
WAYS = GPT_WAYS + ["resnet50", "gpt2", "block"]


class Block(torch.nn.Module):
    def __init__(self, width, heads, fused=True):
        super().__init__()
        self.heads, self.fused = heads, fused
        self.n1, self.n2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.q, self.k, self.v, self.o = (torch.nn.Linear(width, width, bias=False) for _ in range(4))
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x, mask=None):
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


class GPT(torch.nn.Module):
    def __init__(self, o):
        super().__init__()
        self.tokens, self.places = torch.nn.Embedding(o.vocabulary, o.width), torch.nn.Embedding(o.length, o.width)
        self.blocks = torch.nn.ModuleList(Block(o.width, o.heads) for _ in range(o.layers))
        self.norm, self.head = torch.nn.LayerNorm(o.width), torch.nn.Linear(o.width, o.vocabulary, bias=False)
        self.checkpoint = False
        for p in self.parameters():
            if p.dim() == 2:
                torch.nn.init.normal_(p, std=0.02)

    def forward(self, tokens, targets):
        x = self.tokens(tokens) + self.places.weight
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpoint else block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten())


class Steps:
    """Runs and times steps on the device."""

    def __init__(self, device):
        self.cuda = device == "cuda"

    def timed(self, run, repeats, warm=2):
        """Times of single runs in seconds, and the most memory meanwhile in GiB."""
        for _ in range(warm):
            run()
        if self.cuda:
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
        times = []
        for _ in range(repeats):
            start = time.perf_counter()
            run()
            if self.cuda:
                torch.cuda.synchronize()
            times.append(time.perf_counter() - start)
        return times, torch.cuda.max_memory_allocated() / 2**30 if self.cuda else 0

    def rows(self, name, by, times, memory):
        rows = [dict(name=name, by=by, unit="ms", value=1e3 * statistics.median(times), min=1e3 * min(times), max=1e3 * max(times))]
        if memory:
            rows.append(dict(name=name + ", memory", by=by, unit="GiB", value=memory))
        return rows


def gpt(o, way, steps):
    torch.manual_seed(1)
    torch._dynamo.reset()
    kind, _, budget = way.removesuffix("-compile").partition("-")
    torch._functorch.config.activation_memory_budget = float(budget or 1)
    with torch.device(o.device):
        model = GPT(o)
        tokens, targets = (torch.randint(o.vocabulary, (o.batch, o.length)) for _ in range(2))
    model.checkpoint = kind == "checkpoint"
    run = model
    if kind == "compile" or way == "ddp-compile":
        for block in model.blocks:
            block.compile()
    elif kind == "whole":
        run = torch.compile(model)
    if kind == "ddp":
        run = torch.nn.parallel.DistributedDataParallel(model, device_ids=[torch.cuda.current_device()] if steps.cuda else None)

    def once():
        with torch.autocast(o.device, torch.bfloat16):
            loss = run(tokens, targets)
        loss.backward()
        model.zero_grad()

    def saved():
        with torch.autograd.graph.save_on_cpu(pin_memory=steps.cuda):
            once()

    if way == "save_on_cpu":
        times, memory = steps.timed(saved, 1, warm=1)
    else:
        times, memory = steps.timed(once, o.repeats, warm=3)
    by = {"compile": "torch.compile of each block", "whole": "torch.compile"}.get(kind, way)
    if kind == "ddp":
        by = f"DistributedDataParallel of {torch.distributed.get_world_size()}, " + ("torch.compile of each block" if way == "ddp-compile" else "eager")
    if budget:
        by += f", activation_memory_budget {budget}"
    return steps.rows(f"GPT {o.layers} x {o.width}, {o.batch} x {o.length}, bf16", by, times, memory)


class Bottleneck(torch.nn.Module):
    def __init__(self, taken, width, stride):
        super().__init__()
        conv = lambda a, b, size, stride=1: torch.nn.Conv2d(a, b, size, stride, size // 2, bias=False)
        norm = torch.nn.BatchNorm2d
        self.body = torch.nn.Sequential(
            conv(taken, width, 1), norm(width), torch.nn.ReLU(True), conv(width, width, 3, stride), norm(width), torch.nn.ReLU(True),
            conv(width, 4 * width, 1), norm(4 * width))
        self.short = torch.nn.Identity()
        if stride > 1 or taken != 4 * width:
            self.short = torch.nn.Sequential(conv(taken, 4 * width, 1, stride), norm(4 * width))

    def forward(self, x):
        return F.relu(self.body(x) + self.short(x))


def resnet50(o, steps):
    torch.manual_seed(1)
    layers, taken = [torch.nn.Conv2d(3, 64, 7, 2, 3, bias=False), torch.nn.BatchNorm2d(64), torch.nn.ReLU(True), torch.nn.MaxPool2d(3, 2, 1)], 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        for i in range(blocks):
            layers.append(Bottleneck(taken, 64 << stage, 2 if i == 0 and stage > 0 else 1))
            taken = 4 * (64 << stage)
    layers += [torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(taken, 1000)]
    model = torch.nn.Sequential(*layers).to(o.device).to(memory_format=torch.channels_last)
    x = torch.randn(o.images, 3, o.pixels, o.pixels, device=o.device).to(memory_format=torch.channels_last)
    y = torch.randint(1000, (o.images,), device=o.device)

    def once():
        with torch.autocast(o.device, torch.bfloat16):
            loss = F.cross_entropy(model(x), y)
        loss.backward()
        model.zero_grad()

    torch.backends.cudnn.benchmark = True
    times, memory = steps.timed(once, 2 * o.repeats, warm=5)
    return steps.rows(f"ResNet-50, {o.images} x {o.pixels} px, bf16", "eager, channels_last", times, memory)


class GPT2(torch.nn.Module):
    def __init__(self, layers=12, width=768, heads=12, length=1024, vocabulary=50257):
        super().__init__()
        linear, norm = torch.nn.Linear, torch.nn.LayerNorm
        self.heads = heads
        self.tokens, self.places = torch.nn.Embedding(vocabulary, width), torch.nn.Embedding(length, width)
        self.blocks = torch.nn.ModuleList(
            torch.nn.ModuleList([norm(width), linear(width, 3 * width), linear(width, width), norm(width), linear(width, 4 * width), linear(4 * width, width)])
            for _ in range(layers))
        self.norm = norm(width)
        self.cache = torch.nn.Parameter(torch.zeros(layers, 2, 1, heads, length, width // heads), requires_grad=False)
        self.at = torch.nn.Parameter(torch.arange(length), requires_grad=False)

    def forward(self, token, place):
        x = self.tokens(token) + self.places(place)
        mask = (self.at <= place)[None, None, None, :]
        for (n1, qkv, out, n2, up, down), cache in zip(self.blocks, self.cache):
            q, k, v = qkv(n1(x)).view(3, 1, self.heads, 1, -1)
            cache[0].index_copy_(2, place, k)
            cache[1].index_copy_(2, place, v)
            x = x + out(F.scaled_dot_product_attention(q, cache[0], cache[1], attn_mask=mask).reshape(1, -1))
            x = x + down(F.gelu(up(n2(x)), approximate="tanh"))
        return (self.norm(x) @ self.tokens.weight.T).argmax(-1)


@torch.no_grad()
def gpt2(o, steps):
    torch.manual_seed(1)
    model = GPT2(**(dict(layers=2, width=32, heads=2, length=16, vocabulary=50) if o.device == "cpu" else {})).to(o.device, torch.bfloat16)
    model.at.data = torch.arange(model.at.numel(), device=o.device)
    token, place = torch.zeros(1, dtype=torch.long, device=o.device), torch.zeros(1, dtype=torch.long, device=o.device)

    def once():
        token.copy_(model(token, place))
        place.add_(1).clamp_(max=model.at.numel() - 1)

    run, by = once, "eager"
    if steps.cuda:
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            for _ in range(3):
                once()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            once()
        run, by = lambda: (graph.replay(), token.item()), "CUDA graph"
    times, _ = steps.timed(run, 1000, warm=20)
    times.sort()
    at = lambda share: 1e3 * times[min(len(times), round(share * len(times))) - 1]
    return [dict(name=f"GPT-2, one token, bf16, {name}", by=by, unit="ms", value=at(share)) for name, share in (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999))]


def block(o, steps):
    rows = []
    batch = max(o.batch // 2, 1)
    mask = torch.ones(o.length, o.length, dtype=torch.bool, device=o.device).triu(1)
    for name, autocast in ("f32", False), ("bf16", True):
        for fused in False, True:
            torch.manual_seed(1)
            model = Block(o.width, o.heads, fused).to(o.device)
            x = torch.randn(batch, o.length, o.width, device=o.device, requires_grad=True)
            dy = torch.randn_like(x)

            def once():
                with torch.autocast(o.device, torch.bfloat16, enabled=autocast):
                    y = model(x, mask)
                y.backward(dy)
                model.zero_grad()
                x.grad = None

            times, memory = steps.timed(once, 2 * o.repeats, warm=3)
            rows += steps.rows(f"GPT block, {name}", "scaled_dot_product_attention" if fused else "attention by hand", times, memory)
    return rows


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--only", default="eager,compile-0.1,checkpoint", help="what to measure, of " + ", ".join(WAYS))
    p.add_argument("--device", default="cuda", help="cuda, or cpu with small sizes to try the script out")
    for name, value in ("layers", 24), ("width", 2048), ("heads", 16), ("batch", 16), ("length", 1024), ("vocabulary", 32768), ("images", 64), ("pixels", 224), ("repeats", 5):
        p.add_argument("--" + name, type=int, default=value)
    o = p.parse_args()
    ways = o.only.split(",")
    if unknown := set(ways) - set(WAYS):
        p.error(f"{', '.join(sorted(unknown))}: not of {', '.join(WAYS)}")
    ranks = "WORLD_SIZE" in os.environ
    if ranks:
        if o.device == "cuda":
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        torch.distributed.init_process_group("nccl" if o.device == "cuda" else "gloo")
    elif any(way.startswith("ddp") for way in ways):
        p.error("ddp needs torchrun: torchrun --nproc-per-node 2 bench/peers/torch_step.py --only eager,ddp")
    steps, rows, missing = Steps(o.device), [], []
    for way in ways:
        began = time.perf_counter()
        try:
            rows += gpt(o, way, steps) if way in GPT_WAYS else globals()[way](o, steps)
        except Exception as e:  # such as memory that is not there: the other ways are measured all the same
            missing.append(dict(name=way, by="PyTorch", reason=f"{type(e).__name__}: {e}"[:300]))
        gc.collect()
        if steps.cuda:
            torch.cuda.empty_cache()
        peer.step(f"{way}: {time.perf_counter() - began:.0f} s" + (f": {missing[-1]['reason']}" if missing and missing[-1]["name"] == way else ""))
    first = not ranks or torch.distributed.get_rank() == 0
    if ranks:
        torch.distributed.destroy_process_group()
    if not first:
        return
    name = torch.cuda.get_device_name() if steps.cuda else "CPU"
    peer.document("PyTorch " + torch.__version__, "step", name, rows, repeats=o.repeats, not_available=missing)


main()
