"""pinion.torch.offload: on the host, with streams whose copies happen as late or as early as they may."""

import contextlib
import gc
import random

import pytest

torch = pytest.importorskip("torch")

import pinion.torch  # noqa: E402
from pinion.torch import _offload, _policy  # noqa: E402
from pinion.torch._memory import storage_of  # noqa: E402

MIB = 1 << 20


class Stream:
    """A stream of copies, which run when they must, or when it pleases them."""

    def __init__(self):
        self.queue, self.done = [], 0

    def run(self, upto):
        while self.done < upto:
            work, self.queue[self.done] = self.queue[self.done], None
            self.done += 1
            work()


class Event:
    def __init__(self, stream, clock):
        self.stream, self.at, self.clock = stream, len(stream.queue), clock


class Fake:
    """CPU tensors stand for those of a device. What computes is done at once; copies are late."""

    def __init__(self, seed=0, eager=0.1):
        self.random, self.eager = random.Random(seed), eager
        self.streams, self.faults, self.clock = {}, [], 0.0
        self.pinned = 0
        self.compute = Stream()
        self.host_memory = 1 << 40

    def tick(self):
        for s in list(self.streams.values()):
            if self.random.random() < self.eager:
                s.run(self.random.randint(s.done, len(s.queue)))

    def has(self, device):
        return True

    def current(self, device):
        return self.compute

    def copies(self, device, way):
        return self.streams.setdefault(way, Stream())

    def mark(self, stream, timing=False):
        self.clock += 0.001
        return Event(stream, self.clock)

    def wait(self, stream, event):
        self.tick()
        if stream is self.compute:
            event.stream.run(event.at)
        else:
            stream.queue.append(lambda: event.stream.run(event.at))

    def copy(self, to, of, stream):
        ends = []
        for t in (to, of):
            ends.append((_offload.StorageWeakRef(storage_of(t)), t.storage_offset(), t.numel()))

        def work():
            storages = [torch.UntypedStorage._new_with_weak_ptr(weak.cdata) for weak, _, _ in ends]
            if None in storages:
                self.faults.append("memory was given away under a copy")
                return
            views = [torch.empty(0, dtype=torch.uint8).set_(s, o, (n,), (1,)) for s, (_, o, n) in zip(storages, ends)]
            with torch.no_grad():
                views[0].copy_(views[1])

        stream.queue.append(work)
        self.tick()

    def device_bytes(self, n, device):
        return torch.full((n,), 0xEE, dtype=torch.uint8)

    def host_bytes(self, n, device):
        self.pinned += 1
        return torch.full((n,), 0xDD, dtype=torch.uint8)

    def host_available(self):
        return self.host_memory

    def also_on(self, tensor, stream):
        pass

    def passed(self, event):
        return event.stream.done >= event.at

    def finish(self, event):
        event.stream.run(event.at)

    def seconds(self, start, end):
        return end.clock - start.clock


@pytest.fixture
def fake(monkeypatch):
    seam = Fake()
    monkeypatch.setattr(_offload, "_seam", seam)
    yield seam
    gc.collect()
    for stream in seam.streams.values():
        stream.run(len(stream.queue))
    assert not seam.faults


class Block(torch.nn.Module):
    """Views, shared storages, small tensors, in-place work, dropout."""

    def __init__(self, width):
        super().__init__()
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.norm, self.up, self.down = torch.nn.LayerNorm(width), torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        x = x + self.out((q @ k.transpose(-1, -2)).softmax(-1) @ v)
        x = x + self.down(torch.nn.functional.dropout(torch.nn.functional.gelu(self.up(x)), 0.1))
        return torch.nn.functional.relu(x, inplace=True) + x.exp().tanh()


class Model(torch.nn.Module):
    def __init__(self, depth=3, width=16):
        super().__init__()
        self.blocks = torch.nn.ModuleList(Block(width) for _ in range(depth))
        self.register_buffer("table", torch.linspace(0.5, 1.5, width))

    def forward(self, x):
        for block in self.blocks:
            x = block(x * self.table)
        return x.square().mean()


@pytest.fixture
def model():
    torch.manual_seed(5)
    return Model()


def gradients(model, run, seed=7):
    torch.manual_seed(seed)
    model.zero_grad(set_to_none=True)
    x = torch.randn(4, 6, 16, requires_grad=True)
    run(x)
    return [x.grad.clone()] + [p.grad.clone() for p in model.parameters()]


def plain(model):
    return gradients(model, lambda x: model(x).backward())


def same(a, b):
    return len(a) == len(b) and all(torch.equal(x, y) for x, y in zip(a, b))


@pytest.mark.parametrize("window", [1, 3000, 1 << 30])
@pytest.mark.parametrize("budget", [0, 5000, 20000, 1 << 30])
def test_gradients_are_the_same(fake, model, budget, window):
    want = plain(model)
    for seed in range(4):
        fake.random, fake.eager = random.Random(seed), [0, 0.02, 0.3, 1][seed]
        offload = pinion.torch.offload(budget, min_bytes=256, window_bytes=window)

        def run(x):
            with offload:
                loss = model(x)
            loss.backward()

        for _ in range(3):
            assert same(gradients(model, run), want)
        sent = [step["sent_bytes"] for step in offload.report()["steps"]]
        assert all(s > 0 for s in sent) if budget < 1 << 30 else not any(sent)


def test_memory_is_recycled(fake, model):
    offload = pinion.torch.offload(min_bytes=256, window_bytes=3000)

    def run(x):
        with offload:
            loss = model(x)
        loss.backward()

    gradients(model, run)
    pinned = fake.pinned
    for _ in range(5):
        gradients(model, run)
    gc.collect()
    report = offload.report()
    assert fake.pinned == pinned and report["host_bytes"] == report["peak_host_bytes"] > 0
    assert offload._buffers.used == 0


def test_device_memory_is_given_back(fake):
    """What left is gone when forward ends, but for the window."""
    width, depth = 1024, 15  # whose products float64 has exactly
    alive = []

    class Watch(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x + 1
            ctx.save_for_backward(y)
            alive.append(_offload.StorageWeakRef(storage_of(y)))
            return y.clone()

        @staticmethod
        def backward(ctx, g):
            (y,) = ctx.saved_tensors
            return g * y

    with pinion.torch.offload(min_bytes=0, window_bytes=3 * width * 8):
        x = torch.ones(width, dtype=torch.float64, requires_grad=True)
        y = x
        for _ in range(depth):
            y = Watch.apply(y)
    assert sum(not w.expired() for w in alive) <= 4
    y.sum().backward()
    want = 1.0
    for i in range(depth):
        want *= 2 + i
    assert (x.grad == torch.full((width,), want, dtype=torch.float64)).all()


def test_views_travel_once(fake):
    offload = pinion.torch.offload(min_bytes=0)
    x = torch.randn(100, 30, requires_grad=True)
    with offload:
        h = x * 2
        a, b = h[:50], h[50:].t()
        loss = (a.exp() * a).sum() + (b * b * b).sum() + (h * h).sum()
    step = offload.report()["steps"][-1]
    assert step["views"] > step["tensors"] and step["saved_bytes"] < 5 * h.numel() * 4
    got = torch.autograd.grad(loss, x)[0]
    h = (x * 2).detach().requires_grad_()
    a, b = h[:50], h[50:].t()
    want = torch.autograd.grad((a.exp() * a).sum() + (b * b * b).sum() + (h * h).sum(), h)[0] * 2
    assert torch.equal(got, want)


def test_what_stays(fake, model):
    packed = []
    offload = pinion.torch.offload(min_bytes=256)
    add = _offload._Step._add

    def spy(self, storage, root):
        packed.append(storage.data_ptr())
        return add(self, storage, root)

    _offload._Step._add = spy
    try:
        x = torch.randn(4, 6, 16, requires_grad=True)
        frozen = torch.nn.Parameter(torch.randn(16, 16), requires_grad=False)
        with offload:
            y = x * x
            z = y @ frozen.t() @ model.blocks[0].out.weight
            s = torch.sparse.mm(torch.eye(16).to_sparse(), z[0].t())
            small = y[0, 0, :2].clone().exp()
            loss = z.exp().sum() + s.sum() + small.sum()
    finally:
        _offload._Step._add = add
    stay = {storage_of(t).data_ptr() for t in (x, frozen, model.blocks[0].out.weight)}
    assert packed and not stay & set(packed)
    loss.backward()


def test_memory_of_several_tensors(fake):
    """Those of unsafe_chunk share memory, and each is written to by itself."""
    torch.manual_seed(1)
    cell = torch.nn.LSTMCell(16, 16)  # which uses it

    def lstm(x):
        state = x.tanh(), x.sin()
        for _ in range(3):
            state = cell(x, state)
        return (state[0] * state[1]).sum()

    def chunks(x):
        a, b = (x * 2).unsafe_chunk(2, 1)
        first = (b * b).sum()
        return first + (a.sigmoid_() * b).sum()

    for forward in (lstm, chunks):
        x = torch.randn(64, 16, requires_grad=True)
        want = torch.autograd.grad(forward(x), x)
        for fake.eager in (0, 0.1, 1):
            for arguments in ({"window_bytes": 1}, {"budget": 5000}):
                with pinion.torch.offload(min_bytes=0, **arguments):
                    loss = forward(x)
                assert same(torch.autograd.grad(loss, x), want)


@pytest.mark.parametrize("min_bytes", [0, 1 << 30])
def test_what_was_modified_is_an_error(fake, min_bytes):
    """Of what travels, and of what stays, too: autograd itself does not look where there are hooks."""
    x, w = torch.randn(8, 8, requires_grad=True), torch.nn.Parameter(torch.randn(8, 8))
    for of_parameter in (False, True):
        offload = pinion.torch.offload(min_bytes=min_bytes)
        with offload:
            h = x * 2
            y = (h @ w * h).sum()
        torch.autograd.grad(y, x, retain_graph=True)
        with torch.no_grad():
            (w if of_parameter else h).add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.backward()


def test_backward_twice(fake, model):
    want = gradients(model, lambda x: (lambda loss: (loss.backward(retain_graph=True), loss.backward()))(model(x)))
    for arguments in ({"budget": 0}, {"budget": 5000}, {"hide": True}, {"hide": True, "budget": 5000}):
        offload = pinion.torch.offload(**arguments, min_bytes=256, window_bytes=3000)

        def run(x):
            with offload:
                loss = model(x)
            loss.backward(retain_graph=True)
            loss.backward()

        for _ in range(5):
            assert same(gradients(model, run), want)


def test_double_backward(fake, model):
    def penalty(x, loss):
        (g,) = torch.autograd.grad(loss, x, create_graph=True)
        (loss + g.square().sum()).backward()

    want = gradients(model, lambda x: penalty(x, model(x)))
    offload = pinion.torch.offload(min_bytes=256, window_bytes=3000)

    def run(x):
        with offload:
            loss = model(x)
            if inside:
                penalty(x, loss)
        if not inside:
            penalty(x, loss)

    for inside in (False, True):
        assert same(gradients(model, run), want)


def test_two_forwards_then_two_backwards(fake, model):
    offload = pinion.torch.offload(min_bytes=256, window_bytes=3000)
    for order in (1, -1):

        def run(x, context=offload):
            losses = []
            for i in range(2):
                with context:
                    losses.append(model(x + i))
            for loss in losses[::order]:
                loss.backward()

        class Nothing:
            __enter__ = __exit__ = lambda *_: None

        assert same(gradients(model, run), gradients(model, lambda x: run(x, Nothing())))


def test_nested_contexts(fake, model):
    want = plain(model)
    outer, inner = pinion.torch.offload(min_bytes=256), pinion.torch.offload(10000, min_bytes=256)

    def run(x):
        with outer:
            for i, block in enumerate(model.blocks):
                x = x * model.table
                if i == 1:
                    with inner, outer:
                        x = block(x)
                else:
                    x = block(x)
            loss = x.square().mean()
        loss.backward()

    for _ in range(2):
        assert same(gradients(model, run), want)


@pytest.mark.parametrize("reentrant", [True, False])
def test_with_checkpoint(fake, model, reentrant):
    from torch.utils.checkpoint import checkpoint

    def forward(x):
        for block in model.blocks:
            x = checkpoint(block, x * model.table, use_reentrant=reentrant)
        return x.square().mean()

    want = gradients(model, lambda x: forward(x).backward())
    offload = pinion.torch.offload(min_bytes=256)

    def run(x):
        with offload:
            loss = forward(x)
            if inside:
                loss.backward()
        if not inside:
            loss.backward()

    for inside in (False, True):
        for _ in range(2):
            assert same(gradients(model, run), want)
    assert offload.report()["steps"][0]["sent_bytes"] > 0


def test_exception_in_forward_releases_all(fake, model):
    offload = pinion.torch.offload(min_bytes=256, window_bytes=1 << 30)
    x = torch.randn(4, 6, 16, requires_grad=True)
    with pytest.raises(ZeroDivisionError):
        with offload:
            y = model.blocks[0](x)
            1 / 0
    assert all(f.source is None for step in offload._last for f in step.flights)
    del y
    gc.collect()
    assert offload._buffers.used == 0
    want = plain(model)

    def run(x):
        with offload:
            loss = model(x)
        loss.backward()

    assert same(gradients(model, run), want)


def test_graph_that_is_dropped(fake, model):
    offload = pinion.torch.offload(min_bytes=256, window_bytes=3000)
    for _ in range(3):
        with offload:
            loss = model(torch.randn(4, 6, 16, requires_grad=True))
        del loss
        gc.collect()
        assert offload._buffers.used == 0
        assert offload._last[-1].flying == 0 == offload._last[-1].ahead


@pytest.mark.parametrize("arguments", [{"min_bytes": 0}, {"min_bytes": 1 << 30}, {"budget": 1 << 30, "min_bytes": 0}, {"hide": True, "min_bytes": 0}])
def test_graphs_are_no_cycles(fake, arguments):
    offload = pinion.torch.offload(**arguments, window_bytes=1)
    gc.collect()
    gc.disable()
    try:
        for backward in (False, True):
            x = torch.randn(1000, requires_grad=True)
            with offload:
                y = x.exp().view(10, 100).tanh()[2:].sigmoid()
                z = (y * 2).relu_()
            storages = [_offload.StorageWeakRef(storage_of(t)) for t in (y, z)]
            if backward:
                z.sum().backward()
            del y, z
            assert all(w.expired() for w in storages)
            assert offload._buffers.used == 0
    finally:
        gc.enable()


def test_graph_that_is_dropped_while_a_cuda_graph_is_captured(fake, model, monkeypatch):
    """No stream may wait then for what is not captured; the memory of copies stays until the capture is over."""
    for backward in (False, True):
        offload = pinion.torch.offload(min_bytes=256, window_bytes=1 << 30)
        with offload:
            loss = model(torch.randn(4, 6, 16, requires_grad=True))
        if backward:
            loss.backward(retain_graph=True)
        with monkeypatch.context() as capture:
            capture.setattr(fake, "has", lambda device: False)
            capture.setattr(fake, "wait", None)
            del loss
            gc.collect()
            assert offload._parked and offload._buffers.used == 0
        with offload:
            pass
        assert not offload._parked


def test_part_of_a_graph(fake):
    """What was fetched ahead and is not wanted goes back."""
    offload = pinion.torch.offload(min_bytes=0, window_bytes=1 << 20)
    x = torch.randn(1000, requires_grad=True)
    with offload:
        middle = x.tanh().exp().tanh()
        end = (middle * 3).exp().tanh()
    (g,) = torch.autograd.grad(end.sum(), middle)
    assert torch.isfinite(g).all()
    step = offload._last[-1]
    del middle, end
    gc.collect()
    assert offload._buffers.used == 0 == step.ahead


def test_buffers_of_the_model_are_not_fetched(fake):
    table = torch.randn(1000)
    offload = pinion.torch.offload(min_bytes=0, window_bytes=1)
    for i in range(3):
        x = torch.randn(1000, requires_grad=True)
        with offload:
            y = (x.exp() * table).exp().exp().sum()
        y.backward()
        step = offload.report()["steps"][-1]
        assert step["fetched_bytes"] < step["saved_bytes"]
    assert step["sent_bytes"] < step["saved_bytes"]
    assert offload._idle


def test_work_in_place_is_found_out(fake):
    fake.eager = 0
    for budget in (0, 1 << 30):
        x = torch.randn(1000, requires_grad=True)
        with pinion.torch.offload(budget, min_bytes=0):
            y = x * 2
            z = (y * y).sum()
            with torch.no_grad():
                y.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            z.backward()

def test_work_in_place_behind_a_copy_is_found_out(fake):
    """As without offload, whatever of the memory is still there."""
    for keep in (True, False):
        w = torch.full((64,), 3.0, requires_grad=True)
        with pinion.torch.offload(min_bytes=0, window_bytes=1):
            x = torch.ones(64) * 2
            first = (x * w).sum()
            for _ in range(4):  # until the copy of x has landed
                first = first + (torch.ones(64) * w).sum()
            x.add_(1)
            second = (x * w).sum()
        if not keep:
            del x
        second.backward()
        assert torch.equal(w.grad, torch.full((64,), 3.0))
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            first.backward()


def test_graph_that_is_dropped_while_it_lands(fake, model, monkeypatch):
    """As by a garbage collection at any time."""
    offload = pinion.torch.offload(min_bytes=256, window_bytes=1 << 30)
    alive = []
    with offload:
        alive.append(model(torch.randn(4, 6, 16, requires_grad=True)))
    step = offload._last[-1]
    passed = fake.passed
    monkeypatch.setattr(fake, "passed", lambda event: alive.clear() or passed(event))
    assert step.flights
    offload.window_bytes = 1
    with offload._lock:
        step._land_some(0, fake.compute)
    assert step.flying == 0 and offload._buffers.used == 0


def test_host_memory_is_capped(fake, model):
    want = plain(model)
    offload = pinion.torch.offload(min_bytes=256, max_host_bytes=10000)

    def run(x):
        with offload:
            loss = model(x)
        loss.backward()

    for _ in range(3):
        assert same(gradients(model, run), want)
    report = offload.report()
    assert 0 < report["peak_host_bytes"] <= 10000 and "10000" in report["host_refused"]


def test_no_host_memory_at_all(fake, model, monkeypatch):
    want = plain(model)

    def refuse(n, device):
        raise MemoryError("the system refused")

    monkeypatch.setattr(fake, "host_bytes", refuse)
    for hide in (False, True):
        offload = pinion.torch.offload(hide=hide, min_bytes=256)

        def run(x):
            with offload:
                loss = model(x)
            loss.backward()

        for _ in range(4):
            assert same(gradients(model, run), want)
        assert offload.report()["host_refused"] == "the system refused"


def test_no_device_memory_to_fetch_ahead(fake, model, monkeypatch):
    want = plain(model)
    offload = pinion.torch.offload(min_bytes=256, window_bytes=3000)
    refused = []

    def run(x):
        with offload:
            loss = model(x)
        step = offload._open[-1][0] if offload._open else offload._last[-1]

        def device_bytes(n, device):
            if step.ahead:
                refused.append(n)
                raise RuntimeError("CUDA out of memory. Tried to allocate")
            return Fake.device_bytes(fake, n, device)

        monkeypatch.setattr(fake, "device_bytes", device_bytes)
        loss.backward()

    assert same(gradients(model, run), want) and refused


def test_steps_of_other_lengths(fake, model):
    """The plan is made for as many tensors as the last step had."""
    for arguments in ({"budget": 3000}, {"hide": True}, {"hide": True, "budget": 3000}):
        offload = pinion.torch.offload(**arguments, min_bytes=0, window_bytes=3000)
        for depth in (1, 2, 3, 3, 3, 3, 1, 1, 1, 2, 0, 3):

            def forward(x):
                for block in model.blocks[:depth]:
                    x = block(x)
                return x.square().mean() + sum(p.sum() for p in model.parameters())

            def run(x):
                with offload:
                    loss = forward(x)
                loss.backward()

            assert same(gradients(model, run), gradients(model, lambda x: forward(x).backward()))


def test_hide(fake, model):
    want = plain(model)
    offload = pinion.torch.offload(hide=True, min_bytes=256, window_bytes=1 << 30)
    sent, link = [], None

    def run(x):
        with offload:
            loss = model(x)
        loss.backward()

    for _ in range(2 + 2 * _policy.TRIES + 3):
        assert same(gradients(model, run), want)
        step = offload.report()["steps"][-1]
        link = link or offload._link
        sent.append(step["sent_bytes"])
        assert step["fetched_bytes"] <= step["sent_bytes"]
    assert offload._link is not link  # what was measured beside the computation
    assert sent[:2] == [0, 0] and sent[2] > 0 and len(set(sent[-3:])) == 1
    assert [s["measured"] for s in offload.report()["steps"]] == [False, False]
    plan = offload.report()["plan"]
    assert 1 <= plan["tried"] <= _policy.TRIES and plan["settled"]
    assert offload.report()["link_bytes_per_second"]["out"] > 0
    assert not offload._last[-1].copies  # nothing is timed any more


def test_hide_and_late_copies(fake, model):
    want = plain(model)
    for seed in range(8):
        fake.random, fake.eager = random.Random(seed), [0, 0.02, 0.3, 1][seed % 4]
        offload = pinion.torch.offload(5000 if seed > 3 else None, hide=True, min_bytes=256, window_bytes=3000)

        def run(x):
            with offload:
                loss = model(x)
            loss.backward()

        for _ in range(5):
            assert same(gradients(model, run), want)
        assert offload.report()["steps"][-1]["sent_bytes"] > 0


def test_hide_lands_when_forward_ends(fake, model):
    """A step that is shorter than the plan leaves nothing behind either."""
    offload = pinion.torch.offload(hide=True, min_bytes=256)
    for depth in (3, 3, 3, 3, 1):
        x = torch.randn(4, 6, 16, requires_grad=True)
        with offload:
            for block in model.blocks[:depth]:
                x = block(x)
            loss = x.square().mean()
        step = offload._last[-1]
        assert not step.planned and (step.sent_bytes > 0) == (step.number > 1)
        loss.backward()


def test_hide_without_backward(fake, model):
    offload = pinion.torch.offload(hide=True, min_bytes=256)
    for _ in range(4):
        with offload:
            model(torch.randn(4, 6, 16))
    with torch.no_grad(), offload:
        model(torch.randn(4, 6, 16))
    assert offload._search is None


def under_autocast(forward, cache):
    def run(*inputs):
        with torch.autocast("cpu", torch.bfloat16, cache_enabled=cache):
            return forward(*inputs)

    return run


@pytest.mark.parametrize("cache", [True, False])
@pytest.mark.parametrize("arguments", [{}, {"budget": 1 << 30}, {"hide": True}])
def test_recast(fake, model, arguments, cache):
    forward = under_autocast(model, cache)
    want = gradients(model, lambda x: forward(x).backward())
    offload = pinion.torch.offload(**arguments, min_bytes=256, recast=True)
    assert not pinion.torch.offload(**arguments).recast

    def run(x):
        with offload:
            loss = forward(x)
        loss.backward(retain_graph=True)
        for p in model.parameters():
            p.grad = None
        x.grad = None
        loss.backward()

    for _ in range(4):
        assert same(gradients(model, run), want)
    step = offload.report()["steps"][-1]
    linears = [m.weight for m in model.modules() if isinstance(m, torch.nn.Linear)]
    assert step["recast_tensors"] == len(linears) and step["recast_bytes"] == sum(2 * w.numel() for w in linears)


def test_recast_keeps_no_copy(fake):
    offload = pinion.torch.offload(1 << 30, min_bytes=0, recast=True)
    x, w = torch.randn(8, 8).bfloat16().requires_grad_(), torch.randn(8, 8, requires_grad=True)
    with offload:
        copy = w.bfloat16()
        y = (x @ copy.t()).sum()
    storage = _offload.StorageWeakRef(storage_of(copy))
    del copy
    assert storage.expired()
    y.backward()
    assert torch.equal(x.grad, torch.ones(8, 8).bfloat16() @ w.detach().bfloat16())


def test_recast_of_nothing_else(fake):
    """Casts of what was computed, of a part, of another layout, and what was written to since."""
    offload = pinion.torch.offload(1 << 30, min_bytes=0, recast=True)
    x, w = torch.randn(8, 8).bfloat16(), torch.randn(8, 8, requires_grad=True)
    casts = [
        lambda: (w * 2).bfloat16(), lambda: w[:4].bfloat16(), lambda: w.t().bfloat16(), lambda: w.bfloat16().mul_(2),
        lambda: w.bfloat16() * 1, lambda: w.t().contiguous().bfloat16(),
    ]  # fmt: skip
    x.requires_grad_()
    for cast in casts:
        w.grad = x.grad = None
        with offload:
            y = (x @ cast().t()).square().sum()
        assert offload.report()["steps"][-1]["recast_tensors"] == 0
        y.backward()
        got = w.grad, x.grad
        w.grad = x.grad = None
        (x @ cast().t()).square().sum().backward()
        assert same(got, (w.grad, x.grad))


@pytest.mark.parametrize("change", [lambda w: w.add_(1), lambda w: setattr(w, "data", w.data.clone())])
def test_recast_of_a_parameter_that_changed(fake, change):
    x, w = torch.randn(8, 8).bfloat16().requires_grad_(), torch.nn.Parameter(torch.randn(8, 8))
    with pinion.torch.offload(min_bytes=0, recast=True):
        y = (x @ w.bfloat16()).sum()
    with torch.no_grad():
        change(w)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_recast_of_a_parameter_whose_memory_is_used_again(fake):
    x, w = torch.randn(8, 8).bfloat16().requires_grad_(), torch.nn.Parameter(torch.zeros(8, 8))
    memory = torch.randn(64)  # at the same address, as an allocator would give it
    w.data = torch.empty(0).set_(storage_of(memory), 0, (8, 8))
    with pinion.torch.offload(min_bytes=0, recast=True):
        y = (x @ w.bfloat16()).sum()
    other = torch.frombuffer(memory.numpy(), dtype=torch.float32).view(8, 8).mul_(2)
    w.data = other
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_recast_of_a_parameter_that_changed_since_its_cast(fake):
    """What was cast is not what the parameter is now, so the cast is saved."""
    x, w = torch.randn(8, 8).bfloat16().requires_grad_(), torch.nn.Parameter(torch.randn(8, 8))
    offload = pinion.torch.offload(min_bytes=0, recast=True)
    for recast in (1, 1, 0, 1, 0, 1):
        x.grad = None
        with offload:
            copy = w.bfloat16()
            if not recast:
                with torch.no_grad():
                    w.add_(1)
            y = (x @ copy).sum()
        assert offload.report()["steps"][-1]["recast_tensors"] == recast
        y.backward()
        assert torch.equal(x.grad, torch.ones(8, 8).bfloat16() @ copy.detach().t())


def test_recast_and_double_backward(fake, model):
    forward = under_autocast(model, False)

    def penalty(x, loss):
        (g,) = torch.autograd.grad(loss, x, create_graph=True)
        (loss + g.square().sum()).backward()

    want = gradients(model, lambda x: penalty(x, forward(x)))
    offload = pinion.torch.offload(min_bytes=256, recast=True)

    def run(x):
        with offload:
            loss = forward(x)
        penalty(x, loss)

    assert same(gradients(model, run), want)


def test_bad_arguments():
    for arguments in ({"budget": -1}, {"window_bytes": 0}, {"min_bytes": -1}, {"slack": -0.1}, {"slack": 1}):
        with pytest.raises(ValueError, match="at least"):
            pinion.torch.offload(**arguments)
    with pytest.raises(TypeError, match="budget is '1GiB', but must be an integer"):
        pinion.torch.offload("1GiB")


def test_cpu_tensors_stay():
    x = torch.randn(1000, 1000, requires_grad=True)
    offload = pinion.torch.offload()
    with offload:
        y = (x.exp() * 2).sum()
    y.backward()
    assert offload.report()["steps"][-1]["tensors"] == 0


# The policy.


def timeline(n, nbytes=100, forward=1.0, backward=2.0):
    """A net of n equal layers."""
    f, b = forward / n, backward / n
    return [_policy.Item(nbytes, f * (i + 1), forward + b * (n - 1 - i)) for i in range(n)]


def test_simulation_without_copies():
    items = timeline(10)
    outcome = _policy.simulate(items, (), _policy.Link(1, 1))
    assert outcome.waited == 0 and outcome.peak == 1000 and not outcome.landed


def test_simulation_of_a_fast_link():
    items = timeline(10)
    outcome = _policy.simulate(items, range(9), _policy.Link(1e9, 1e9))
    assert outcome.waited < 1e-5 and outcome.peak <= 400 and set(outcome.landed) == set(range(9))


def test_simulation_of_a_slow_link():
    """Everything travels: the step takes what the link takes."""
    items = timeline(100, forward=0.001, backward=0.001)
    outcome = _policy.simulate(items, range(100), _policy.Link(1000, 1000))
    there_and_back = 2 * 100 * 100 / 1000
    assert outcome.waited + 0.002 == pytest.approx(there_and_back, rel=0.01)


def test_simulation_by_hand():
    a, b = _policy.Item(10, 1.0, 6.0), _policy.Item(10, 2.0, 5.0)
    outcome = _policy.simulate([a, b, _policy.Item(0, 4.0, 4.5)], [0], _policy.Link(10, 5))
    # Out from 1 to 2, landed at the last item; to be back at 6 it has to leave at 4, but the first use is at 4.5.
    assert outcome.landed == {0: 2} and outcome.fetches == [(2, 0)] and outcome.waited == pytest.approx(0.5) and outcome.peak == 20


def gpt(layers, forward, backward, width=2048, tokens=16384):
    """About what a GPT saves in bfloat16: two norms, their outputs, qkv, attention, and the two sides of the activation."""
    unit, items, n = 2 * width * tokens, [], 8 * layers
    for i in range(n):
        nbytes = unit * (1, 1, 3, 1, 1, 1, 4, 4)[i % 8]
        items.append(_policy.Item(nbytes, forward * (i + 1) / n, forward + backward * (n - 1 - i) / n))
    return items


def test_hide_on_a_gpt():
    """What the link carries during forward leaves, nearly to the byte, and does not come back before it must."""
    items, rate = gpt(24, 0.08, 0.16), 53e9
    plan = _policy.hide(items, _policy.Link(rate, rate), 1 << 40)
    sent = sum(items[i].nbytes for i in plan.chosen)
    assert 0.97 < sent / (rate * (0.08 + plan.waited)) <= 1 and plan.waited <= 0.0024
    assert sum(i.nbytes for i in items) - plan.peak > 0.85 * sent
    first = min(items[k].wanted for k, _ in plan.fetches)
    assert first > 0.24 - sent / rate - 5 * _policy.RESERVE * 0.24
    assert sorted(j for _, j in plan.fetches) == sorted(plan.chosen)


def test_hide_takes_what_the_link_can():
    items = timeline(100)
    link = _policy.Link(5000, 5000)  # half of what forward saves
    plan = _policy.hide(items, link, 1 << 40)
    assert 30 <= len(plan.chosen) <= 55 and {0, 1, 2} < plan.chosen
    assert plan.waited <= 0.03 and plan.peak < 0.75 * 100 * 100
    assert len(_policy.hide(items, _policy.Link(1, 1), 1 << 40).chosen) == 0
    assert len(_policy.hide(items, link, 2000).chosen) == 20
    without = _policy.hide(items, link, 1 << 40, without={0, 5})
    assert not {0, 5} & without.chosen and len(without.chosen) >= 30
    assert _policy.hide([], link, 1).chosen == frozenset()
    assert _policy.hide([_policy.Item(1, 1.0, None)], link, 1).chosen == frozenset()


def test_hide_never_costs_more_than_allowed():
    r = random.Random(3)
    for _ in range(30):
        n, at = r.randint(1, 40), 0.0
        saved = []
        for _ in range(n):
            at += r.random()
            saved.append(at)
        items = []
        for moment in reversed(saved):
            at += r.random() * 2
            items.append(_policy.Item(r.randint(1, 1000), moment, at))
        items.reverse()
        link = _policy.Link(r.uniform(10, 5000), r.uniform(10, 5000))
        plan = _policy.hide(items, link, 1 << 40)
        outcome = _policy.simulate(items, plan.chosen, link)
        assert outcome.waited == plan.waited <= 0.01 * at and set(plan.land) == set(plan.chosen)
        assert sorted(j for _, j in plan.fetches) == sorted(plan.chosen)
        assert all(items[k].wanted <= items[j].wanted for k, j in plan.fetches)
        moments = [items[k].wanted for k, _ in plan.fetches]
        assert moments == sorted(moments)
        assert plan.peak <= sum(i.nbytes for i in items) + 1000


def trial(search, items, link, noise=lambda: 0.0):
    """Steps of a device that is not quite as the simulation has it. What the last plan waits there."""
    tries = 0
    while not search.settled:
        outcome = _policy.simulate(items, search.plan.chosen, link)
        search.judge(max(0.0, outcome.waited + noise()), link)
        tries += 1
    assert tries == search.tries <= _policy.TRIES
    return _policy.simulate(items, search.plan.chosen, link).waited


@pytest.mark.parametrize("slack", [0.01, 0.02, 0.05])
@pytest.mark.parametrize("slower, rate", [(1.01, 53.3e9), (1.03, 55e9), (0.97, 53.3e9), (1, 45e9)])
def test_search_comes_near_the_slack(slack, slower, rate):
    items = gpt(24, 0.08, 0.16)
    search = _policy.Search(items, _policy.Link(0.9 * 55e9, 0.9 * 55e9), 1 << 40, slack=slack)
    real = [_policy.Item(i.nbytes, slower * i.saved, slower * i.wanted) for i in items]
    waited = trial(search, real, _policy.Link(rate, rate))
    least = min(i.nbytes for i in items) / rate
    assert slack * 0.24 - least - 1e-4 <= waited <= (1.1 * slack + 0.001) * 0.24
    sent = sum(items[i].nbytes for i in search.plan.chosen)
    assert sent >= 0.98 * rate * (slower * 0.08 + slack * 0.24) - min(i.nbytes for i in items)


def test_search_with_noise():
    """Steps that wait now more, now less: it ends, with what was seen to wait no longer than allowed."""
    items = gpt(24, 0.08, 0.16)
    for seed in range(20):
        r = random.Random(seed)
        link = _policy.Link(r.uniform(40e9, 60e9), r.uniform(40e9, 60e9))
        search = _policy.Search(items, _policy.Link(50e9, 50e9), 1 << 40)
        seen = []

        def noise():
            seen.append(r.choice([0, 0, 0.001, -0.001, 0.03]))
            return seen[-1]

        waited = trial(search, items, link, noise)
        if any(n <= 0 for n in seen[1:]):
            assert waited <= 0.012 * 0.24 + 0.001
            assert sum(items[i].nbytes for i in search.plan.chosen) > 0.9 * link.out * 0.08 or 0.03 in seen
    assert search.plan.chosen


def test_search_without_tensors_that_need_not_travel():
    items = gpt(4, 0.01, 0.02)
    search = _policy.Search(items, _policy.Link(53e9, 53e9), 1 << 40)
    first = search.plan.chosen
    search.leave({0, 3})
    assert not search.plan.chosen & {0, 3} and first & {0, 3}
    trial(search, items, _policy.Link(50e9, 50e9))
    search.leave({1})
    assert not search.plan.chosen & {0, 1, 3} and search.plan.chosen


def test_within():
    plan = _policy.within([10, 20, 30, 40], 45, 1000)
    assert plan.chosen == {0, 1, 2}
    assert _policy.within([10, 20, 30, 40], 100, 1000).chosen == frozenset()
    assert _policy.within([10, 20, 30, 40], 0, 35, without={1}).chosen == {0}
    first = _policy.Plan(frozenset({3}), {3: 3}, 4)
    assert _policy.within([10, 20, 30, 40], 55, 1000, plan=first).chosen == {0, 3}


# A GPU.


@pytest.mark.gpu
@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("arguments", [{}, {"budget": 32 * MIB}, {"hide": True}, {"hide": True, "budget": 64 * MIB}, {"hide": True, "recast": True}])
def test_on_the_gpu(arguments, autocast):
    torch.manual_seed(0)
    model = Model(6, 256).cuda()
    x = torch.randn(16, 256, 256, device="cuda")

    def step(context=None):
        torch.manual_seed(1)
        torch.cuda.manual_seed(1)
        model.zero_grad(set_to_none=True)
        with context or contextlib.nullcontext(), torch.autocast("cuda", torch.bfloat16, enabled=autocast):
            loss = model(x)
        loss.backward()
        return [p.grad.clone() for p in model.parameters()]

    names = [name for name, _ in model.named_parameters()]

    def differences(got, want):
        return {name: float((a - b).abs().max()) for name, a, b in zip(names, got, want) if not torch.equal(a, b)}

    want = step()
    assert not differences(step(), want), "the model itself is not deterministic here"
    offload = pinion.torch.offload(**arguments, window_bytes=16 * MIB, min_bytes=MIB // 8)
    for n in range(10):  # hide makes its choice by then
        found = differences(step(offload), want)
        assert not found, f"step {n}: {found}; without offload again: {differences(step(), want)}; {offload.report()}"
    report = offload.report()
    assert "hide" in arguments or report["steps"][-1]["sent_bytes"] > 0
    assert not (autocast and "recast" in arguments) or report["steps"][-1]["recast_bytes"] > 0


@pytest.mark.gpu
def test_device_memory_on_the_gpu():
    layers = [torch.nn.Linear(1024, 1024).cuda() for _ in range(24)]

    def peak(context):
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        x = torch.randn(8192, 1024, device="cuda", requires_grad=True)
        if context is None:
            y = x
            for layer in layers:
                y = layer(y).relu()
        else:
            with context:
                y = x
                for layer in layers:
                    y = layer(y).relu()
        y.sum().backward()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated()

    offload = pinion.torch.offload(window_bytes=64 * MIB)
    a, b = peak(None), [peak(offload) for _ in range(3)][-1]
    assert b < 0.6 * a, (a, b)
