"""What DataLoader gives."""

import hashlib
import json
import os
import pickle
import subprocess
import sys
import tarfile

import pytest
from conftest import command, write_png

import pinion

np = pytest.importorskip("numpy")


def load(source, batch_size=64, output="numpy", **arguments):
    arguments.setdefault("device", "host")
    return pinion.DataLoader(source, batch_size, output=output, **arguments)


def test_values(array):
    with load(array) as loader:
        assert len(loader) == 1024
        got = np.concatenate([x for (x,) in loader])
    assert np.array_equal(got, np.arange(65536 * 4, dtype=np.float32).reshape(-1, 4))


def test_photos_have_labels(photos):
    with load(photos, 32, transform="center:32") as loader:
        batches = list(loader)
    assert [x.shape for x, y in batches] == [(32, 3, 32, 32)] * 3
    assert all(x.dtype == np.float32 and y.dtype == np.int64 for x, y in batches)
    assert np.concatenate([y for x, y in batches]).tolist() == [0] * 48 + [1] * 48


def test_torch(photos):
    torch = pytest.importorskip("torch")
    with load(photos, 32, output="torch", transform="center:32") as loader:
        x, y = next(iter(loader))
        z = torch.nn.functional.cross_entropy(x.mean((2, 3)), y)  # labels are of the type that it wants
    assert z.isfinite()


def test_an_epoch_for_each_loop(array):
    with load(array, 4096, shuffle=True) as loader:
        epochs = [np.concatenate([x for (x,) in loader])[:, 0] for _ in range(3)]
        for _ in loader:
            break
        epochs.append(np.concatenate([x for (x,) in loader])[:, 0])
    for i, e in enumerate(epochs):
        assert np.array_equal(np.sort(e), np.arange(0, 65536 * 4, 4))
        assert not any(np.array_equal(e, other) for other in epochs[:i])


def test_arrays_outlive_the_loader(array):
    loader = load(array)
    it = iter(loader)
    (x,) = next(it)
    (y,) = next(it)
    loader.close()
    assert x[0, 0] == 0 and y[0, 0] == 256 and x.flags.writeable
    x[:] = 1
    assert y[0, 0] == 256


def test_list_keeps_everything(array):
    with load(array) as loader:
        batches = list(loader)
    assert len({x.ctypes.data for (x,) in batches}) == 1024
    assert all(x[0, 0] == 256 * i for i, (x,) in enumerate(batches))


def test_resume(array):
    with load(array, 1000, shuffle=True, seed=3) as whole:
        want = [float(x.sum()) for _ in range(2) for (x,) in whole]
    with load(array, 1000, shuffle=True, seed=3) as first:
        it = iter(first)
        got = [float(next(it)[0].sum()) for _ in range(5)]
        state = json.loads(json.dumps(first.state_dict()))
    with load(array, 1000, shuffle=True, seed=3, num_workers=1) as second:
        second.load_state_dict(state)
        assert second.state_dict() == state
        got += [float(x.sum()) for (x,) in second]
        got += [float(x.sum()) for (x,) in second]
    assert got == want


def test_no_shuffle_is_none(array):
    with load(array, shuffle=None) as loader:
        assert next(iter(loader))[0][0, 0] == 0


@pytest.mark.parametrize(
    "name, content",
    [
        ("a.jsonl", b'{"a": 1}\nnothing\n'),
        ("a.csv", b"a,b\n1,x\n"),
        ("a.npy", b"\x93NUMPY\x01\x00\xff\xff"),
        ("a.npz", b"PK\x03\x04nothing"),
        ("a.safetensors", b"\x10\0\0\0\0\0\0\0{nothing"),
        ("a.parquet", b"PAR1 nothing PAR1"),
        ("a.nii", b"\x5c\x01\0\0nothing"),
        ("a.tar", b"nothing"),
        ("empty.csv", b""),
    ],
)
def test_files_that_are_damaged(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(pinion.DataError, match=name):
        len(load(tmp_path / name))


def test_errors(array, tmp_path):
    with pytest.raises(FileNotFoundError, match="nothing"):
        len(load(tmp_path / "nothing"))
    with pytest.raises(ValueError, match="f33"):
        len(load(array, dtype="f33"))
    with pytest.raises(pinion.UnavailableError, match="tpu"):
        len(load(array, device="tpu"))
    with pytest.raises(ValueError, match="batch_size"):
        load(array, 0)
    with pytest.raises(ValueError, match="feild"):
        len(load(array, feild="x"))
    loader = load(array)
    it = iter(loader)
    next(it)
    loader.close()
    for use in (lambda: next(it), lambda: iter(loader), lambda: len(loader), loader.state_dict, lambda: loader.load_state_dict({}), lambda: loader.set_epoch(1)):
        with pytest.raises(pinion.ClosedError):
            use()
    loader.close()


def test_an_old_loop_ends(array):
    with load(array) as loader:
        old = iter(loader)
        next(old)
        new = iter(loader)
        assert next(new)[0][0, 0] == 0
        with pytest.raises(RuntimeError, match="another loop"):
            next(old)


def digests(command, tmp_path, source, *flags):
    """What `pinion feed --digests` says of every batch."""
    path = tmp_path / "digests.jsonl"
    subprocess.run([command, "feed", source, "--device", "host", "--digests", str(path), *flags], check=True, capture_output=True)
    return [(line["epoch"], line["batch"], line["sha256"]) for line in map(json.loads, path.read_text().splitlines())]


@pytest.mark.parametrize(
    "flags, arguments",
    [
        ("", {}),
        ("--shuffle --seed 7 --drop-last --transform rrc:40,flip,jitter", {"shuffle": True, "seed": 7, "drop_last": True, "transform": "rrc:40,flip,jitter"}),
        ("--sampler balanced --dtype f16 --size 24", {"sampler": "balanced", "dtype": "float16", "size": 24}),
        ("--sampler replacement --dtype u8 --rank 1 --world 3", {"sampler": "replacement", "dtype": np.uint8, "rank": 1, "world_size": 3}),
        ("--mixup 0.3 --shuffle --channels 1", {"mixup": 0.3, "shuffle": True, "channels": 1}),
    ],
)  # fmt: skip
def test_batches_are_those_of_the_command(photos, tmp_path, flags, arguments):
    want = digests(command(), tmp_path, photos, "--batch", "20", "--epochs", "2", *flags.split())
    got = []
    with load(photos, 20, **arguments) as loader:
        for epoch in range(2):
            for number, (x, *_) in enumerate(loader):
                got.append((epoch, number, hashlib.sha256(np.ascontiguousarray(x).tobytes()).hexdigest()))
    assert got == want


def test_targets(photos, array, tmp_path):
    masks = tmp_path / "masks"
    for kind in ("cat", "dog"):
        (masks / kind).mkdir(parents=True)
        for i in range(48):
            write_png(masks / kind / f"{i:03d}.png", np.full((48, 64), i, dtype=np.uint8))
    want = digests(command(), tmp_path, photos, "--batch", "20", "--shuffle", "--transform", "rrc:40,flip", "--targets", str(masks))
    got = []
    with load(photos, 20, shuffle=True, transform="rrc:40,flip", targets=masks) as loader:
        for number, (x, y, m) in enumerate(loader):
            assert m.dtype == np.uint8 and len(m) == len(y)
            got.append((0, number, hashlib.sha256(x.tobytes() + m.tobytes()).hexdigest()))
    assert got == want


def test_samples_of_different_lengths(tmp_path):
    path = tmp_path / "tokens.jsonl"
    path.write_text("".join(json.dumps({"tokens": list(range(1, n + 1)), "class": n % 3}) + "\n" for n in (3, 1, 4, 2)))
    with load(path, 4, field="tokens", label="class", mask=True, pad=-1) as loader:
        ((x, y, lengths, mask),) = loader
    assert lengths.tolist() == [3, 1, 4, 2] and y.tolist() == [0, 1, 1, 2]
    assert x.tolist() == [[1, 2, 3, -1], [1, -1, -1, -1], [1, 2, 3, 4], [1, 2, -1, -1]]
    assert np.array_equal(mask, x > 0)


def test_names_and_functions(photos):
    with load(photos, 8, names=("pixel_values", "labels"), transform=lambda b: {**b, "n": len(b["labels"])}) as loader:
        b = next(iter(loader))
    assert list(b) == ["pixel_values", "labels", "n"] and b["n"] == 8 and b["pixel_values"].shape == (8, 3, 224, 224)


def test_facts(photos, array):
    with load(photos, 20) as loader:
        assert (len(loader), loader.batch_size, len(loader.dataset), loader.classes) == (5, 20, 96, ["cat", "dog"])
        for _ in loader:
            pass
        stats = loader.stats()
        assert stats["samples"] == 96 and stats["batches"] == 5 and stats["stages_seconds"]["decode"] > 0
    with load(array, "auto") as loader:
        assert loader.batch_size > 0 and sum(len(x) for (x,) in loader) == 65536


def test_set_epoch(array):
    def first(loader):
        return float(next(iter(loader))[0][0, 0])

    with load(array, 100, shuffle=True) as loader:
        want = [float(next(iter(loader))[0][0, 0]) for _ in range(6)]
    with load(array, 100, shuffle=True) as loader:
        for epoch in (0, 1, 2, 2, 5, 1):
            loader.set_epoch(epoch)
            assert first(loader) == want[epoch], epoch
        assert first(loader) == want[2]
        loader.set_epoch(4)
        state = loader.state_dict()
    with load(array, 100, shuffle=True) as loader:
        loader.load_state_dict(state)  # of epoch 2, behind its first batch
        loader.set_epoch(2)
        assert len(list(loader)) == 655
        loader.set_epoch(4)
        assert first(loader) == want[4]


def test_state_at_the_end_of_an_epoch(array):
    """As with torchdata: behind the last batch, the loop that goes on has no batches; after the loop, the next epoch
    begins."""
    with load(array, 32768) as loader:
        it = iter(loader)
        next(it), next(it)
        inside = loader.state_dict()
        assert list(it) == []
        after = loader.state_dict()
    for state, want in ((inside, [0, 2, 2]), (after, [2, 2, 2])):
        with load(array, 32768) as loader:
            loader.load_state_dict(state)
            assert [len(list(loader)) for _ in range(3)] == want


def test_states_that_do_not_fit(array, photos):
    with load(array, 64) as loader:
        state = loader.state_dict()
        for bad in ({**state, "seed": 5}, {**state, "epoch": "x"}, {}):
            with pytest.raises(pinion.StateError):
                loader.load_state_dict(bad)
        assert len(list(loader)) == 1024
    with load(photos, 64) as loader, pytest.raises(pinion.StateError, match="samples of the dataset: 65536 in the state, 96 now"):
        loader.load_state_dict(state)
        next(iter(loader))


def test_ranks_of_torchrun(array, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "4")
    got = []
    for rank in range(4):
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("LOCAL_RANK", str(rank))
        with load(array, 64, shuffle=True) as loader:
            assert len(loader) == 256
            got += [v for (x,) in loader for v in x[:, 0].tolist()]
    assert sorted(got) == list(range(0, 65536 * 4, 4))
    with pytest.raises(ValueError, match="both or none"):
        load(array, rank=1)
    monkeypatch.setenv("RANK", "first")
    with load(array, 64) as loader, pytest.raises(ValueError, match="RANK is 'first' in the environment"):
        len(loader)


def test_resume_on_other_ranks(array):
    """One rank goes on where four were."""
    with load(array, 400, shuffle=True) as one:
        want = [float(x.sum()) for (x,) in one]
    states = []
    for rank in range(4):
        with load(array, 100, shuffle=True, rank=rank, world_size=4) as loader:
            it = iter(loader)
            for _ in range(10):
                next(it)
            states.append(loader.state_dict())
    assert all(s == states[0] for s in states)
    with load(array, 400, shuffle=True, num_workers=3) as loader:
        loader.load_state_dict(states[2])
        assert [float(x.sum()) for (x,) in loader] == want[10:]


def test_samples_that_are_left_out(photos, tmp_path):
    import shutil

    shutil.copytree(photos, tmp_path / "photos")
    (tmp_path / "photos" / "cat" / "bad.png").write_bytes(b"nothing")
    with load(tmp_path / "photos", 97, on_error="skip") as loader:
        ((x, y),) = loader
        assert len(x) == 96 and [u["name"][-7:] for u in loader.stats()["unread"]] == ["bad.png"]
    with load(tmp_path / "photos", 97) as loader, pytest.raises(pinion.SampleError, match="bad.png") as caught:
        next(iter(loader))
    assert (caught.value.index, caught.value.epoch, caught.value.batch) == (48, 0, 0)


def test_loops_after_one_that_failed(photos, tmp_path):
    """Each is an epoch of its own, as after break, and reads anew."""
    import shutil

    shutil.copytree(photos, tmp_path / "photos")
    bad = tmp_path / "photos" / "cat" / "bad.png"
    bad.write_bytes(b"nothing")
    with load(tmp_path / "photos", 16) as loader:  # sample 48 is of the fourth batch
        for epoch in range(2):
            it = iter(loader)
            assert [len(next(it)[0]) for _ in range(3)] == [16] * 3
            for _ in range(2):
                with pytest.raises(pinion.SampleError) as caught:
                    next(it)
                assert (caught.value.epoch, caught.value.batch) == (epoch, 3)
        bad.write_bytes((tmp_path / "photos" / "cat" / sorted(os.listdir(bad.parent))[0]).read_bytes())
        loader.set_epoch(2)  # which would come next, too
        assert len(list(loader)) == len(loader) == 7
        assert loader.state_dict()["epoch"] == 3


def test_loops_after_one_that_kept_too_much(array):
    """The budget is that of all loops together."""
    with load(array, 4096, device_budget=10 * 4096 * 16) as loader:
        kept = []
        for _ in range(2):
            with pytest.raises((MemoryError, RuntimeError), match="held by the caller"):
                for batch in loader:
                    kept.append(batch)
        del batch
        assert 4 <= len(kept) <= 10
        kept.clear()
        assert len(list(zip(loader, range(3)))) == 3


def test_a_wrong_word(photos):
    for argument in ({"on_error": "skp"}, {"sampler": "sorted"}, {"decode": "tpu"}, {"output": "jax"}, {"depth": "many"}, {"transform": "flop"},
                     {"shuffle": True, "sampler": "length"}, {"mixup": 9}):  # fmt: skip
        with pytest.raises(ValueError):
            len(load(photos, **argument))


def test_several_devices(array):
    with load(array, 64, device=["host", "host"]) as loader:
        assert sum(len(x) for (x,) in loader) == 65536


def test_a_thousand_epochs(tmp_path):
    """Nothing grows."""
    np.save(tmp_path / "small.npy", np.zeros((1000, 16), dtype=np.float32))

    def sizes():
        return int(open("/proc/self/statm").read().split()[1]) * 4096 >> 20, len(os.listdir("/proc/self/task"))

    with load(tmp_path / "small.npy", 250, shuffle=True) as loader:
        for epoch in range(1000):
            assert sum(len(x) for (x,) in loader) == 1000
            if epoch == 100:
                before = sizes()
        after = sizes()
        assert loader.stats()["device_buffers"] == 4
    assert after[0] < before[0] + 64 and after[1] < before[1] + 50, (before, after)


def test_pickle(array):
    with load(array, 1000, shuffle=True) as loader:
        again = pickle.loads(pickle.dumps(loader))
        it = iter(loader)
        next(it)
        behind = pickle.loads(pickle.dumps(loader))
        want = [float(x.sum()) for (x,) in it]
    with again, behind:
        assert [float(x.sum()) for (x,) in again][1:] == want
        assert [float(x.sum()) for (x,) in behind] == want


def test_a_pipe_comes_once(tmp_path):
    with tarfile.open(tmp_path / "photos.tar", "w") as tar:
        for i in range(10):
            write_png(tmp_path / f"{i}.png", np.full((8, 8, 3), 20 * i, np.uint8))
            tar.add(tmp_path / f"{i}.png", f"{i}.png")
    program = """if True:
        import pinion
        loader = pinion.DataLoader("-", 4, device="host", dtype="u8", output="numpy")
        print([int(x.max()) for x, *_ in loader])
        try: list(loader)
        except ValueError as e: print(e)
    """
    with open(tmp_path / "photos.tar", "rb") as tar:
        out = subprocess.run([sys.executable, "-c", program], stdin=tar, capture_output=True, text=True, timeout=120)
    assert out.returncode == 0, out.stderr
    assert out.stdout.startswith("[60, 140, 180]\n") and "it comes only once" in out.stdout, out.stdout


@pytest.mark.parametrize("share", [-0.1, 1.5, "all", float("nan")])
def test_a_share_that_cannot_be(photos, share):
    with pytest.raises(ValueError, match="cpu_share"):
        pinion.DataLoader(photos, 8, cpu_share=share)


def test_a_share_that_is_chosen(photos, device):
    with pinion.DataLoader(photos, 8, device=device, cpu_share="auto") as loader:
        assert sum(1 for _ in loader) == 12 and loader.stats()["taken_pictures"] >= 0


@pytest.mark.parametrize(
    "arguments, kind, words",
    [
        ({"collate_fn": list}, TypeError, "transform may be a function"),
        ({"persistent_workers": True}, TypeError, "threads, which stay"),
        ({"prefetch_factor": 2}, TypeError, "prefetch is how many"),
        ({"sampler": [1, 2]}, TypeError, "sampler is a list"),
        ({"names": "x"}, TypeError, "sequence of names"),
        ({"seed": -1}, ValueError, "seed is -1, but must be at least 0"),
        ({"seed": 2**64}, ValueError, "must be at most 18446744073709551615"),
        ({"num_workers": -1}, ValueError, "num_workers is -1"),
        ({"num_workers": 1.5}, TypeError, "num_workers is 1.5"),
        ({"batch_size": "64"}, ValueError, "'64'"),
        ({"batch_size": None}, ValueError, "'auto'"),
        ({"batch_size": 0}, ValueError, "at least 1"),
        ({"sample_timeout": -1}, ValueError, "sample_timeout is -1"),
        ({"device_buffers": 0}, ValueError, "device_buffers is 0"),
        ({"transform": ["rrc:32", "flip"]}, TypeError, "transform is .*, but must be text"),
        ({"transform": 5}, TypeError, "transform is 5"),
        ({"mean": 0.5}, TypeError, "mean is 0.5, but must be a sequence"),
        ({"std": "x"}, TypeError, "std is 'x'"),
        ({"mixup": "x"}, TypeError, "mixup is 'x', but must be a number"),
        ({"pad": float("nan")}, ValueError, "pad is nan, but must be finite"),
        ({"pad_to": 1.5}, TypeError, "pad_to is 1.5"),
        ({"sample_timeout": None}, TypeError, "sample_timeout is None"),
        ({"sample_timeout": float("inf")}, ValueError, "sample_timeout is inf"),
        ({"cpu_share": None}, TypeError, "cpu_share is None"),
        ({"drop_last": "no"}, TypeError, "drop_last is 'no', but must be True or False"),
        ({"shuffle": "no"}, TypeError, "shuffle is 'no', but must be True or False"),
        ({"pin_memory": 1}, TypeError, "pin_memory is 1"),
        ({"rank": 2, "world_size": 2}, ValueError, "rank is 2, but must be at most 1"),
        ({"rank": "0", "world_size": 2}, TypeError, "rank is '0'"),
        ({"rank": 0, "world_size": 0}, ValueError, "world_size is 0"),
        ({"targets": 5}, TypeError, "targets is 5"),
        ({"names": 5}, TypeError, "names is 5"),
        ({"device": []}, ValueError, "device is an empty list"),
    ],
)
def test_arguments_that_cannot_be(array, arguments, kind, words):
    with pytest.raises(kind, match=words):
        pinion.DataLoader(array, **arguments)


@pytest.mark.parametrize("source", [[1, 2, 3], np.zeros((4, 4)), None, 7])
def test_sources_that_are_no_path(source):
    with pytest.raises(TypeError, match="pinion.Collate"):
        pinion.DataLoader(source, 2)


@pytest.mark.parametrize("names", [(), ("x",), ("x", "y", "z")])
def test_names_that_do_not_fit(photos, names):
    with load(photos, 8, names=names) as loader, pytest.raises(ValueError, match="a batch has 2 arrays"):
        next(iter(loader))


def test_paths_that_cannot_be():
    with pytest.raises(ValueError, match="null character"):
        pinion.DataLoader("a\0b")
    with pytest.raises(ValueError, match="null character"):
        pinion.DataLoader("a", targets=["a\0b"])
    with pytest.raises(ValueError, match="must be UTF-8"):
        pinion.DataLoader(os.fsdecode(b"a\xff"))


def test_numbers_of_numpy(photos):
    share = {"rank": np.int64(0), "world_size": np.int64(2), "drop_last": np.bool_(True), "seed": np.uint64(3), "num_workers": np.int32(2)}
    more = {"mixup": np.float32(0.2), "mean": np.full(3, 0.5, np.float32), "std": np.ones(3), "pad_to": np.int64(0), "cpu_share": np.float32(0)}
    with load(photos, np.int64(32), shuffle=True, **share, **more) as loader:
        assert len(loader) == 1 and len(next(iter(loader))[0]) == 32


def test_states_and_epochs_that_cannot_be(array):
    with load(array) as loader:
        for epoch, kind in ((-1, ValueError), (2**31, ValueError), (1.5, TypeError), ("x", TypeError)):
            with pytest.raises(kind, match="epoch is"):
                loader.set_epoch(epoch)
        for state in (None, [1]):
            with pytest.raises(TypeError, match="state_dict is a"):
                loader.load_state_dict(state)
        assert next(iter(loader))[0][0, 0] == 0


@pytest.mark.parametrize("device", ["cpu", "cpu:0", "host"])
def test_names_of_the_host(array, device):
    with load(array, device=device) as loader:
        assert len(next(iter(loader))[0]) == 64
