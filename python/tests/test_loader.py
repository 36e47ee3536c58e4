"""What DataLoader gives."""

import json

import pytest

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
    for use in (lambda: next(it), lambda: iter(loader), lambda: len(loader)):
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
