"""What only a GPU shows. Left out where torch has none."""

import gc

import pytest

import pinion

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.gpu


def load(source, batch_size=32, **arguments):
    arguments.setdefault("device", "cuda:0")
    return pinion.DataLoader(source, batch_size, output="torch", **arguments)


def test_batches_are_those_of_the_host(photos):
    with load(photos, transform="rrc:64,flip", shuffle=True) as gpu, load(photos, transform="rrc:64,flip", shuffle=True, device="cpu") as host:
        for (x, y), (a, b) in zip(gpu, host):
            assert x.device == y.device == torch.device("cuda:0") and y.dtype == torch.int64
            assert torch.equal(x.cpu(), a) and torch.equal(y.cpu(), b)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.uint8])
def test_types(photos, dtype):
    with load(photos, dtype=dtype) as loader:
        assert next(iter(loader))[0].dtype == dtype


def test_names_of_devices(photos):
    torch.cuda.set_device(0)
    for device in ("cuda", 0, torch.device("cuda", 0), torch.device("cuda")):
        with load(photos, device=device) as loader:
            assert next(iter(loader))[0].device == torch.device("cuda:0")
    with pytest.raises(pinion.UnavailableError):
        len(load(photos, device="cuda:99"))


@pytest.mark.parametrize("own", [False, True])
def test_a_batch_that_is_dropped_under_its_work_stays_whole(array, own):
    """The work is on a stream of torch's, or on one of the test's own, which nobody tells the loader of."""
    with load(array, 8192) as loader:
        it = iter(loader)
        (x,) = next(it)
        want = float(x.double().sum())
        stream = torch.cuda.Stream() if own else torch.cuda.current_stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            torch.cuda._sleep(1 << 30)
            late = x.double().sum()
        del x
        gc.collect()
        for _ in range(7):
            next(it)
        stream.synchronize()
        assert float(late) == want


def test_memory_comes_back(array):
    with load(array, 1024) as loader:
        for _ in range(50):
            for (x,) in loader:
                x.mul_(2)
        assert loader.stats()["device_buffers"] == 4
    del x
    gc.collect()


def test_tensors_outlive_the_loader(array):
    loader = load(array, 1024)
    (x,) = next(iter(loader))
    loader.close()
    assert float(x[1, 0]) == 4
    x.fill_(1)
    assert float(x.sum()) == 4096


def test_list_keeps_everything(array):
    with load(array, 1024) as loader:
        batches = list(loader)
    assert len({x.data_ptr() for (x,) in batches}) == 64
    assert all(float(x[0, 0]) == 4096 * i for i, (x,) in enumerate(batches))


@pytest.mark.parametrize("mode", ["thread_local", "relaxed", "global"])
def test_a_graph_is_captured_while_the_loader_runs(photos, mode):
    """Batches die inside the capture, and the loader's threads work beside it. In mode "global" CUDA refuses calls that
    wait, of any thread: what it says of the loader's is what this test is for."""
    with load(photos, 8, num_workers=2) as loader:
        it = iter(loader)
        x, _ = next(it)
        still = torch.zeros_like(x)
        torch.cuda.synchronize()
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            (still * 2).sum()  # warm up
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        kept = [next(it)[0] for _ in range(3)]
        with torch.cuda.graph(graph, capture_error_mode=mode):
            out = (still * 2).sum()
            kept.clear()  # dropped inside of the capture
        for _ in range(5):
            x, _ = next(it)
            still.copy_(x)
            graph.replay()
            assert torch.allclose(out, x.sum() * 2, rtol=1e-3)


def test_out_of_memory_is_torchs(photos):
    kind = getattr(torch, "OutOfMemoryError", torch.cuda.OutOfMemoryError)
    with pytest.raises(kind, match="96"):
        next(iter(load(photos, 96, device_budget=1 << 20)))


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_several_gpus(array):
    torch.cuda.set_device(0)
    with load(array, 1024, device=["cuda:0", "cuda:1"]) as loader:
        devices = [x.device.index for (x,) in loader]
        assert devices == [0, 1] * 32
        assert torch.cuda.current_device() == 0
        assert torch.zeros(1, device="cuda").device.index == 0


def test_exit_with_everything_alive(child, photos):
    child(
        """
        import sys, torch, pinion
        loader = pinion.DataLoader(sys.argv[1], 8, device="cuda:0"); it = iter(loader); x, y = next(it); z = x * 2
        """,
        photos,
    )


def test_workers_of_torch_beside_it(child, photos):
    child(
        """
        import sys, torch, pinion
        from torch.utils.data import DataLoader, TensorDataset
        loader = pinion.DataLoader(sys.argv[1], 8, device="cuda:0"); it = iter(loader); next(it)
        for _ in range(2):
            assert sum(float(b[0].sum()) for b in DataLoader(TensorDataset(torch.arange(512.)), 32, num_workers=2, pin_memory=True)) == 511 * 256
            next(it)
        """,
        photos,
    )
