"""What torchdata's own tests ask of its StatefulDataLoader (pytorch/data, test/stateful_dataloader/test_state_dict.py), by
the names of its cases, as far as a loader of files has them: datasets and samplers of the caller's with states of
their own, and snapshots every few steps, it has not. Number of workers may differ between the states of one run, which
torchdata refuses."""

import itertools
import json

import numpy as np
import pytest

import pinion

N = 100


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("stateful") / "numbers.npy"
    np.save(path, np.arange(N, dtype=np.float32).reshape(N, 1))
    return path


def load(path, workers=2, batch=1, shuffle=True, **more):
    return pinion.DataLoader(path, batch, shuffle=shuffle, num_workers=workers, seed=13, device="cpu", output="numpy", **more)


def values(loop):
    return [x.ravel().tolist() for (x,) in loop]


@pytest.mark.parametrize("workers,batch,shuffle,interrupt", itertools.product([1, 3], [1, 7], [False, True], [0, 1, 10, None]))
def test_map(path, workers, batch, shuffle, interrupt):
    with load(path, workers, batch, shuffle) as loader:
        it = iter(loader)
        for _ in range(len(loader) if interrupt is None else interrupt):
            next(it)
        state = loader.state_dict()
        want = values(it)
    with load(path, workers, batch, shuffle) as loader:
        loader.load_state_dict(state)
        assert values(loader) == want


def test_snapshot_zero(path):
    with load(path) as loader:
        it = iter(loader)
        state = loader.state_dict()
        want = values(it)
        loader.load_state_dict(state)
        assert values(loader) == want


def test_interrupted_shuffle(path):
    """A state is loaded by the loader itself, whose loop is under way."""
    with load(path) as loader:
        it = iter(loader)
        start = loader.state_dict()
        want = values(next(it) for _ in range(4))
        loader.load_state_dict(loader.state_dict())
        want += values(loader)
        loader.load_state_dict(start)
        assert values(loader) == want and len(want) == N


@pytest.mark.parametrize("batch", [1, 4])
def test_snapshot_end(path, batch):
    with load(path, batch=batch) as loader:
        first = values(loader)
        state = loader.state_dict()
        want = values(loader)
        assert sorted(want) != want != first
    with load(path, batch=batch) as loader:
        loader.load_state_dict(state)
        assert values(loader) == want


def test_num_workers_mismatch(path):
    for workers, others in ((1, 4), (4, 1)):
        with load(path, workers) as loader:
            it = iter(loader)
            next(it)
            state = loader.state_dict()
            want = values(it)
        with load(path, others) as loader:
            loader.load_state_dict(state)
            assert values(loader) == want


def test_concurrent_loaders(path):
    with load(path) as loader:
        want = values(loader)
    with load(path) as one, load(path) as two:
        both = [(a.ravel().tolist(), b.ravel().tolist()) for (a,), (b,) in zip(one, two)]
    assert both == [(v, v) for v in want]


def test_fast_state_dict_request(path):
    """A state at once after next, again and again, costs no batch."""
    with load(path) as loader:
        want = values(loader)
    with load(path) as loader:
        got, states = [], []
        for (x,) in loader:
            got.append(x.ravel().tolist())
            states.append(loader.state_dict())
    assert got == want
    for number in (0, 3, N - 2):
        with load(path) as loader:
            loader.load_state_dict(states[number])
            assert values(loader) == want[number + 1 :]


def test_json(path):
    with load(path) as loader:
        it = iter(loader)
        for _ in range(10):
            next(it)
        text = json.dumps(loader.state_dict())
        want = values(it)
    with load(path) as loader:
        loader.load_state_dict(json.loads(text))
        assert values(loader) == want


def test_initial_state(path):
    with load(path, shuffle=False) as loader:
        state = loader.state_dict()
        want = values(loader)
        it = iter(loader)
        next(it), next(it)
        loader.load_state_dict(state)
        assert values(loader) == want and values(loader) == want


@pytest.mark.parametrize("interrupt,asked", itertools.product([2, 9], ["before", "after"]))
def test_load_state_and_initial_state(path, interrupt, asked):
    with load(path) as loader:
        it = iter(loader)
        for _ in range(interrupt):
            next(it)
        state = loader.state_dict()
        want = values(it)
    with load(path) as loader:
        if asked == "before":
            assert loader.state_dict() != state
        loader.load_state_dict(state)
        if asked == "after":
            assert loader.state_dict() == state
        assert values(loader) == want


def test_load_then_state(path):
    with load(path) as loader:
        start = loader.state_dict()
        want = values(loader)
    with load(path) as loader:
        it = iter(loader)
        for _ in range(3):
            next(it)
        loader.load_state_dict(start)
        assert loader.state_dict() == start
        assert values(loader) == want


@pytest.mark.parametrize("workers,shuffle", itertools.product([1, 2], [False, True]))
def test_multi_epoch(path, workers, shuffle):
    """Two epochs, a state, and two more of another loader are the four of one."""
    with load(path, workers, shuffle=shuffle) as loader:
        got = values(loader) + values(loader)
        state = loader.state_dict()
    with load(path, workers, shuffle=shuffle) as loader:
        loader.load_state_dict(state)
        got += values(loader) + values(loader)
    with load(path, workers, shuffle=shuffle) as loader:
        want = [v for _ in range(4) for v in values(loader)]
    assert len(got) == 4 * N and got == want


@pytest.mark.parametrize("workers,shuffle", itertools.product([1, 2], [False, True]))
def test_end_of_epoch_behavior(path, workers, shuffle):
    with load(path, workers, shuffle=shuffle) as loader:
        for _ in loader:
            inside = loader.state_dict()
        after = loader.state_dict()
    for state, count in ((inside, 0), (after, N)):
        with load(path, workers, shuffle=shuffle) as loader:
            loader.load_state_dict(state)
            assert len(values(loader)) == count


def test_multi_epoch_state(path):
    with load(path) as loader:
        first = values(loader)
        state = loader.state_dict()
        want = values(loader), values(loader)
    with load(path) as loader:
        it = iter(loader)
        next(it), next(it)
        loader.load_state_dict(state)
        assert (values(loader), values(loader)) == want and first not in want


def test_iteration_error(tmp_path):
    (tmp_path / "a.png").write_bytes(b"nothing")
    with pinion.DataLoader(tmp_path, 1, device="cpu") as loader, pytest.raises(pinion.SampleError):
        next(iter(loader))
