"""Saved activations that wait for backward in host memory."""

from __future__ import annotations

import bisect
import collections
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.multiprocessing.reductions import StorageWeakRef

from .._loader import _number
from . import _policy, _streams
from ._memory import bytes_of, storage_of

_MIB = 1 << 20
_SOON = 1e-5  # seconds of a wait that are those of its events
_in_backward = getattr(torch._C, "_current_graph_task_id", lambda: -1)  # -1: no backward is running
_sequence = getattr(getattr(torch._C, "_autograd", None), "_get_sequence_nr", lambda: 0)  # the number of the next node


class _Buffer:
    """Pinned memory, and the event of the last copy that uses it."""

    __slots__ = ("nbytes", "memory", "event")

    def __init__(self, nbytes: int, memory: torch.Tensor) -> None:
        self.nbytes, self.memory, self.event = nbytes, memory, None


class _Buffers:
    """Pinned memory that is used again and again, up to a limit."""

    def __init__(self, limit: int | None, seam: Any) -> None:
        self._limit, self.seam = limit, seam
        self.nbytes = self.peak = self.used = self.peak_used = 0
        self.refused = ""  # why there was no memory
        self._free: dict[tuple[torch.device, int], list[_Buffer]] = {}

    @property
    def limit(self) -> int:
        if self._limit is None:
            self._limit = int(self.seam.host_available()) // 2
        return self._limit

    def take(self, nbytes: int, device: torch.device) -> _Buffer | None:
        """A buffer of at least so many bytes; None where there is no room."""
        free = self._free.get((device, nbytes))
        if not free:
            fits = [n for (d, n), free in self._free.items() if d == device and free and nbytes <= n <= nbytes + nbytes // 4]
            free = self._free[device, min(fits)] if fits else None
        if free:
            buffer = free.pop()
        else:
            if self.nbytes + nbytes > self.limit:
                self._give_up(nbytes)
            if self.nbytes + nbytes > self.limit:
                self.refused = f"max_host_bytes is {self.limit}"
                return None
            try:
                buffer = _Buffer(nbytes, self.seam.host_bytes(nbytes, device))
            except MemoryError as e:
                self.refused = str(e)
                return None
            self.nbytes += nbytes
            self.peak = max(self.peak, self.nbytes)
        self.used += buffer.nbytes
        self.peak_used = max(self.peak_used, self.used)
        return buffer

    def give(self, buffer: _Buffer, device: torch.device) -> None:
        self.used -= buffer.nbytes
        self._free.setdefault((device, buffer.nbytes), []).append(buffer)

    def _give_up(self, nbytes: int) -> None:
        """Gives memory that is not used back to the system, until so much more may be taken."""
        for free in self._free.values():
            while free and self.nbytes + nbytes > self.limit:
                self.nbytes -= free.pop().nbytes


class _Flight:
    """A copy out, whose source stays until the stream that computes has waited for the copy."""

    __slots__ = ("due", "event", "saved", "source", "stream")

    def __init__(self, due: int | None, saved: _Saved, source: torch.Tensor, stream: Any, event: Any) -> None:
        self.due = due  # the item at whose saving it lands; None: when the window is full
        self.saved, self.stream, self.event = weakref.ref(saved), stream, event
        self.source: torch.Tensor | None = source


class _Saved:
    """A storage that was saved for backward. It lives as long as a view of it is saved."""

    def __init__(self, step: _Step, number: int, storage: Any, root: torch.Tensor) -> None:
        device = root.device
        self.step, self.number, self.device, self.nbytes = step, number, device, storage.nbytes()
        self.root = weakref.ref(root)  # it and its views count together what is written to them
        self.weak = StorageWeakRef(storage)
        self.here: torch.Tensor | None = bytes_of(storage, device)
        self.buffer: _Buffer | None = None  # with a copy
        self.flight: _Flight | None = None
        self.fetch: tuple[Any, Any] | None = None  # stream and event of a copy back that nobody has waited for
        self.stream: Any = None  # of the memory of a copy back
        self.views: list[weakref.ref[_View]] = []
        self.kept = False
        self.served = -1  # the backward that has had it

    def modified(self) -> bool:
        """Whether the memory was written to since it was saved."""
        return any(view.modified() for view in self._alive())

    def used(self) -> bool:
        """Whether a backward has had all views."""
        return all(view.used for view in self._alive())

    def partly_used(self) -> bool:
        return any(view.used for view in self._alive())

    def unused(self) -> None:
        """What comes is another backward."""
        for view in self._alive():
            view.used = False

    def _alive(self) -> Iterator[_View]:
        return (view for view in [weak() for weak in self.views] if view is not None)

    def __del__(self) -> None:
        try:
            self.step.forget(self)
        except Exception:  # the interpreter is ending
            pass


_nothing: dict[torch.device, torch.Tensor] = {}  # tensors without memory


class _Packed:
    """What autograd keeps instead of a tensor."""

    __slots__ = ("__weakref__", "dtype", "offset", "shape", "stride", "version", "watch")

    def __init__(self, tensor: torch.Tensor) -> None:
        self.dtype, self.shape, self.stride = tensor.dtype, tensor.shape, tensor.stride()
        self.offset = tensor.storage_offset()
        # What is written to the memory is found out by its version, as autograd does: this has that, and no memory.
        self.watch = tensor.detach()
        nothing = _nothing.get(tensor.device)
        if nothing is None:
            nothing = _nothing[tensor.device] = torch.empty(0, dtype=torch.uint8, device=tensor.device)
        self.watch.data = nothing
        self.version = tensor._version

    def tensor(self, memory: torch.Tensor) -> torch.Tensor:
        return torch.empty(0, dtype=self.dtype, device=memory.device).set_(storage_of(memory), self.offset, self.shape, self.stride)

    def modified(self) -> bool:
        return bool(self.watch._version != self.version)


def _modified(what: _Packed | torch.Tensor) -> RuntimeError:
    """What autograd says of a tensor that was modified. It does not look where there are hooks."""
    return RuntimeError(
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"{what.dtype} {list(what.shape)}"
    )


class _View(_Packed):
    """A view of a storage."""

    __slots__ = ("saved", "used")

    def __init__(self, saved: _Saved, tensor: torch.Tensor) -> None:
        super().__init__(tensor)
        self.saved = saved
        self.used = False  # by a backward


class _Cast(_Packed):
    """A view of a copy of a parameter in another type. The copy is made again."""

    __slots__ = ("before", "parameter", "weak")

    def __init__(self, parameter: torch.Tensor, tensor: torch.Tensor) -> None:
        super().__init__(tensor)
        self.parameter, self.before = parameter, _state(parameter)
        self.weak = StorageWeakRef(storage_of(parameter))  # no other memory gets its address

    def modified(self) -> bool:
        return super().modified() or _state(self.parameter) != self.before

    def again(self) -> torch.Tensor:
        if self.modified():
            raise _modified(self)
        return self.tensor(self.parameter.detach().to(self.dtype))


def _state(t: torch.Tensor) -> tuple[int, int, int]:
    """What changes with the contents of a tensor."""
    return t._version, storage_of(t)._cdata, t.data_ptr()


def _parameter_of(tensor: torch.Tensor, nbytes: int) -> torch.Tensor | None:
    """The leaf of which a tensor, whose storage has so many bytes, is a view of a copy in another type."""
    copy = tensor if tensor._base is None else tensor._base
    cast = copy.grad_fn
    if type(cast).__name__ != "ToCopyBackward0" or copy._version:
        return None
    leaf = getattr(cast.next_functions[0][0], "variable", None)  # type: ignore[union-attr]
    if (
        leaf is None or type(leaf) not in (torch.Tensor, torch.nn.Parameter) or leaf.device != tensor.device
        or copy.dtype != tensor.dtype or leaf.shape != copy.shape or leaf.stride() != copy.stride() or copy.storage_offset()
        or nbytes != copy.numel() * copy.element_size()
    ):  # fmt: skip
        return None
    return leaf  # type: ignore[no-any-return]


class _Step:
    """One forward pass within the context, and its backward."""

    def __init__(self, owner: offload, plan: _policy.Plan, number: int, measuring: bool, trying: bool) -> None:
        self.owner, self.plan, self.number, self.measuring, self.trying = owner, plan, number, measuring, trying
        self.seam, self.lock = owner._seam, owner._lock
        self.sizes: list[int] = []
        self.device: torch.device | None = None
        self.marks: list[tuple[Any, Any]] = []  # events where items were saved, and first wanted
        self.wanted: set[int] = set()
        self.idle: set[int] = set()  # items whose memory others keep
        self.born = _sequence()
        self.parameters = {i: _state(p) for i, weak in list(owner._parameters.items()) if (p := weak()) is not None}
        self.by_storage: weakref.WeakValueDictionary[tuple[int, int], _Saved] = weakref.WeakValueDictionary()
        self.sent: list[tuple[int, weakref.ref[_Saved]]] = []  # within the window, by number
        self.sent_by_plan: dict[int, weakref.ref[_Saved]] = {}
        self.kept: collections.deque[weakref.ref[_Saved]] = collections.deque()  # may be sent yet
        self.kept_bytes = 0
        self.flights: collections.deque[_Flight] = collections.deque()  # within the window
        self.planned: collections.deque[_Flight] = collections.deque()  # which land as the plan says
        self.flying = self.ahead = 0  # bytes within the window
        self.backward = -1  # which one runs
        self.following = 0  # in the plan's fetches
        self.sent_bytes = self.fetched_bytes = self.views = self.tensors_sent = self.recast_tensors = self.recast_bytes = 0
        self.waits: list[tuple[Any, Any]] = []
        self.copies: list[tuple[str, int, Any, Any]] = []  # way, bytes, and events around them, of a step that tries its plan

    # Forward.

    def pack(self, tensor: torch.Tensor) -> Any:
        storage = self._storage(tensor)
        if storage is None:
            # Of what an operation made, autograd would keep the operation, and that the tensor: nobody would free them.
            return tensor if tensor.is_leaf else tensor.detach(), tensor._version
        parameter = _parameter_of(tensor, storage.nbytes()) if self.owner.recast else None
        if parameter is not None and self._is_cast(tensor, parameter):
            self.recast_tensors += 1
            self.recast_bytes += storage.nbytes()
            return _Cast(parameter, tensor)
        with self.lock:
            # Memory of several tensors, such as those of unsafe_chunk, may be written to by others than those of a copy.
            root = tensor if tensor._base is None else tensor._base
            saved = self.by_storage.get((storage._cdata, id(root)))
            if saved is None or saved.root() is not root or saved.modified():  # what left is not what is saved now
                saved = self._add(storage, root)
            view = _View(saved, tensor)
            saved.views.append(weakref.ref(view))
            self.views += 1
            return view

    def _is_cast(self, tensor: torch.Tensor, parameter: torch.Tensor) -> bool:
        """Whether a tensor is of a cast of what a parameter is now. It may have changed since it was cast."""
        copy = tensor if tensor._base is None else tensor._base
        weak, now = self.owner._parameters.get(id(parameter)), _state(parameter)
        if weak is not None and weak() is parameter and self.parameters.get(id(parameter)) == now:
            number = getattr(copy.grad_fn, "_sequence_nr", None)
            if number is None or number() >= self.born:  # cast in this step, in which the parameter has not changed
                return True
        if not torch.equal(parameter.detach().to(copy.dtype), copy.detach()):
            return False
        self.owner._parameters[id(parameter)] = weakref.ref(parameter)
        return True

    def _storage(self, t: torch.Tensor) -> Any:
        """The memory of a tensor that may travel; None of one that stays."""
        if type(t) is not torch.Tensor or t.layout != torch.strided or not self.seam.has(t.device) or _in_backward() != -1:
            return None
        if t.is_leaf and t.requires_grad or t.is_quantized or t.is_conj() or t.is_neg():
            return None
        base = t._base
        if base is not None and (isinstance(base, torch.nn.Parameter) or (base.is_leaf and base.requires_grad)):
            return None
        storage = storage_of(t)
        return storage if t.numel() > 0 and storage.nbytes() >= self.owner.min_bytes else None

    def _add(self, storage: Any, root: torch.Tensor) -> _Saved:
        number, device = len(self.sizes), root.device
        saved = _Saved(self, number, storage, root)
        self.by_storage[storage._cdata, id(root)] = saved
        self.sizes.append(saved.nbytes)
        self.device = self.device or device
        stream = self.seam.current(device)
        if self.measuring:
            self.marks.append((self.seam.mark(stream, timing=True) if device == self.device else None, None))
        if number not in self.plan.chosen or not self._send(saved, stream):
            self.kept.append(weakref.ref(saved))
            self._keep(saved, True)
            self._evict(stream)
        self._land_some(number, stream)
        return saved

    def _keep(self, saved: _Saved, keep: bool) -> None:
        """Notes whether memory stays that could leave."""
        if saved.kept != keep:
            saved.kept = keep
            self.kept_bytes += saved.nbytes if keep else -saved.nbytes

    def _evict(self, stream: Any) -> None:
        """Sends what was saved first, until what stays is within the budget."""
        budget = self.owner.budget
        while budget is not None and self.kept_bytes > budget and self.kept:
            saved = self.kept[0]()
            if saved is not None:
                if saved.number not in self.owner._idle and not self._send(saved, stream):
                    return
                self._keep(saved, False)  # one that is idle is not the budget's: sending it would free nothing
            self.kept.popleft()

    def _send(self, saved: _Saved, stream: Any) -> bool:
        """Queues a copy to the host."""
        buffer = self.owner._buffers.take(saved.nbytes, saved.device)
        if buffer is None:
            return False
        seam, source = self.seam, saved.here
        assert source is not None
        out = seam.copies(saved.device, "out")
        seam.wait(out, seam.mark(stream))
        if buffer.event is not None:
            seam.wait(out, buffer.event)
        buffer.event = self._copy("out", buffer.memory[: saved.nbytes], source, out)
        saved.buffer = buffer
        due = self.plan.land.get(saved.number)
        saved.flight = _Flight(due, saved, source, stream, buffer.event)
        if due is None:
            self.flights.append(saved.flight)
            self.flying += saved.nbytes
            bisect.insort(self.sent, (saved.number, weakref.ref(saved)), key=lambda entry: entry[0])
        else:
            self.planned.append(saved.flight)
            self.sent_by_plan[saved.number] = weakref.ref(saved)
        self.sent_bytes += saved.nbytes
        self.tensors_sent += 1
        return True

    def _copy(self, way: str, to: torch.Tensor, of: torch.Tensor, stream: Any) -> Any:
        """Queues a copy, and returns an event behind it."""
        timing = self.trying and self.device == (of if way == "out" else to).device
        before = self.seam.mark(stream, timing=True) if timing else None
        self.seam.copy(to, of, stream)
        after = self.seam.mark(stream, timing=timing)
        if timing:
            self.copies.append((way, to.numel(), before, after))
        return after

    def _land_some(self, number: int, stream: Any) -> None:
        """Gives back the memory of copies that are done by now, as the plan says, or of which too much is on the way."""
        while self.planned and (self.planned[0].source is None or (self.planned[0].due or 0) <= number):
            self._land(self.planned.popleft(), stream)
        while self.flights and (self.flights[0].source is None or (self.flying > self.owner.window_bytes and len(self.flights) > 1)):
            self._land(self.flights.popleft(), stream)

    def _land(self, flight: _Flight, stream: Any = None, waits: bool = True) -> None:
        """Makes the stream that computes wait for a copy out: behind that, it may use the memory for something else."""
        source, flight.source = flight.source, None  # before anything else: a garbage collection may forget it meanwhile
        if source is None:  # nobody saves it any more
            return
        if stream is not None:
            self._wait(stream, flight.event)
        if waits and stream != flight.stream:
            self.seam.wait(flight.stream, flight.event)
        if flight.due is None:
            self.flying -= source.numel()
        saved = flight.saved()
        if saved is not None:
            saved.here = saved.flight = None

    def _wait(self, stream: Any, event: Any) -> None:
        """Makes a stream wait, and measures how long."""
        if len(self.waits) < 4096 and not self.seam.passed(event):
            before = self.seam.mark(stream, timing=True)
            self.seam.wait(stream, event)
            self.waits.append((before, self.seam.mark(stream, timing=True)))
        else:
            self.seam.wait(stream, event)

    def land_planned(self) -> None:
        """Forward is over: what the plan sent is gone, whatever the step was like."""
        with self.lock:
            if self.planned and self.device is not None and self.seam.has(self.device):
                self._land_some(len(self.sizes) + self.plan.count, self.seam.current(self.device))

    def land_all(self) -> None:
        with self.lock:
            for flights in (self.planned, self.flights):
                while flights:
                    self._land(flights.popleft())

    # Backward.

    def unpack(self, packed: Any) -> torch.Tensor:
        if isinstance(packed, _Cast):
            return packed.again()
        if not isinstance(packed, _View):
            tensor, version = packed
            if tensor._version != version:
                raise _modified(tensor)
            return tensor  # type: ignore[no-any-return]
        saved = packed.saved
        with self.lock:
            stream = self.seam.current(saved.device)
            if self.backward != (backward := _in_backward()):
                self.backward, self.following = backward, 0
            if self.measuring and saved.device == self.device and saved.number not in self.wanted:
                self.wanted.add(saved.number)
                self.marks[saved.number] = self.marks[saved.number][0], self.seam.mark(stream, timing=True)
            memory = self._memory(saved, stream)
            if packed.modified():
                raise _modified(packed)
            tensor = packed.tensor(memory)
            packed.used = True
            if saved.buffer is not None and saved.flight is None and saved.used():
                saved.here, saved.served = None, backward  # another backward fetches it again
                saved.unused()
            return tensor

    def _memory(self, saved: _Saved, stream: Any) -> torch.Tensor:
        """The bytes of a storage on the device, for work on a stream."""
        if saved.here is None:
            self._find(saved)
        if saved.here is None:
            self._fetch(saved, stream)
        self._fetch_ahead(saved.number, stream)
        memory = saved.here
        assert memory is not None
        if saved.fetch is not None:
            self._arrive(saved)
            self._wait(stream, saved.fetch[1])
            if saved.fetch[0] != stream:
                self.seam.wait(*saved.fetch)
            saved.fetch = None
        if saved.stream is not None and saved.stream != stream:
            self.seam.also_on(memory, stream)
        return memory

    def _find(self, saved: _Saved) -> None:
        """Takes the memory itself where others have kept it."""
        storage = None if saved.weak.expired() else torch.UntypedStorage._new_with_weak_ptr(saved.weak.cdata)
        if storage is not None and storage.nbytes() == saved.nbytes:
            saved.here = bytes_of(storage, saved.device)
            self.idle.add(saved.number)

    def _fetch(self, saved: _Saved, stream: Any) -> None:
        """Queues a copy back, into memory of a stream."""
        seam, buffer = self.seam, saved.buffer
        assert buffer is not None
        back = seam.copies(saved.device, "back")
        memory = seam.device_bytes(saved.nbytes, saved.device)
        seam.wait(back, seam.mark(stream))  # what used the memory before
        seam.wait(back, buffer.event)
        buffer.event = self._copy("back", memory, buffer.memory[: saved.nbytes], back)
        saved.here, saved.stream, saved.fetch = memory, stream, (stream, buffer.event)
        if saved.number not in self.plan.land:
            self.ahead += saved.nbytes
        self.fetched_bytes += saved.nbytes

    def _arrive(self, saved: _Saved) -> None:
        """Notes that what was fetched is not ahead of the computation any more."""
        if saved.number not in self.plan.land:
            self.ahead -= saved.nbytes

    def _fetch_ahead(self, number: int, stream: Any) -> None:
        """Fetches what is due by the plan, and of the rest what was saved before an item, the last first, as far as the
        window goes."""
        fetches = self.plan.fetches
        while self.following < len(fetches) and fetches[self.following][0] >= number:
            sent = self.sent_by_plan.get(fetches[self.following][1])
            if sent is not None and not self._bring(sent(), stream):
                return
            self.following += 1
        i = bisect.bisect_left(self.sent, number, key=lambda entry: entry[0])
        while i > 0 and self.ahead < self.owner.window_bytes:
            i -= 1
            if not self._bring(self.sent[i][1](), stream):
                return

    def _bring(self, saved: _Saved | None, stream: Any) -> bool:
        """Fetches an item that left, if it is wanted; False if there is no memory: it is fetched when it must be."""
        if saved is None or saved.here is not None or saved.served == self.backward != -1 or saved.partly_used():
            return True
        self._find(saved)
        if saved.here is None:
            try:
                self._fetch(saved, stream)
            except RuntimeError as e:
                if "out of memory" not in str(e):
                    raise
                return False
        return True

    def forget(self, saved: _Saved) -> None:
        """A storage that nobody saves any more."""
        with self.lock:
            capturing = (saved.flight is not None or saved.fetch is not None) and not self.seam.has(saved.device)
            if saved.flight is not None:
                if capturing and saved.flight.source is not None:
                    self.owner._parked.append((saved.flight.stream, saved.flight.event, saved.flight.source))
                self._land(saved.flight, waits=not capturing)
            if saved.fetch is not None:
                if capturing:
                    self.owner._parked.append((*saved.fetch, saved.here))
                else:
                    self.seam.wait(*saved.fetch)
                self._arrive(saved)
            if saved.buffer is not None:
                self.owner._buffers.give(saved.buffer, saved.device)
            self._keep(saved, False)

    # What was measured.

    def items(self) -> list[_policy.Item]:
        """The timeline of the step, once its backward is done."""
        ends = [wanted for _, wanted in self.marks if wanted is not None]
        if not ends:
            return []
        for end in ends:
            self.seam.finish(end)
        start = self.marks[0][0]
        return [
            _policy.Item(
                size,
                0.0 if saved is None else self.seam.seconds(start, saved),
                None if wanted is None else self.seam.seconds(start, wanted),
            )
            for size, (saved, wanted) in zip(self.sizes, self.marks)
        ]

    def link(self) -> _policy.Link | None:
        """The rates of its copies beside the computation, if they were timed in both directions."""
        nbytes: dict[str, int] = collections.Counter()
        seconds: dict[str, float] = collections.Counter()  # type: ignore[assignment]
        for way, n, before, after in self.copies:
            self.seam.finish(after)
            nbytes[way] += n
            seconds[way] += self.seam.seconds(before, after)
        self.copies.clear()
        if len(nbytes) < 2 or not all(seconds.values()):
            return None
        return _policy.Link(*(nbytes[way] / seconds[way] for way in ("out", "back")))

    def waited(self) -> float:
        """Seconds for which it has waited for copies."""
        total = 0.0
        for before, after in self.waits:
            self.seam.finish(after)
            seconds = self.seam.seconds(before, after)
            total += seconds if seconds > _SOON else 0.0
        return total

    def report(self) -> dict[str, Any]:
        return {
            "step": self.number,
            "measured": self.measuring,
            "tensors": len(self.sizes),
            "views": self.views,
            "saved_bytes": sum(self.sizes),
            "sent_tensors": self.tensors_sent,
            "sent_bytes": self.sent_bytes,
            "fetched_bytes": self.fetched_bytes,
            "recast_tensors": self.recast_tensors,
            "recast_bytes": self.recast_bytes,
            "waited_seconds": self.waited(),
        }


class offload:  # noqa: N801: as torch.no_grad
    """Sends activations that autograd saves to pinned host memory, and brings them back ahead of their use in backward.

    ::

        offload = pinion.torch.offload(hide=True)
        for x, y in loader:
            with offload:
                loss = loss_fn(model(x), y)
            loss.backward()

    Make one, and enter it for every forward pass: what one step measures serves the next ones.

    budget: bytes of activations that may stay on the device. What was saved first leaves, since backward wants it last.
        0, the default without hide: all that is large enough leaves.
    hide: let only as many leave as the link carries while the device computes. The first two steps are as without
        offload (or as budget says) and the second one is measured: when each tensor was saved and wanted, and how fast
        the link is. Then a simulation of the link chooses what leaves, and when it comes back: as late as it may. The
        choice is tried: what two steps say of the link and of the time that was waited makes a better one, a few times,
        until it costs what slack allows. Another number of tensors than before is measured again.
    max_host_bytes: the most pinned memory that is taken. Default: half of what is free. What does not fit stays.
    min_bytes: memory below this size stays.
    window_bytes: how much may be on its way in each direction; so much device memory is needed besides. What hide sends
        has no window.
    slack: what part of a step the computation may wait for what hide sends.
    recast: do not save what is a plain cast of a parameter, such as autocast makes of float32 weights. Backward casts the
        parameter again, for which nothing has to travel. So parameters must not change between forward and backward,
        which is found out: it is the error of a tensor that was modified. (What is written by way of .data is not found
        out, as with autograd.) autocast itself keeps its casts until it ends,
        unless it has cache_enabled=False.

    Gradients are bit for bit those without offload. The unit is the storage: views of it, and a tensor that is saved by
    several operations, travel once and come back as the same views. Parameters and other leaves that want gradients
    stay, and so do sparse tensors, subclasses and tensors on other devices than GPUs. A tensor that something else keeps
    alive is not fetched, and in later steps not sent.

    torch.utils.checkpoint within the context saves the inputs of its blocks here. Other contexts of saved tensors inside
    have their own way. Memory is recycled: after the first steps nothing is pinned any more. While a CUDA graph is
    captured nothing leaves, and memory that was on its way stays until the context is entered again. Only one device is
    measured, the first: with hide, activations of others stay. One object is for one thread.
    """

    def __init__(
        self,
        budget: int | None = None,
        *,
        hide: bool = False,
        max_host_bytes: int | None = None,
        min_bytes: int = _MIB,
        window_bytes: int = 256 * _MIB,
        slack: float = 0.01,
        recast: bool = False,
    ) -> None:
        if budget is not None:
            budget = _number("budget", budget)
        if window_bytes < 1 or min_bytes < 0:
            raise ValueError(f"window_bytes is {window_bytes} and min_bytes {min_bytes}: they must be at least 1 and 0")
        if not 0 <= slack < 1:
            raise ValueError(f"slack is {slack}, but must be at least 0 and below 1")
        self.budget = 0 if budget is None and not hide else budget
        self.hide, self.min_bytes, self.window_bytes, self.slack = hide, min_bytes, window_bytes, slack
        self.recast = recast
        self._seam: Any = _seam
        self._lock = threading.RLock()
        self._buffers = _Buffers(max_host_bytes, _seam)
        self._plan = _policy.Plan()
        self._warm = False  # a step has had the plan
        self._link: _policy.Link | None = None
        self._search: _policy.Search | None = None  # since a step was measured
        self._idle: set[int] = set()
        self._parameters: dict[int, weakref.ref[torch.Tensor]] = {}  # that were cast, by id
        self._steps = 0
        self._parked: list[tuple[Any, Any, Any]] = []  # streams that will wait for events, and the memory that keeps until then
        self._open: list[tuple[_Step, Any]] = []
        self._last: collections.deque[_Step] = collections.deque(maxlen=2)

    def __enter__(self) -> offload:
        with self._lock:
            parked, self._parked = self._parked, []
            for stream, event, memory in parked:
                if self._seam.has(memory.device):
                    self._seam.wait(stream, event)
                else:  # a graph is still being captured
                    self._parked.append((stream, event, memory))
            if self._last:
                self._learn(self._last[-1])
            search = self._search
            trying = search is not None and not search.settled and self._warm
            step = _Step(self, self._plan, self._steps, self.hide and search is None, trying)
            self._steps += 1
        hooks = saved_tensors_hooks(step.pack, step.unpack)
        hooks.__enter__()
        self._open.append((step, hooks))
        return self

    def __exit__(self, *error: Any) -> None:
        step, hooks = self._open.pop()
        hooks.__exit__(*error)
        if error and error[0] is not None:
            step.land_all()
        step.land_planned()
        self._last.append(step)

    def _learn(self, step: _Step) -> None:
        """Makes the plan for the next step from what was seen in one."""
        sizes = step.sizes
        if not sizes:
            return
        if len(sizes) != self._plan.count:  # another model than before, or the first
            self._idle.clear()
            self._plan, self._search = _policy.Plan(), None
            if self.hide:
                self._link = self._link or self._measure(step)
                if step.number == 0 or not step.wanted or self._link is None:  # the first step warms up
                    return
                self._search = _policy.Search(step.items(), self._link, self._buffers.limit, slack=self.slack)
        elif step.idle <= self._idle and not self._judge(step):
            return
        plan = _policy.Plan(count=len(sizes))
        if self._search is not None:
            if not step.idle <= self._idle:
                self._search.leave(step.idle)
            plan, self._link = self._search.plan, self._search.link
        self._idle |= step.idle
        if self.budget is not None:
            plan = _policy.within(sizes, self.budget, self._buffers.limit, without=self._idle, plan=plan)
        self._plan, self._warm = plan, False

    def _judge(self, step: _Step) -> bool:
        """Judges the plan by a step that has tried it; False if nothing new is known."""
        search = self._search
        if search is None or search.settled or step.plan is not self._plan:
            return False
        self._warm = True  # the first step of a plan pins memory
        link = step.link() if step.trying else None
        if link is None:
            return False
        if self.budget is None:
            search.judge(step.waited(), link)
        else:  # what waits for the budget is no fault of the plan
            search.settle(link)
        return True

    def _measure(self, step: _Step) -> _policy.Link | None:
        """The rates of the link, as far as one can count on them; None where there is no memory to measure them."""
        seam, device, n = self._seam, step.device, 32 * _MIB
        buffer = self._buffers.take(n, device) if device is not None else None
        if buffer is None or device is None:
            return None
        try:
            memory = seam.device_bytes(n, device)
            rates = []
            for way in ("out", "back"):
                stream, best = seam.copies(device, way), 0.0
                seam.wait(stream, seam.mark(seam.current(device)))
                for _ in range(4):
                    start = seam.mark(stream, timing=True)
                    seam.copy(*((buffer.memory[:n], memory) if way == "out" else (memory, buffer.memory[:n])), stream)
                    end = seam.mark(stream, timing=True)
                    seam.finish(end)
                    best = max(best, n / max(seam.seconds(start, end), 1e-9))
                rates.append(0.9 * best)
        except RuntimeError:  # out of memory
            return None
        finally:
            self._buffers.give(buffer, device)
        return _policy.Link(*rates)

    def report(self) -> dict[str, Any]:
        """What the last steps sent and what it cost, in bytes and seconds. It waits for the device to finish them."""
        with self._lock:
            plan, link, buffers, search = self._plan, self._link, self._buffers, self._search
            return {
                "steps": [step.report() for step in self._last],
                "host_bytes": buffers.nbytes,
                "peak_host_bytes": buffers.peak,
                "peak_used_host_bytes": buffers.peak_used,
                "host_refused": buffers.refused,
                "plan": {
                    "tensors": len(plan.chosen),
                    "estimated_wait_seconds": plan.waited,
                    "estimated_peak_bytes": plan.peak,
                    "tried": 0 if search is None else search.tries,
                    "settled": search is None or search.settled,
                },
                "link_bytes_per_second": None if link is None else {"out": link.out, "back": link.back},
            }


_seam: Any = _streams.Cuda()
