"""What offloading the saved activations of a GPT costs and saves.

usage: offload.py [--layers 24] [--width 2048] [--batch 16] [--length 1024] [--vocabulary 32768] [--rounds 5]
                  [--variants plain,save_on_cpu,hide,hide:0.02,hide+recast,all] [--precision autocast] [--device cuda] [--out FILE]

Trains one model in turns: as it is, under torch.autograd.graph.save_on_cpu(pin_memory=True), under
pinion.torch.offload(hide=True), also with another slack, and with recast=True, for which autocast keeps no casts; and under
pinion.torch.offload(), which sends everything. Weights are float32 and the forward pass runs under autocast to bfloat16;
with --precision bfloat16 the weights are, too. Writes JSON: of each variant the times of its steps (median, and all of them),
the peak of allocated memory, how often PyTorch's allocator asked the driver for memory in those steps, and what the
offloader reports. The link floor of a variant is the time that its bytes take there and back at the rates of plain pinned
copies. About a minute on an H200; --variants plain,hide,all leaves out the rest. On the CPU nothing is offloaded: --device cpu with small sizes tries the script.
"""

import argparse
import contextlib
import datetime
import json
import platform
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

import pinion.torch

STEPS = {"plain": 3, "save_on_cpu": 1, "hide": 3, "hide+recast": 3, "all": 1}  # of a round
WARM = {"plain": 2, "save_on_cpu": 1, "hide": 11, "hide+recast": 11, "all": 2}


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).softmax(-1) @ v


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, n, w = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, n, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        x = x + self.out(attention(q, k, v).transpose(1, 2).reshape(b, n, w))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self, a: argparse.Namespace) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(a.vocabulary, a.width), nn.Embedding(a.length, a.width)
        self.blocks = nn.ModuleList(Block(a.width, max(1, a.width // 128)) for _ in range(a.layers))
        self.norm, self.head = nn.LayerNorm(a.width), nn.Linear(a.width, a.vocabulary, bias=False)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        h = self.tokens(x) + self.places(torch.arange(x.shape[1], device=x.device))
        for block in self.blocks:
            h = block(h)
        return F.cross_entropy(self.head(self.norm(h)).flatten(0, 1), y.flatten())


class Bench:
    def __init__(self, a: argparse.Namespace, variants: list[str]) -> None:
        torch.manual_seed(0)
        self.device = torch.device(a.device)
        self.gpu = self.device.type == "cuda"
        with contextlib.ExitStack() as stack:
            if self.gpu:
                stack.enter_context(torch.cuda.device(self.device))
            if hasattr(torch.device, "__enter__"):  # since PyTorch 2.0: 1.4e9 weights are drawn where they are used
                stack.enter_context(self.device)
            self.model = GPT(a).to(torch.bfloat16 if a.precision == "bfloat16" else torch.float32).to(self.device)
        self.autocast = a.precision == "autocast"
        self.x = torch.randint(a.vocabulary, (a.batch, a.length), device=self.device)
        self.y = torch.randint(a.vocabulary, (a.batch, a.length), device=self.device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.0)  # the model stays as it is
        self.contexts = {
            "plain": contextlib.nullcontext,
            "save_on_cpu": lambda: torch.autograd.graph.save_on_cpu(pin_memory=self.gpu),
        }
        self.offloads = {"all": pinion.torch.offload()}
        for name in variants:
            way, _, slack = name.partition(":")
            if way.startswith("hide"):
                self.offloads[name] = pinion.torch.offload(hide=True, slack=float(slack or 0.01), recast=way == "hide+recast")
        for name, offload in self.offloads.items():
            self.contexts[name] = lambda offload=offload: offload

    def sync(self) -> None:
        if self.gpu:
            torch.cuda.synchronize(self.device)

    def step(self, variant: str) -> float:
        self.optimizer.zero_grad(set_to_none=True)
        recast = variant in self.offloads and self.offloads[variant].recast
        with self.contexts[variant](), torch.autocast(self.device.type, torch.bfloat16, enabled=self.autocast, cache_enabled=not recast):
            loss = self.model(self.x, self.y)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def allocations(self) -> int:
        """How often PyTorch's allocator has asked the driver for memory. Each time the device may stand still."""
        stats = torch.cuda.memory_stats(self.device) if self.gpu else {}
        return int(stats.get("num_device_alloc", 0))

    def turn(self, variant: str, steps: int) -> tuple[list[float], int, float]:
        """Seconds of some steps, the peak of memory, and the loss."""
        self.sync()
        if self.gpu:
            torch.cuda.reset_peak_memory_stats(self.device)
        times, loss = [], None
        for _ in range(steps):
            start = time.perf_counter()
            loss = self.step(variant)
            self.sync()
            times.append(time.perf_counter() - start)
        return times, torch.cuda.max_memory_allocated(self.device) if self.gpu else 0, float(loss)

    def link(self) -> dict[str, float]:
        """Bytes a second of pinned copies."""
        if not self.gpu:
            return {}
        n = 1 << 30
        host, there = pinion.torch.empty(n, dtype=torch.uint8, device=self.device), torch.empty(n, dtype=torch.uint8, device=self.device)
        rates = {}
        for name, to, of in (("out", host, there), ("back", there, host)):
            best = 0.0
            for _ in range(4):
                self.sync()
                start = time.perf_counter()
                to.copy_(of, non_blocking=True)
                self.sync()
                best = max(best, n / (time.perf_counter() - start))
            rates[name] = best
        return rates


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name, value in (("layers", 24), ("width", 2048), ("batch", 16), ("length", 1024), ("vocabulary", 32768), ("rounds", 5)):
        p.add_argument(f"--{name}", type=int, default=value)
    p.add_argument("--variants", default="plain,save_on_cpu,hide,hide:0.02,hide+recast,all")
    p.add_argument("--precision", choices=("autocast", "bfloat16"), default="autocast")
    p.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    p.add_argument("--out")
    a = p.parse_args()
    variants = a.variants.split(",")
    bench = Bench(a, variants)
    link = bench.link()
    rows = {v: {"times": [], "peak": 0, "allocations": 0} for v in variants}
    for v in variants:
        start = time.perf_counter()
        bench.turn(v, WARM[v.partition(":")[0]])
        rows[v]["warm"] = time.perf_counter() - start
        print(f"{v}: warm after {rows[v]['warm']:.1f} s", file=sys.stderr)
    for r in range(a.rounds):
        for v in variants[r % len(variants) :] + variants[: r % len(variants)]:
            before = bench.allocations()
            times, peak, loss = bench.turn(v, STEPS[v.partition(":")[0]])
            rows[v]["allocations"] += bench.allocations() - before
            rows[v]["times"] += times
            rows[v]["peak"] = max(rows[v]["peak"], peak)
            rows[v]["loss"] = loss
        print(f"round {r + 1} of {a.rounds}", file=sys.stderr)
    base = statistics.median(rows["plain"]["times"]) if "plain" in rows else None
    document = {
        "benchmark": "offload",
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "machine": {
            "device": torch.cuda.get_device_name(bench.device) if bench.gpu else platform.processor() or platform.machine(),
            "torch": torch.__version__, "cuda": torch.version.cuda, "pinion": pinion.__version__,
        },
        "model": {k: getattr(a, k) for k in ("layers", "width", "batch", "length", "vocabulary", "precision")},
        "link_gb_per_s": {k: v / 1e9 for k, v in link.items()},
        "variants": [],
    }  # fmt: skip
    for v in variants:
        median = statistics.median(rows[v]["times"])
        row = {
            "name": v, "step_seconds": median, "step_seconds_all": rows[v]["times"], "peak_bytes": rows[v]["peak"],
            "device_allocations": rows[v]["allocations"], "warm_seconds": rows[v]["warm"], "loss": rows[v]["loss"],
        }  # fmt: skip
        if base is not None:
            row["slower_by"] = median / base - 1
            row["less_bytes"] = rows["plain"]["peak"] - rows[v]["peak"]
        if v in bench.offloads:
            report = row["report"] = bench.offloads[v].report()
            last = report["steps"][-1]
            if link:
                floor = last["sent_bytes"] / link["out"] + last["fetched_bytes"] / link["back"]
                row["link_floor_seconds"] = floor
                row["of_link_floor"] = median / floor if floor else None
        document["variants"].append(row)
    text = json.dumps(document, indent=1)
    if a.out:
        with open(a.out, "w") as f:
            f.write(text + "\n")
    else:
        print(text)
    for row in document["variants"]:
        print(
            f"{row['name']:12} {row['step_seconds'] * 1e3:8.1f} ms  {row['peak_bytes'] / 2**30:6.2f} GiB"
            + (f"  {row['slower_by']:+.1%}" if base is not None else "")
            + (f"  {row['of_link_floor']:.2f}x of the link floor" if row.get("of_link_floor") else ""),
            file=sys.stderr,
        )


if __name__ == "__main__":
    main()
