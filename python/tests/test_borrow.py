"""Device memory from PyTorch's allocator. On the host it is ordinary tensors; the tests put NumPy arrays under them, whose
end can be watched."""

import gc
import pickle
import threading
import weakref

import pytest

import pinion
from pinion import _borrow, _errors

torch = pytest.importorskip("torch")
numpy = pytest.importorskip("numpy")


class Memory:
    """PyTorch's allocator, as far as the loader sees it."""

    def __init__(self):
        self.live = {}  # address: bytes
        self.taken = 0
        self.left = None  # how many more there are; None: as many as are wanted

    def empty(self, n, kind, device):
        if self.left is not None:
            if self.left == 0:
                raise Full("no more memory, says the test\nmore")
            self.left -= 1
        array = numpy.empty(n, numpy.uint8)
        self.live[array.ctypes.data] = n
        self.taken += 1
        weakref.finalize(array, self.live.pop, array.ctypes.data)
        return torch.utils.dlpack.to_dlpack(torch.from_numpy(array))

    def has(self, tensor):
        at = tensor.data_ptr()
        return any(start <= at and at + tensor.numel() * tensor.element_size() <= start + n for start, n in self.live.items())


class Full(RuntimeError):
    """As torch.OutOfMemoryError is."""


@pytest.fixture
def memory(monkeypatch):
    import torch.utils.dlpack  # noqa: F401

    gc.collect()
    m = Memory()
    monkeypatch.setattr(_borrow, "_empty", m.empty)
    return m


def load(source, batch_size=1024, **arguments):
    return pinion.DataLoader(source, batch_size, allocator="torch", device="cpu", output="torch", **arguments)


def test_batches_are_in_it(array, memory):
    with load(array, 1000) as loader:
        for _ in range(3):
            for i, (x,) in enumerate(loader):
                assert memory.has(x) and x[0, 0] == 4000 * i
            assert i == 65 and x.shape == (536, 4)  # the last batch is smaller, its memory is not
        assert memory.taken == len(memory.live) == loader.stats()["device_buffers"] == 4
        assert set(memory.live.values()) == {loader.stats()["device_bytes"] // 4}
    del x
    assert not memory.live


def test_pytorchs_own(array):
    """Nothing is put in its place here."""
    with load(array) as loader:
        assert [float(x[0, 0]) for (x,) in loader] == [4096.0 * i for i in range(64)]


def test_it_is_asked_for(array, memory):
    with pinion.DataLoader(array, 1024, device="cpu") as loader:
        list(loader)
    assert memory.taken == 0
    with pytest.raises(ValueError, match="'jemalloc'"):
        pinion.DataLoader(array, allocator="jemalloc")


def test_pictures(photos, memory):
    """They are transformed, from memory to other memory."""
    with load(photos, 32, transform="rrc:32,flip", seed=3) as loader, pinion.DataLoader(
        photos, 32, transform="rrc:32,flip", seed=3, device="cpu", output="torch"
    ) as other:
        for (x, y), (a, b) in zip(loader, other):
            assert memory.has(x) and not memory.has(a) and torch.equal(x, a) and torch.equal(y, b)
        assert memory.taken == 8
        kept = list(loader)
        assert len(kept) == 3 and all(memory.has(x) for x, _ in kept)
    del x, y, kept
    assert not memory.live


def test_tensors_outlive_the_loader(array, memory):
    loader = load(array)
    kept = list(loader)
    assert memory.taken == 64
    loader.close()
    assert len(memory.live) == 64  # nothing waits to be lent
    assert all(float(x[0, 0]) == 4096 * i for i, (x,) in enumerate(kept))
    view = kept[5][0][7:8]
    del kept
    assert len(memory.live) == 1 and memory.has(view)
    del view
    assert not memory.live


def test_the_last_use_ends_in_another_thread(array, memory):
    loader = load(array)
    box = [next(iter(loader))[0]]
    loader.close()
    thread = threading.Thread(target=box.clear)
    thread.start()
    thread.join()
    assert not memory.live


def test_a_dropped_loader_gives_it_back(array, memory):
    it = iter(load(array))
    next(it)
    del it
    gc.collect()
    assert not memory.live


def test_another_epoch_and_a_state(array, memory):
    """Both make the loader anew. What it had comes back, but for what the program has."""
    with load(array) as loader:
        it = iter(loader)
        for _ in range(3):
            (x,) = next(it)
        state = loader.state_dict()
        loader.load_state_dict(state)
        (y,) = next(iter(loader))
        assert float(y[0, 0]) == 4096 * 3 and float(x[0, 0]) == 4096 * 2
        assert len(memory.live) == 5
        loader.set_epoch(7)
        assert float(next(iter(loader))[0][0, 0]) == 0
        assert len(memory.live) == 6
        del x, y
        next(iter(loader))
        assert len(memory.live) == 4
    assert not memory.live


def test_another_process_asks_for_itself(array, memory):
    with load(array) as loader:
        next(iter(loader))
        with pickle.loads(pickle.dumps(loader)) as other:
            assert float(next(iter(other))[0][0, 0]) == 4096
            assert len(memory.live) == 8


def test_out_of_memory_is_the_callers(array, memory):
    memory.left = 0
    with pytest.raises(_errors.device_memory(), match="PyTorch has no .*no more memory, says the test$") as caught:
        next(iter(load(array)))
    assert isinstance(caught.value.__cause__, Full)


def test_less_than_it_would_take(array, memory):
    memory.left = 2
    with load(array) as loader:
        assert sum(1 for _ in loader) == 64
        assert loader.stats()["device_buffers"] == 2


def test_out_of_memory_in_the_loop(array, memory):
    """It is the program that keeps too much: when it does not any more, the loop goes on."""
    memory.left = 6
    with load(array) as loader:
        it, kept = iter(loader), []
        with pytest.raises((pinion.HeldError, _errors.device_memory()), match="says the test") as caught:
            while True:
                kept.append(next(it))
        assert len(kept) == 6 and isinstance(caught.value.__cause__, Full)
        assert [float(x[0, 0]) for (x,) in kept] == [4096.0 * i for i in range(6)]
        kept.clear()
        assert float(next(it)[0][0, 0]) == 4096 * 6
        assert sum(1 for _ in it) == 57 and memory.taken == 6
    assert not memory.live


def test_out_of_memory_between_the_parts_of_a_batch(photos, memory):
    """Where samples are transformed, a batch has two; the one that came is kept for later."""
    memory.left = 9
    with load(photos, 8, transform="rrc:32") as loader:
        it, kept = iter(loader), []
        with pytest.raises((pinion.HeldError, _errors.device_memory())):
            while True:
                kept.append(next(it))
        assert len(kept) == 4 and len(memory.live) == 9
        memory.left = 1
        assert next(it) is not None and len(memory.live) == 10
    del kept
    assert not memory.live


@pytest.mark.parametrize("after", range(0, 8))
def test_an_interrupt_loses_nothing(array, memory, monkeypatch, after):
    def empty(*want):
        if memory.taken == after and empty.armed:
            empty.armed = False
            raise KeyboardInterrupt
        return memory.empty(*want)

    empty.armed = True
    monkeypatch.setattr(_borrow, "_empty", empty)
    loader = load(array)
    kept = []
    with pytest.raises(KeyboardInterrupt):
        kept.extend(loader)
    with loader:
        kept = list(loader)
        assert [float(x[0, 0]) for (x,) in kept] == [4096.0 * i for i in range(64)]
    del kept
    gc.collect()
    pinion.DataLoader(array, device="cpu").state_dict()  # an open that was given up ends by itself, and any call has it settled
    for _ in range(2400):
        if not memory.live:
            break
        threading.Event().wait(0.05)
        len(pinion.DataLoader(array, device="cpu"))
    assert not memory.live


def test_an_interrupt_while_it_begins_anew(array, memory, monkeypatch):
    with load(array) as loader:
        (x,) = next(iter(loader))
        state = loader.state_dict()

        def interrupt(*_):
            monkeypatch.setattr(_borrow, "_empty", memory.empty)
            raise KeyboardInterrupt

        monkeypatch.setattr(_borrow, "_empty", interrupt)
        with pytest.raises(KeyboardInterrupt):
            loader.load_state_dict(state)
        (y,) = next(iter(loader))  # the task that was given up still wants memory, and gets it
        assert float(y[0, 0]) in (0, 4096)


def test_close_while_another_thread_waits(array, memory, monkeypatch):
    """What waits for memory that never comes ends."""
    begun = threading.Event()
    loader = load(array)
    list(loader)

    def never(*_):
        begun.set()
        raise KeyboardInterrupt

    monkeypatch.setattr(_borrow, "_empty", never)
    with pytest.raises(KeyboardInterrupt):
        loader.load_state_dict(loader.state_dict())
    assert begun.is_set()
    loader.close()
    assert not memory.live


def test_a_forked_child_frees_nothing(child, array):
    child(
        """
        import os, sys, torch, pinion
        loader = pinion.DataLoader(sys.argv[1], 1024, allocator="torch", device="cpu")
        it = iter(loader); (x,) = next(it)
        pid = os.fork()
        if pid == 0:
            assert float(x[1, 0]) == 4
            del x
            try: next(it)
            except pinion.ForkedError: os._exit(0)
            os._exit(1)
        assert os.waitpid(pid, 0)[1] == 0
        assert float(x[1, 0]) == 4 and sum(1 for _ in it) == 63
        """,
        array,
    )


@pytest.mark.parametrize("end", ["", "del loader, it", "del x", "loader.close()", "loader.close(); del x"])
def test_exit(child, array, end):
    child(
        f"""
        import sys, torch, pinion
        loader = pinion.DataLoader(sys.argv[1], 1024, allocator="torch", device="cpu")
        it = iter(loader); (x,) = next(it); (y,) = next(it); z = x * 2
        {end}
        """,
        array,
    )


def test_without_torch(child, array):
    child(
        """
        import sys
        sys.modules["torch"] = None
        import pinion
        try: next(iter(pinion.DataLoader(sys.argv[1], 1024, allocator="torch", device="cpu")))
        except ImportError: pass
        else: raise SystemExit("it went")
        """,
        array,
    )
