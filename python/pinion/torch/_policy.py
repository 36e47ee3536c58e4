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
    fetches: list[tuple[int, int]] = field(default_factory=list)
    """In the order of time: the number of an item at whose use in backward another is fetched, and that one's."""


@dataclass(frozen=True)
class Plan:
    """What travels, by its place in the order of saving."""

    chosen: frozenset[int] = frozenset()
    land: dict[int, int] = field(default_factory=dict)
    """As Outcome.landed."""
    fetches: list[tuple[int, int]] = field(default_factory=list)
    """As Outcome.fetches."""
    count: int = 0
    """Items of the step that it was made from."""
    waited: float = 0.0
    peak: int = 0


RESERVE = 0.01
"""How much earlier than needed a copy is planned to end, as a part of the step; four times that for one that comes back."""


def simulate(items: Sequence[Item], chosen: Collection[int], link: Link) -> Outcome:
    """Runs a step in which the items chosen travel.

    Copies of one direction follow each other. An item leaves when it was saved. Its memory is given back at the saving
    of a later item, as soon as its copy is done with some time to spare; at the last item, the computation waits for
    what is still on its way. An item comes back as late as it may with time to spare, for until then its memory serves
    others.
    """
    n = len(items)
    chosen = set(chosen)
    uses = sorted((item.wanted, i) for i, item in enumerate(items) if item.wanted is not None)
    spare = RESERVE * uses[-1][0] if uses else 0.0
    fetches = _late_fetches(items, chosen, uses, link, 4 * spare)
    late = out_free = back_free = 0.0
    on_device = peak = following = 0
    flights: collections.deque[int] = collections.deque()
    copied: dict[int, float] = {}  # when items are on the host
    fetched: dict[int, float] = {}  # and when they are back
    landed: dict[int, int] = {}
    position = {i: place for place, (_, i) in enumerate(uses)}
    events = [(item.saved, 0, i) for i, item in enumerate(items)] + [(wanted, 1, i) for wanted, i in uses]
    for moment, kind, i in sorted(events):
        now, size = moment + late, items[i].nbytes
        if kind == 0:
            on_device += size
            peak = max(peak, on_device)
            if i in chosen:
                out_free = copied[i] = max(out_free, now) + size / link.out
                flights.append(i)
            while flights and (i == n - 1 or copied[flights[0]] + spare <= now):
                j = flights.popleft()
                late += max(0.0, copied[j] - now)
                now = max(now, copied[j])
                on_device -= items[j].nbytes
                landed[j] = i
            continue
        while following < len(fetches) and position[fetches[following][0]] <= position[i]:
            j = fetches[following][1]
            following += 1
            if j in landed:
                back_free = fetched[j] = max(back_free, now) + items[j].nbytes / link.back
                on_device += items[j].nbytes
                peak = max(peak, on_device)
        late += max(0.0, fetched.get(i, now) - now)
        on_device -= size
    return Outcome(late, peak, landed, fetches)


def _late_fetches(
    items: Sequence[Item], chosen: set[int], uses: Sequence[tuple[float, int]], link: Link, spare: float
) -> list[tuple[int, int]]:
    """When to fetch each item so that it is back just in time, after a use of another item or its own."""
    fetches = []
    begin, place = float("inf"), len(uses)
    for wanted, j in reversed(uses):
        if j not in chosen:
            continue
        begin = min(begin, wanted) - items[j].nbytes / link.back
        place = min(place, max(0, bisect.bisect_right(uses, (begin - spare, len(items))) - 1))
        fetches.append((uses[place][1], j))
    return fetches[::-1]


PATIENCE = 32
"""Items that are tried in vain before the search ends."""


def hide(
    items: Sequence[Item], link: Link, host_bytes: int, *, slack: float = 0.01, without: Collection[int] = (), credit: float = 0.0
) -> Plan:
    """As many items as travel without being noticed: those that were saved first, since they are away longest.

    host_bytes: the most bytes that may be in host memory.
    slack: what part of the step may be waiting.
    without: items that must stay.
    credit: by how many seconds less than simulated the computation is known to wait.
    """
    candidates = [i for i, item in enumerate(items) if item.wanted is not None and i not in without]
    if not candidates:
        return Plan(count=len(items))
    allowed = slack * _length(items) + credit

    def works(chosen: list[int]) -> bool:
        if sum(items[i].nbytes for i in chosen) > host_bytes:
            return False
        outcome = simulate(items, chosen, link)
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
    outcome = simulate(items, chosen, link)
    return Plan(frozenset(chosen), outcome.landed, outcome.fetches, len(items), outcome.waited, outcome.peak)


def _length(items: Sequence[Item]) -> float:
    """Seconds until the last item is wanted."""
    return max((item.wanted or 0.0 for item in items), default=0.0)


TRIES = 4
"""Plans that are tried at most."""


class Search:
    """The search for the plan whose waits come to what may be lost: plans are tried in steps, one after the other.

    The simulation is a few percent off, because copies and computation slow each other down. What it was off by for one
    plan, it will be off by for the next. The search ends with a plan that was tried: with the one that sends most of
    those that wait no longer than allowed.
    """

    def __init__(self, items: Sequence[Item], link: Link, host_bytes: int, *, slack: float = 0.01) -> None:
        self._items, self.link, self._host_bytes, self._slack = items, link, host_bytes, slack
        self._without: set[int] = set()
        self._credit = 0.0
        self._tried: list[tuple[float, Plan]] = []
        self.tries = 0
        self.plan = self._make()
        self.settled = not self.plan.chosen

    def _make(self) -> Plan:
        return hide(self._items, self.link, self._host_bytes, slack=self._slack, without=self._without, credit=self._credit)

    def _sent(self, plan: Plan) -> int:
        return sum(self._items[i].nbytes for i in plan.chosen)

    def leave(self, without: Collection[int]) -> None:
        """Plans without items that need not travel. What was tried with them says nothing about what waits without."""
        self._without |= set(without)
        self._tried.clear()
        self.plan = self._make()

    def settle(self, link: Link) -> None:
        """Ends the search with what the simulation says of a link."""
        self.link, self.settled = link, True
        self.plan = self._make()

    def judge(self, waited: float, link: Link) -> None:
        """Takes what a step with the plan has waited, and the rates of its copies; makes the next plan."""
        self.tries += 1
        self._tried.append((waited, self.plan))
        self.link, self._credit = link, simulate(self._items, self.plan.chosen, link).waited - waited
        plan, least = self._make(), self._sent(self.plan) / 2
        while self._sent(plan) < least and self._credit < -1e-4:  # by one step that stumbled nothing much is given up
            self._credit /= 2
            plan = self._make()
        if self.tries < TRIES and plan.chosen and all(plan.chosen != tried.chosen for _, tried in self._tried):
            self.plan = plan
            return
        self.settled = True
        length = _length(self._items)
        allowed = length * (self._slack + max(0.1 * self._slack, 0.001))  # measured, so not exactly
        good = [tried for waited, tried in self._tried if waited <= allowed]
        if good:
            self.plan = max(good, key=self._sent)
        else:
            self.plan = min(self._tried, key=lambda entry: entry[0])[1]


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
    return Plan(frozenset(chosen), plan.land, plan.fetches, len(sizes), plan.waited, plan.peak)
