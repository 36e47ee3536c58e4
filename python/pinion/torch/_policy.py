"""Which saved tensors leave the device: a simulation of the link beside a step that was measured.

Plain Python, without torch: times are seconds from the first tensor that was saved, rates bytes a second.
"""

from __future__ import annotations

import bisect
import collections
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Item:
    """A tensor that was saved for backward, at its place in the order of saving."""

    nbytes: int
    saved: float
    """When the computation came to where it was saved."""
    wanted: float | None
    """When backward first wanted it, in a step in which nothing travelled. None: never."""


@dataclass(frozen=True)
class Link:
    out: float
    """Bytes a second from the device to the host."""
    back: float


@dataclass(frozen=True)
class Outcome:
    """What a simulation saw."""

    waited: float
    """Seconds that the computation waits for the link."""
    peak: int
    """Most bytes of the items on the device at once."""
    landed: dict[int, int] = field(default_factory=dict)
    """Of each item that left the device, the number of the item at whose saving its memory is given back."""


@dataclass(frozen=True)
class Plan:
    """What travels, by its place in the order of saving."""

    chosen: frozenset[int] = frozenset()
    land: dict[int, int] = field(default_factory=dict)
    """As Outcome.landed."""
    count: int = 0
    """Items of the step that it was made from."""
    waited: float = 0.0
    peak: int = 0


def simulate(items: Sequence[Item], chosen: Collection[int], link: Link, window: int) -> Outcome:
    """Runs a step in which the items chosen travel.

    It does what the offloader does. Copies of one direction follow each other. On the way out, at most window bytes
    (or one item) are on their way: before more are, the computation waits for the oldest. A copy that is done costs no
    waiting, so its memory is given back at the next item that is saved. On the way back, items are fetched in the
    reverse order of saving, window bytes (or one item) ahead.
    """
    chosen = set(chosen)
    late = out_free = back_free = 0.0
    on_device = peak = flying = ahead = 0
    flights: collections.deque[int] = collections.deque()
    copied: dict[int, float] = {}  # when items are on the host
    fetched: dict[int, float] = {}  # and when they are back
    landed: dict[int, int] = {}
    gone: list[int] = []  # landed, in the order of saving

    def fetch(i: int, now: float) -> None:
        nonlocal back_free, on_device, ahead, peak
        back_free = fetched[i] = max(back_free, now, copied[i]) + items[i].nbytes / link.back
        on_device += items[i].nbytes
        ahead += items[i].nbytes
        peak = max(peak, on_device)

    events = [(item.saved, 0, i) for i, item in enumerate(items)]
    events += [(item.wanted, 1, -i) for i, item in enumerate(items) if item.wanted is not None]
    for moment, kind, number in sorted(events):
        now, i = moment + late, abs(number)
        size = items[i].nbytes
        if kind == 0:
            on_device += size
            peak = max(peak, on_device)
            if i in chosen:
                out_free = copied[i] = max(out_free, now) + size / link.out
                flights.append(i)
                flying += size
            while flights and (copied[flights[0]] <= now or (flying > window and len(flights) > 1)):
                j = flights.popleft()
                late += max(0.0, copied[j] - now)
                now = max(now, copied[j])
                flying -= items[j].nbytes
                on_device -= items[j].nbytes
                landed[j] = i
                gone.append(j)
            continue
        if i in landed and i not in fetched:
            fetch(i, now)
        for j in reversed(gone[: bisect.bisect_left(gone, i)]):
            if ahead >= window:
                break
            if j not in fetched and items[j].wanted is not None:
                fetch(j, now)
        if i in landed:
            late += max(0.0, fetched[i] - now)
            ahead -= size
        on_device -= size
    return Outcome(late, peak, landed)


PATIENCE = 32
"""Items that are tried in vain before the search ends."""


def hide(
    items: Sequence[Item], link: Link, window: int, host_bytes: int, *, slack: float = 0.01, without: Collection[int] = ()
) -> Plan:
    """As many items as travel without being noticed: those that were saved first, since they are away longest.

    host_bytes: the most bytes that may be in host memory.
    slack: what part of the step may be waiting.
    without: items that must stay.
    """
    candidates = [i for i, item in enumerate(items) if item.wanted is not None and i not in without]
    if not candidates:
        return Plan(count=len(items))
    allowed = slack * max(items[i].wanted or 0.0 for i in candidates)

    def works(chosen: list[int]) -> bool:
        if sum(items[i].nbytes for i in chosen) > host_bytes:
            return False
        outcome = simulate(items, chosen, link, window)
        return outcome.waited <= allowed and all(i in outcome.landed for i in chosen)

    low, high = 0, len(candidates)  # the longest beginning that works, found by halving
    while low < high:
        middle = (low + high + 1) // 2
        if works(candidates[:middle]):
            low = middle
        else:
            high = middle - 1
    chosen, misses = candidates[:low], 0
    for i in candidates[low:]:
        if works([*chosen, i]):
            chosen.append(i)
            misses = 0
        elif (misses := misses + 1) >= PATIENCE:
            break
    outcome = simulate(items, chosen, link, window)
    return Plan(frozenset(chosen), outcome.landed, len(items), outcome.waited, outcome.peak)


def within(sizes: Sequence[int], budget: int, host_bytes: int, *, without: Collection[int] = (), plan: Plan | None = None) -> Plan:
    """A plan after which at most budget bytes stay: what plan says, and then the items that were saved first."""
    plan = plan or Plan(count=len(sizes))
    chosen = set(plan.chosen)
    left = sum(size for i, size in enumerate(sizes) if i not in chosen)
    room = host_bytes - sum(sizes[i] for i in chosen)
    for i, size in enumerate(sizes):
        if left <= budget:
            break
        if i not in chosen and i not in without and size <= room:
            chosen.add(i)
            left -= size
            room -= size
    return Plan(frozenset(chosen), plan.land, len(sizes), plan.waited, plan.peak)
