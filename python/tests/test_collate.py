"""pinion.Collate, in the workers of torch's DataLoader. What kills, forks or spawns has a process of its own."""

import collections
import gc
import os
import signal
import subprocess
import sys
import textwrap
import warnings

import pytest

torch = pytest.importorskip("torch")
np = pytest.importorskip("numpy")

from torch.utils.data import DataLoader, Dataset, IterableDataset, default_convert  # noqa: E402

import pinion  # noqa: E402
from pinion import _ring  # noqa: E402
from pinion import collate as module  # noqa: E402

Point = collections.namedtuple("Point", "x y")

MIB = 1 << 20


class Made(Dataset):
    """Samples that a function makes of their numbers."""

    def __init__(self, make, n=40):
        self.make, self.n = make, n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return self.make(i)


class Stream(IterableDataset):
    def __iter__(self):
        worker = torch.utils.data.get_worker_info()
        yield from ((torch.full((5,), float(i)), i) for i in range(worker.id, 50, worker.num_workers))


class Odd:
    def __init__(self, i):
        self.i = i

    def __eq__(self, other):
        return self.i == other.i


def nested(i):
    return {
        "image": np.full((3, 8, 8), i, np.uint8), "label": i, "weight": i / 2, "name": f"sample {i}", "flag": torch.tensor(i % 2 == 0),
        "pair": (torch.arange(4) + i, [np.float64(i), np.int16(i)]), "point": Point(i, torch.full((2, 3), i, dtype=torch.bfloat16)),
        "scalar": torch.tensor(1j * i), "empty": torch.zeros(0), "bytes": b"b",
    }  # fmt: skip


def same(a, b):
    assert type(a) is type(b), (type(a), type(b))
    if isinstance(a, torch.Tensor):
        assert a.dtype == b.dtype and a.shape == b.shape and a.stride() == b.stride() and a.requires_grad == b.requires_grad
        assert torch.equal(a, b)
    elif isinstance(a, np.ndarray):
        assert a.dtype == b.dtype and a.shape == b.shape and np.array_equal(a, b) and a.flags.writeable == b.flags.writeable
    elif isinstance(a, dict):
        assert list(a) == list(b)
        for k in a:
            same(a[k], b[k])
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b):
            same(x, y)
    else:
        assert a == b


def compare(dataset, collate=None, fn=None, **arguments):
    """Collate's batches are those of torch."""
    arguments = {"num_workers": 2, **arguments}
    count = 0
    for got, want in zip(
        DataLoader(dataset, collate_fn=collate or pinion.Collate(fn), **arguments), DataLoader(dataset, collate_fn=fn, **arguments), strict=True
    ):
        same(got, want)
        count += 1
    assert count


def idle(collate):
    """Whether every slot is free, and there are some."""
    gc.collect()
    s = collate.stats()
    return s["free_slots"] == s["slots"] > 0


def test_batches_are_those_of_torch():
    compare(Made(nested), batch_size=7)


@pytest.mark.parametrize(
    "make",
    [
        lambda i: i, lambda i: float(i), lambda i: "text", lambda i: torch.tensor(i), lambda i: (i,), lambda i: [torch.zeros(3), "x"],
        lambda i: np.arange(5, dtype=np.int8), lambda i: np.float32(i), lambda i: torch.ones(3, 4).t(), lambda i: collections.OrderedDict(b=i, a=i),
        lambda i: torch.ones((1,) * 10), lambda i: np.array([[True, False]]), lambda i: torch.zeros(2, dtype=torch.complex64),
    ],
)  # fmt: skip
def test_kinds(make):
    compare(Made(make, 6), batch_size=4)


def test_converted_samples():
    compare(Made(nested), batch_size=None)
    compare(Made(lambda i: torch.full((2,), i)), batch_size=None)
    compare(Made(lambda i: [torch.zeros(2), i, np.ones(3)]), pinion.Collate(default_convert), batch_size=None)


def test_iterable():
    compare(Stream(), batch_size=8)
    compare(Stream(), batch_size=None)
    compare(Stream(), batch_size=8, drop_last=True, persistent_workers=True, prefetch_factor=1)


def odd_batch(samples):
    n = len(samples)
    shared = torch.arange(n)
    return {
        "object": Odd(n), "twice": [shared, shared], "none": None, "array": np.arange(n * 3.0).reshape(n, 3).T, "words": np.array(["a", "b"]),
        "objects": np.array([Odd(1), None]), "grad": torch.ones(n, requires_grad=True),
        "set": {1, 2}, "slice": torch.arange(20)[2:9:3], "parameter": torch.nn.Parameter(torch.ones(2)), "big_endian": np.arange(3, dtype=">i4"),
        "no_axes": np.array(5), "datetime": np.array(["2020-01-01"], dtype="M8[D]"),
    }  # fmt: skip


def test_odd_objects_pass():
    for got in DataLoader(Made(lambda i: i), 8, num_workers=2, collate_fn=pinion.Collate(odd_batch)):
        want = odd_batch(range(8))
        assert list(got) == list(want)
        for k in want:
            if k == "objects":
                assert got[k].tolist() == want[k].tolist()
            elif k == "slice":
                assert torch.equal(got[k], want[k])
            else:
                same(got[k], want[k])
        assert got["twice"][0] is got["twice"][1] and got["grad"].is_leaf


def padded(samples):
    out = module.out((len(samples), 9), torch.int64)
    out.zero_()
    for row, s in zip(out, samples):
        row[: len(s)] = s
    part = module.out((50, 2))[: len(samples)]
    part.fill_(2)
    array = module.out(6, torch.int32).numpy()
    array[:] = range(6)
    return out, part, array.reshape(2, 3), module.default_collate([{"n": len(s)} for s in samples])


def test_collate_fn_in_place():
    ragged = Made(lambda i: torch.full((i % 9 + 1,), i))
    compare(ragged, fn=padded, batch_size=6)
    assert torch.equal(module.out((2, 3)).zero_(), torch.zeros(2, 3)), "an ordinary tensor where there is no Collate"
    assert module.out(np.int64(3)).shape == (3,)
    assert module.out(4, torch.int8).shape == (4,)


def test_nothing_is_copied_in_place():
    def where(samples):
        x = module.out((4, 100))
        y = module.default_collate([torch.zeros(30)] * 4)
        room = module._here.room
        return x, y, [room._find(t.data_ptr()) for t in (x, y)], room.used

    x, y, places, used = next(iter(DataLoader(Made(int), 4, num_workers=1, collate_fn=pinion.Collate(where))))
    assert None not in places and used == 1600 + 512, "both are in the slot from the start"
    assert x.shape == (4, 100) and y.shape == (4, 30)


def test_ragged_fails_as_torch_does():
    ragged = Made(lambda i: torch.zeros(i + 1))
    errors = []
    collate = pinion.Collate()
    for c in (None, collate):
        with pytest.raises(RuntimeError) as e:
            next(iter(DataLoader(ragged, 4, num_workers=1, collate_fn=c)))
        errors.append(str(e.value).strip().splitlines()[-1])
    assert errors[0] == errors[1] and "equal size" in errors[0]
    compare(Made(nested), collate)  # which goes on


def test_own_traceback():
    def make(i):
        if i == 9:
            raise KeyError("the ninth")
        return torch.zeros(4)

    collate = pinion.Collate()
    loader = DataLoader(Made(make), 4, num_workers=1, collate_fn=collate)
    with pytest.raises(KeyError, match="the ninth") as e:
        list(loader)
    assert "in make" in str(e.value)
    del e, loader
    assert idle(collate)

    def bad(samples):
        module.out((10, 10))
        raise ValueError("of a collator")

    collate = pinion.Collate(bad)
    with pytest.raises(ValueError, match="of a collator"):
        next(iter(DataLoader(Made(int), 4, num_workers=1, collate_fn=collate)))
    assert idle(collate), "the slot of the batch that failed is free"


def test_slots_are_used_again():
    collate = pinion.Collate()
    for persistent in (False, True):
        loader = DataLoader(Made(lambda i: torch.full((25000,), float(i)), 200), 8, num_workers=2, collate_fn=collate, persistent_workers=persistent)
        for _ in range(3):
            for n, x in enumerate(loader):
                assert x[3, 9] == 8 * n + 3
    del x, loader
    assert idle(collate)
    assert collate.stats()["slots"] <= 9, "2 workers, 4 batches ahead, one in the loop, one being dropped"


def test_views_keep_the_slot():
    collate = pinion.Collate()
    loader = DataLoader(Made(lambda i: torch.full((1000,), float(i)), 400), 8, num_workers=2, collate_fn=collate)
    it = iter(loader)
    view = next(it)[3:5, 10]
    array = next(it).numpy()[0]
    for x in it:
        pass
    list(loader)
    del x
    gc.collect()
    assert view.tolist() == [3, 4] and array[7] == 8
    assert collate.stats()["lent_slots"] == 2
    del view, array, it
    assert idle(collate)


def test_storages_are_the_tensors_own():
    x, y = next(iter(DataLoader(Made(lambda i: (torch.zeros(1000), i)), 8, num_workers=1, collate_fn=pinion.Collate())))
    assert x.storage_offset() == y.storage_offset() == 0 and len(y.storage()) == 8, "torch.save writes no more than the tensor"
    x.add_(1)
    x.requires_grad_()
    assert x.is_leaf and not x._is_view()


def test_batches_outlive_everything():
    loader = DataLoader(Made(lambda i: torch.full((10,), i)), 8, num_workers=2, collate_fn=pinion.Collate())
    batches = list(loader)
    del loader
    gc.collect()
    assert [b[1, 1] for b in batches] == [1, 9, 17, 25, 33]


def test_list_beyond_the_limit():
    collate = pinion.Collate(limit=3 * MIB)
    loader = DataLoader(Made(lambda i: torch.full((100, 256), float(i)), 400), 4, num_workers=2, collate_fn=collate)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        batches = list(loader)
        more = list(loader)
    assert [b[1, 0, 0] for b in batches + more] == [4 * i + 1 for i in range(100)] * 2
    assert [str(w.message).split(":")[0] for w in caught if w.category is RuntimeWarning] == ["Collate"], "one warning"
    text = next(str(w.message) for w in caught if w.category is RuntimeWarning)
    assert "larger limit" in text and "2 MiB" not in text
    used = collate.stats()
    assert used["slot_bytes"] <= 3 * MIB and used["free_slots"] == 0
    del batches, more
    assert idle(collate)
    before = collate.stats()["slots"]
    for x in loader:  # in slots again
        pass
    assert collate.stats()["lent_slots"] == 1 and collate.stats()["slots"] == before


def test_too_large_for_the_limit():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        batches = list(DataLoader(Made(lambda i: torch.full((MIB,), float(i))), 4, num_workers=2, collate_fn=pinion.Collate(limit=MIB)))
    assert [b[1, 0] for b in batches] == [4 * i + 1 for i in range(10)]
    assert [w.category for w in caught if str(w.message).startswith("Collate")] == [RuntimeWarning]


def test_growing_batches_merge_slots():
    def make(i):
        return torch.full((256 * (1 + i // 20),), float(i))

    collate = pinion.Collate(torch.stack, limit=24 * MIB)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n, x in enumerate(DataLoader(Made(make, 20 * 64), 20, num_workers=1, prefetch_factor=1, collate_fn=collate)):
            assert x.shape == (20, 256 * (n + 1)) and x[3, 5] == 20 * n + 3
    assert collate.stats()["slot_bytes"] <= 24 * MIB, "the batches together have 41 MiB"


def test_dropped_iterators():
    collate = pinion.Collate()
    dataset = Made(lambda i: torch.full((25000,), float(i)), 4000)
    for _ in range(3):
        it = iter(DataLoader(dataset, 8, num_workers=2, prefetch_factor=3, collate_fn=collate))
        next(it)
        del it
        gc.collect()
    loader = DataLoader(dataset, 8, num_workers=2, prefetch_factor=3, collate_fn=collate, persistent_workers=True)
    for _ in range(4):
        for x in loader:
            break
    most = collate.stats()["slots"]
    for n, x in enumerate(loader):
        assert x[2, 2] == 8 * n + 2
    assert most <= 14 and collate.stats()["slots"] <= 14, "of 6 ahead, dead workers' slots are used again"


def test_two_loaders():
    shared = pinion.Collate()
    a = DataLoader(Made(lambda i: torch.full((100,), i), 80), 4, num_workers=2, collate_fn=shared)
    b = DataLoader(Made(lambda i: torch.full((200,), -i), 80), 4, num_workers=2, collate_fn=shared)
    c = DataLoader(Made(nested, 80), 4, num_workers=1, collate_fn=pinion.Collate())
    for n, (x, y, z) in enumerate(zip(a, b, c, strict=True)):
        assert x[1, 99] == 4 * n + 1 and y[1, 199] == -4 * n - 1 and z["label"][1] == 4 * n + 1


def test_without_workers_it_is_the_function():
    sample = object()
    assert next(iter(DataLoader(Made(lambda i: sample), 2, collate_fn=pinion.Collate(lambda s: s)))) == [sample, sample]
    same(pinion.Collate()([nested(1), nested(2)]), torch.utils.data.default_collate([nested(1), nested(2)]))


def test_arguments():
    with pytest.raises(TypeError):
        pinion.Collate(3)
    for limit, kind in ((0, ValueError), (1 << 50, ValueError), (1.5, TypeError), ("1GiB", TypeError)):
        with pytest.raises(kind, match=f"limit is '?{limit}"):
            pinion.Collate(limit=limit)
    if not torch.cuda.is_available():
        with pytest.raises(pinion.UnavailableError, match="CUDA"):
            pinion.Collate(pin=True)


def test_device_and_marks(device):
    """Slots come back behind a mark of the device."""
    collate = pinion.Collate()
    loader = DataLoader(Made(lambda i: torch.full((1000,), float(i)), 80), 4, num_workers=2, collate_fn=collate)
    lib = collate._memory._open()
    assert lib.pinion_collate_use(collate._memory._handle, device.encode()) == 0
    for n, x in enumerate(loader):
        assert x[1, 7] == 4 * n + 1
    del x
    gc.collect()
    for _ in range(1000):
        if collate.stats()["pending_slots"] == 0:
            break
    s = collate.stats()
    assert s["pinned_bytes"] > 0 and "error" not in s and idle(collate)


SOURCE = """
import faulthandler, os, sys, signal, time, gc, threading, warnings
faulthandler.dump_traceback_later(200)
import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info
import pinion

class Filled(Dataset):
    def __init__(self, n=400, victim=None): self.n, self.victim = n, victim
    def __len__(self): return self.n
    def __getitem__(self, i):
        if i == self.victim: os.kill(os.getpid(), signal.SIGKILL)
        return torch.full((25000,), float(i)), i

def check(loader):
    for n, (x, y) in enumerate(loader):
        assert x[3, 7] == 8 * n + 3 and y[3] == 8 * n + 3, (n, x)
    return n + 1

def idle(collate):
    gc.collect()
    s = collate.stats()
    return s["free_slots"] == s["slots"] > 0
"""


@pytest.fixture
def program(tmp_path):
    """Runs a program that has SOURCE, as a file, so that it can be spawned."""

    def run(body, want=0, timeout=240, tail=""):
        path = tmp_path / "program.py"
        path.write_text(SOURCE + "\nif __name__ == '__main__':\n" + textwrap.indent(textwrap.dedent(body), "    "))
        try:
            done = subprocess.run([sys.executable, path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout)
        except subprocess.TimeoutExpired as e:
            pytest.fail(f"not done after {timeout} s\n{(e.stdout or b'').decode()}")
        assert done.returncode == want, f"exit code {done.returncode}, want {want}\n{done.stdout}"
        return done.stdout

    return run


@pytest.mark.parametrize("context", ["fork", "spawn", "forkserver"])
def test_start_methods(program, context):
    program(f"""
        collate = pinion.Collate()
        loader = DataLoader(Filled(), 8, num_workers=2, collate_fn=collate, multiprocessing_context={context!r}, persistent_workers=True)
        for epoch in range(3):
            assert check(loader) == 50
        del loader
        assert idle(collate) and collate.stats()["slots"] <= 9, collate.stats()
    """)


def test_fork_after_the_library_is_loaded(program):
    program("""
        collate = pinion.Collate()
        for epoch in range(4):  # from the second on, workers are forked from a process with Go in it
            assert check(DataLoader(Filled(), 8, num_workers=2, collate_fn=collate)) == 50
        held = next(iter(DataLoader(Filled(), 8, num_workers=2, collate_fn=collate)))
        assert check(DataLoader(Filled(), 8, num_workers=2, collate_fn=collate)) == 50
        assert held[0][2, 2] == 2
    """)


def test_a_loop_in_a_forked_child(program):
    """A process forked from one that uses Pinion gets batches too, in memory of their own."""
    program("""
        collate = pinion.Collate()
        x, y = next(iter(DataLoader(Filled(), 8, num_workers=1, collate_fn=collate)))
        pid = os.fork()
        if pid == 0:
            assert check(DataLoader(Filled(), 8, num_workers=2, collate_fn=collate)) == 50
            del x
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert x[7, 7] == 7
        del x, y
        assert check(DataLoader(Filled(), 8, num_workers=2, collate_fn=collate)) == 50
        assert idle(collate)
    """)


def test_a_killed_worker(program):
    program("""
        collate = pinion.Collate()
        for victim in (100, 0, 17, 200):
            try:
                for n, (x, y) in enumerate(DataLoader(Filled(victim=victim), 8, num_workers=2, collate_fn=collate)):
                    assert x[3, 7] == 8 * n + 3
            except RuntimeError as e: assert "killed" in str(e) or "exited" in str(e) or "lost" in str(e), e
            else: raise SystemExit("the worker was not killed")
        x = y = None
        for epoch in range(2):
            assert check(DataLoader(Filled(), 8, num_workers=2, collate_fn=collate)) == 50
        assert idle(collate) and collate.stats()["slots"] <= 12, collate.stats()
    """)


def test_workers_killed_at_any_time(program):
    """Whatever a worker was at, no memory is lost and no batch is wrong."""
    program("""
        import mmap, random, torch.multiprocessing
        # DataLoader's event has a lock, which a worker that is killed in is_set() keeps: the loop then waits for
        # ever, whatever the collate_fn.
        class Event:
            def __init__(self): self.flag = mmap.mmap(-1, 1)
            def is_set(self): return self.flag[0] != 0
            def set(self): self.flag[0] = 1
        torch.multiprocessing.Event = Event
        collate = pinion.Collate()
        for round in range(12):
            loader = DataLoader(Filled(4000), 8, num_workers=2, collate_fn=collate)
            it = iter(loader)
            timer = threading.Timer(random.random() * .3, os.kill, (random.choice(it._workers).pid, signal.SIGKILL))
            timer.start()
            try:
                for n, (x, y) in enumerate(it): assert x[3, 7] == 8 * n + 3 == y[3]
            except RuntimeError as e: assert "killed" in str(e) or "exited" in str(e) or "lost" in str(e), e
            timer.join()
            it = x = y = None
            gc.collect()
        assert check(DataLoader(Filled(), 8, num_workers=2, collate_fn=collate)) == 50
        assert idle(collate) and collate.stats()["slots"] <= 14, collate.stats()
    """)


def test_interrupt(program):
    """Ctrl-C in the loop: KeyboardInterrupt, and everything goes on."""
    program("""
        collate = pinion.Collate()
        for round in range(6):
            loader = DataLoader(Filled(40000), 8, num_workers=2, collate_fn=collate)
            try:
                for n, (x, y) in enumerate(loader):
                    if n == 0:  # not while PyTorch starts its workers: it does not survive that
                        threading.Timer(.01 + .04 * round, os.kill, (os.getpid(), signal.SIGINT)).start()
                    assert x[3, 7] == 8 * n + 3
            except KeyboardInterrupt: pass
            else: raise SystemExit("no KeyboardInterrupt")
        x = y = loader = None
        gc.collect()
        assert check(DataLoader(Filled(), 8, num_workers=2, collate_fn=collate)) == 50
        assert collate.stats()["slots"] <= 20, collate.stats()
    """)


def test_exit_in_the_loop(program):
    program("""
        for x, y in DataLoader(Filled(4000), 8, num_workers=2, collate_fn=pinion.Collate()):
            sys.exit(7)
    """, want=7)
    program("""
        loader = DataLoader(Filled(4000), 8, num_workers=2, collate_fn=pinion.Collate(), persistent_workers=True)
        it = iter(loader)
        kept = [next(it) for i in range(5)]
    """)


def test_pin_memory_too(program):
    """pin_memory=True is not needed, and does no harm."""
    program("""
        warnings.simplefilter("ignore")
        collate = pinion.Collate()
        assert check(DataLoader(Filled(), 8, num_workers=2, collate_fn=collate, pin_memory=True)) == 50
        gc.collect()
    """)


def test_a_thread_forks_while_another_receives(program):
    program("""
        collate = pinion.Collate()
        # PyTorch's functions register destructors when they first run. A child that is forked just then
        # inherits glibc's lock of that list as taken, and waits for it for ever, whatever the collate_fn.
        check(DataLoader(Filled(16), 8, num_workers=1, collate_fn=collate))
        failed = []
        def loop():
            try:
                for epoch in range(4): check(DataLoader(Filled(), 8, num_workers=1, collate_fn=collate))
            except BaseException as e: failed.append(e)
        threads = [threading.Thread(target=loop) for i in range(3)]
        for t in threads: t.start()
        for t in threads: t.join()
        assert not failed, failed
        assert idle(collate)
    """)


def test_nothing_is_left(program):
    """Descriptors and memory go with the Collate."""
    program("""
        def count(): return len(os.listdir("/proc/self/fd")), open("/proc/self/maps").read().count("pinion-collate")
        def once():
            collate = pinion.Collate(limit=64 << 20)
            assert check(DataLoader(Filled(80), 8, num_workers=1, collate_fn=collate)) == 10
        once(); gc.collect(); time.sleep(.2)
        before = count()
        for i in range(10): once()
        gc.collect()
        def left():  # what the first left for a moment may be gone by now
            now = count()
            return now[0] > before[0] or now[1] > 0
        for i in range(2400):
            if not left(): break
            time.sleep(.05)
        assert not left(), (before, count())
    """)


def test_collate_of_another_process_only(program):
    program("""
        class Own:
            def __call__(self, samples): return pinion.Collate()(samples)
        assert check(DataLoader(Filled(80), 8, num_workers=1, collate_fn=Own())) == 10
    """)


def filled(i):
    return torch.full((25000,), float(i)), i


@pytest.mark.gpu
def test_copies_are_done_before_the_memory_is_used_again():
    """Batches are dropped as soon as their copies are queued, behind work that takes far longer than making them."""
    heavy = torch.ones(4096, 4096, device="cuda")
    side = torch.cuda.Stream()
    collate = pinion.Collate()
    for epoch in range(2):
        got = []
        for n, (x, y) in enumerate(DataLoader(Made(filled, 400), 8, num_workers=2, collate_fn=collate)):
            assert x.is_pinned() and y.is_pinned()
            with torch.cuda.stream(side if n % 2 else torch.cuda.current_stream()):
                for i in range(4):
                    heavy @ heavy
                got.append((x.to("cuda", non_blocking=True), y.to("cuda", non_blocking=True)))
            del x, y
        torch.cuda.synchronize()
        for n, (x, y) in enumerate(got):
            want = torch.arange(8 * n, 8 * n + 8, device="cuda")
            assert torch.equal(x[:, 0], want.float()) and torch.equal(x[:, 0], x[:, -1]), n
            assert torch.equal(y, want), n
    s = collate.stats()
    assert s["pinned_bytes"] > 0 and "error" not in s and "pin_error" not in s, s
    assert idle(collate)


@pytest.mark.gpu
def test_capture_of_a_graph_survives():
    collate = pinion.Collate()
    it = iter(DataLoader(Made(filled, 400), 8, num_workers=2, collate_fn=collate))
    next(it)
    still = torch.zeros(8, 25000, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        doubled = still * 2
        next(it)
    for n, (x, y) in enumerate(it):
        still.copy_(x, non_blocking=True)
        graph.replay()
        assert doubled[3, 7].item() == 2 * (8 * (n + 2) + 3)


# The ring, alone.


def test_ring_random():
    """Claims and frees against a model: no two owners, sizes are enough, nothing is lost."""
    import random

    rng = random.Random(1)
    ring = _ring.Ring.create(64 * MIB)
    have = []
    refused = 0
    for _ in range(3000):
        if rng.random() < 0.55:
            need = int(2 ** rng.uniform(0, 23))
            slot = ring.claim(need)
            if slot is None:
                refused += 1
                continue
            assert slot.size >= need and slot.start >= _ring.DATA + 65536 and slot.start + slot.size <= len(ring.map)
            assert slot.start % 65536 == 0 and slot.size % 65536 == 0
            assert all(slot.start + slot.size <= s.start or s.start + s.size <= slot.start for s in have)
            have.append(slot)
        elif have:
            ring.free(have.pop(rng.randrange(len(have))))
    assert refused and len(have)
    for s in have:
        ring.free(s)
    assert ring.claim(40 * MIB), "free slots side by side are one"
    os.close(ring.fd)


def test_ring_takes_what_was_sent():
    ring = _ring.Ring.create(MIB)
    slot = ring.claim(1000)
    assert ring.take(slot.number, slot.sequence) == slot
    ring.free(slot)
    with pytest.raises(_ring.LostError):
        ring.take(slot.number, slot.sequence)
    again = ring.claim(1000)
    assert again.number == slot.number and again.sequence == slot.sequence + 1
    with pytest.raises(_ring.LostError):
        ring.take(slot.number, slot.sequence)
    os.close(ring.fd)


def test_ring_frees_the_slots_of_the_dead():
    ring = _ring.Ring.create(MIB)
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        while ring.claim(60000):
            pass
        os.write(write, b"x")
        signal.pause()
    os.read(read, 1)
    assert ring.claim(60000) is None, "the child has all"
    os.kill(pid, 9)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # a zombie is dead
    assert ring.claim(60000)
    os.waitpid(pid, 0)
    for fd in (read, write, ring.fd):
        os.close(fd)


def test_ring_is_one_segment_for_go(tmp_path):
    """What Go says of the file: one owner more, and the size."""
    collate = pinion.Collate(limit=MIB)
    collate._memory._open()
    taken = [e for e in range(1024) if collate._memory.ring.map[4096 + 32 * e]]
    assert len(taken) == 1, "the mapping of the library"
    assert collate.stats()["limit_bytes"] == MIB
