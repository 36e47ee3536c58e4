"""Measures host-device copies through PyTorch, as `pinion bench link` does.

    python3 torch_link.py > torch-link.json
"""

import torch

import peer

SIZE = 1 << 30
REPEATS = 9
ROUNDS = 200


def main():
    gb = SIZE / 1e9
    pageable = torch.randint(0, 255, (SIZE,), dtype=torch.uint8)
    back = torch.zeros(SIZE, dtype=torch.uint8)
    up, down = pageable.pin_memory(), torch.zeros(SIZE, dtype=torch.uint8).pin_memory()
    a, b = (torch.zeros(SIZE, dtype=torch.uint8, device="cuda") for _ in range(2))
    forth, reverse = torch.cuda.Stream(), torch.cuda.Stream()

    def copy(dst, src):
        def run():
            dst.copy_(src, non_blocking=True)
            torch.cuda.synchronize()
        return run

    def both():
        with torch.cuda.stream(forth):
            b.copy_(up, non_blocking=True)
        with torch.cuda.stream(reverse):
            down.copy_(a, non_blocking=True)
        torch.cuda.synchronize()

    def small(dst, src):
        dst, src = dst[:4096], src[:4096]
        stream = torch.cuda.current_stream()

        def run():
            for _ in range(ROUNDS):
                dst.copy_(src, non_blocking=True)
                stream.synchronize()
        return lambda: peer.timed(run) / ROUNDS

    def pin():
        torch._C._host_emptyCache()  # else the next allocation is only reused
        return peer.timed(lambda: torch.empty(SIZE, dtype=torch.uint8, pin_memory=True))

    rate = lambda n: lambda s: n / s
    us, seconds = lambda s: s * 1e6, lambda s: s
    samples = [
        ("pageable h2d", "GB/s", rate(gb), lambda: peer.timed(copy(a, pageable))),
        ("pageable d2h", "GB/s", rate(gb), lambda: peer.timed(copy(back, a))),
        ("pinned h2d", "GB/s", rate(gb), lambda: peer.timed(copy(a, up))),
        ("pinned d2h", "GB/s", rate(gb), lambda: peer.timed(copy(down, a))),
        ("pinned both", "GB/s", rate(2 * gb), lambda: peer.timed(both)),
        ("4 KiB pageable h2d", "us", us, small(a, pageable)),
        ("4 KiB pageable d2h", "us", us, small(back, a)),
        ("4 KiB pinned h2d", "us", us, small(a, up)),
        ("4 KiB pinned d2h", "us", us, small(down, a)),
    ]
    if hasattr(torch._C, "_host_emptyCache"):
        samples.append(("pin 1 GiB", "s", seconds, pin))
    rows = peer.in_turn(samples, REPEATS)
    if not (torch.equal(down, pageable) and torch.equal(back, pageable)):
        raise SystemExit("the bytes that arrived are not those that were sent")
    peer.document("PyTorch " + torch.__version__, "link", torch.cuda.get_device_name(), rows, repeats=REPEATS)


main()
