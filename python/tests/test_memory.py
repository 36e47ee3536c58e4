"""pinion.memory: replays of snapshots, leaks, and the largest batch."""

import gzip
import os
import pickle
import random

import pytest

import pinion
import pinion.memory
from pinion.memory import fit_batch_size, leaks, replay

MIB = 1 << 20


def snapshot(events, segments=()):
    return {"device_traces": [events], "segments": list(segments)}


def alloc(addr, size, line=0):
    frames = [{"filename": "train.py", "line": line, "name": "step"}] if line else []
    return {"action": "alloc", "addr": addr, "size": size, "stream": 0, "frames": frames}


def free(addr, size):
    return {"action": "free_completed", "addr": addr, "size": size, "stream": 0, "frames": []}


def run(steps=40):
    """A run that keeps a buffer of line 5, and leaves 1 MiB of line 7 behind in each step."""
    events, address = [alloc(1 << 30, 100 * MIB, 5)], 2 << 30
    for _ in range(steps):
        events += [alloc(address, MIB, 7), alloc(address + MIB, 2 * MIB, 8), free(address + MIB, 2 * MIB)]
        address += 4 * MIB
    return snapshot(events, [{"device": 0, "address": 4096, "blocks": [{"address": 4096, "size": 512, "state": "active_allocated"}]}])


def test_leaks():
    found = leaks(run())
    assert [(x.bytes, x.blocks, x.growing, x.stack) for x in found.leaks] == [
        (40 * MIB, 40, True, ("train.py:7 in step",)),
        (100 * MIB, 1, False, ("train.py:5 in step",)),
    ]
    assert found.bytes == 140 * MIB and found.older_bytes == 512 and found.events == 121
    assert str(found) == (
        "140.00 MiB of the recorded allocations are live, and 0.00 MiB from before.\n"
        "40.00 MiB in 40 blocks, growing\n    train.py:7 in step\n100.00 MiB in 1 blocks\n    train.py:5 in step"
    )


def test_leaks_of_little():
    assert leaks(snapshot([])).leaks == () and leaks({"device_traces": []}).events == 0
    assert leaks(snapshot([alloc(4096, 10)])).leaks[0].stack == ()
    with pytest.raises(ValueError, match="the snapshot has 1"):
        leaks(snapshot([]), device=1)


def test_leaks_of_a_file(tmp_path):
    path = tmp_path / "run.pickle"
    path.write_bytes(pickle.dumps(run()))
    assert leaks(path) == leaks(run())
    path.write_bytes(gzip.compress(pickle.dumps(run())))
    assert leaks(str(path)) == leaks(run())
    for bad in (b"", b"nonsense", pickle.dumps([1]), pickle.dumps({"device_traces": 1}), gzip.compress(b"x"), pickle.dumps(run())[:-5]):
        path.write_bytes(bad)
        with pytest.raises(ValueError, match="no snapshot"):
            leaks(path)
    with pytest.raises(FileNotFoundError):
        leaks(tmp_path / "no.pickle")


def test_a_snapshot_runs_nothing(tmp_path):
    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "evil"),)

    path = tmp_path / "run.pickle"
    path.write_bytes(pickle.dumps(Evil()))
    with pytest.raises(ValueError, match="no snapshot"):
        leaks(path)
    assert not (tmp_path / "evil").exists()


def test_replay(tmp_path):
    path = tmp_path / "run.pickle"
    path.write_bytes(pickle.dumps(run()))
    found = replay(path, capacity=1 << 30)
    assert found["peak_live_bytes"] == 142 * MIB + 512 and found["events"] == 122 and found["capacity_bytes"] == 1 << 30
    for name in ("pinion", "torch", "torch_expandable"):
        a = found[name]
        assert a["peak_reserved_bytes"] >= found["peak_live_bytes"] and a["fragmentation"] >= 1 and a["ooms"] == 0
    assert replay(run(), capacity=1 << 30) == found
    assert replay(run(), capacity=64 * MIB)["torch"]["ooms"] > 0


def test_replay_of_what_is_no_trace(tmp_path):
    path = tmp_path / "x"
    path.write_text("nonsense")
    with pytest.raises(pinion.DataError, match="not an allocation trace"):
        replay(path)
    with pytest.raises(pinion.DataError):
        replay(snapshot([alloc(4096, 10), alloc(4096, 10)]))
    with pytest.raises(ValueError):
        replay(run(), device=3)
    with pytest.raises(FileNotFoundError):
        replay(tmp_path / "no")
    with pytest.raises(ValueError, match="capacity"):
        replay(run(), capacity=0)


class Machine:
    """Runs out of memory above a size."""

    def __init__(self, fits, error=MemoryError):
        self.fits, self.error, self.tried = fits, error, []

    def __call__(self, n):
        self.tried.append(n)
        if n > self.fits:
            raise self.error("CUDA out of memory. Tried to allocate 2.00 GiB")


@pytest.mark.parametrize("error", [MemoryError, RuntimeError])
def test_fit(error, monkeypatch):
    monkeypatch.setattr(pinion.memory.gc, "collect", lambda: 0)  # which takes a tenth of a second beside torch
    for fits in (1, 2, 3, 7, 8, 33, 12345):
        for start in (1, 3, 64):
            machine = Machine(fits, error)
            assert fit_batch_size(machine, start, steps=1) == fits
            assert len(machine.tried) <= 2 * max(fits, start).bit_length() + 2


def test_fit_on_the_host():
    torch = pytest.importorskip("torch")
    assert fit_batch_size(lambda n: torch.empty(n << 53 if n > 5 else n, dtype=torch.uint8), steps=1) == 5


def test_fit_within_limits():
    assert fit_batch_size(Machine(1000), 4, max_batch_size=100) == 100
    assert fit_batch_size(Machine(1000), 500, max_batch_size=100) == 100
    assert fit_batch_size(Machine(1000), multiple_of=64) == 960
    machine = Machine(70)
    assert fit_batch_size(machine, 30, max_batch_size=100, multiple_of=8, steps=3) == 64
    assert all(n % 8 == 0 for n in machine.tried) and machine.tried.count(64) == 3


def test_fit_of_nothing():
    with pytest.raises(MemoryError, match="Tried to allocate"):
        fit_batch_size(Machine(0), 8)
    with pytest.raises(ZeroDivisionError):
        fit_batch_size(lambda n: n / 0)
    with pytest.raises(RuntimeError, match="other"):
        fit_batch_size(Machine(3, lambda _: RuntimeError("other")))
    for arguments in ({"start": 0}, {"multiple_of": 0}, {"steps": 0}, {"headroom": 1}, {"max_batch_size": 0}):
        with pytest.raises(ValueError, match="at least"):
            fit_batch_size(Machine(3), **arguments)


def test_fit_leaves_random_numbers():
    numpy = pytest.importorskip("numpy")
    torch = pytest.importorskip("torch")
    draws, seen = [], []

    def draw():
        return random.random(), float(numpy.random.rand()), float(torch.rand(()))

    random.seed(1), numpy.random.seed(1), torch.manual_seed(1)
    want = draw()
    random.seed(1), numpy.random.seed(1), torch.manual_seed(1)

    def step(n):
        seen.append(draw())
        if n > 5:
            raise MemoryError

    assert fit_batch_size(step, steps=1) == 5
    draws.append(draw())
    assert draws == [want] and set(seen) == {want}


def test_fit_restores_models():
    torch = pytest.importorskip("torch")
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.Adam(model.parameters())
    before = {k: v.clone() for k, v in model.state_dict().items()}

    def step(n):
        optimizer.zero_grad()
        model(torch.randn(n, 4)).sum().backward()
        optimizer.step()
        if n > 9:
            raise MemoryError

    assert fit_batch_size(step, restore=[model, optimizer]) == 9
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    assert not optimizer.state_dict()["state"]


def test_fit_keeps_no_tensors():
    """The frames of a failure are gone before the next trial."""
    import weakref

    class Big:
        pass

    refs = []

    def step(n):
        assert not any(r() for r in refs)
        big = Big()
        refs.append(weakref.ref(big))
        if n > 3:
            raise MemoryError

    assert fit_batch_size(step, steps=1) == 3


@pytest.mark.gpu
def test_fit_on_the_gpu():
    torch = pytest.importorskip("torch")
    one = 8 << 30
    found = fit_batch_size(lambda n: torch.empty(n * one, dtype=torch.uint8, device="cuda").zero_(), 4, steps=1)
    free = torch.cuda.mem_get_info()[0]
    assert abs(found - free // one) <= 1
    assert fit_batch_size(lambda n: torch.empty(n * one, dtype=torch.uint8, device="cuda"), steps=1, headroom=0.5) < found
