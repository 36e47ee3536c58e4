"""What only a GPU shows. Left out where torch has none."""

import gc

import pytest

import pinion

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")
pytestmark = pytest.mark.gpu


def load(source, batch_size=32, **arguments):
    arguments.setdefault("device", "cuda:0")
    return pinion.DataLoader(source, batch_size, output="torch", **arguments)


def test_memory_of_pytorchs_allocator(array):
    """What it holds grows by the batches and shrinks again; work that is queued on them still finds them whole."""
    before = torch.cuda.memory_allocated()
    loader = load(array, 8192, allocator="torch")
    it = iter(loader)
    (x,) = next(it)
    size, each = loader.stats()["device_bytes"], loader.stats()["device_bytes"] // loader.stats()["device_buffers"]
    assert size <= torch.cuda.memory_allocated() - before <= size + 8 * 512
    want = float(x.double().sum())
    torch.cuda._sleep(1 << 28)
    late = x.double().sum()
    del x
    for _ in range(6):
        (y,) = next(it)
    assert float(late) == want
    del late
    loader.close()
    assert each <= torch.cuda.memory_allocated() - before <= each + 512  # y's
    torch.cuda._sleep(1 << 28)
    late = y.double().sum()
    want = float(np.load(array).reshape(-1)[6 * 8192 * 4 : 7 * 8192 * 4].astype("float64").sum())
    del y
    others = [torch.full((each,), 255, dtype=torch.uint8, device="cuda") for _ in range(8)]
    assert float(late) == want
    del late, others
    assert torch.cuda.memory_allocated() == before


def test_memory_of_pytorchs_allocator_is_never_shared(array):
    """Blocks that the program frees under its queued work are not the loader's before that work is done."""
    with load(array, 4096, allocator="torch") as loader:
        for _ in range(3):
            junk = [torch.empty(1 << 20, dtype=torch.uint8, device="cuda") for _ in range(8)]
            torch.cuda._sleep(1 << 26)
            for j in junk:
                j.fill_(7)
            del junk, j
            batches = list(loader)  # grows
            assert all(float(x[0, 0]) == 16384 * i and float(x[-1, -1]) == 16384 * (i + 1) - 1 for i, (x,) in enumerate(batches))
            del batches
            loader.set_epoch(0)


def test_out_of_memory_of_pytorchs_allocator(photos):
    kind = getattr(torch, "OutOfMemoryError", torch.cuda.OutOfMemoryError)
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(1e-9)
    try:
        with pytest.raises(kind, match="PyTorch has no") as caught:
            next(iter(load(photos, 96, allocator="torch")))
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert isinstance(caught.value.__cause__, kind)
    with load(photos, 96, allocator="torch") as loader:
        assert next(iter(loader))[0].shape[0] == 96


@pytest.mark.parametrize("mode", ["thread_local", "global"])
def test_memory_of_pytorchs_allocator_while_a_graph_is_captured(array, mode):
    with load(array, 1024, allocator="torch") as loader:
        it = iter(loader)
        still = next(it)[0].clone()
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        held = torch.cuda.memory_allocated()
        with torch.cuda.graph(graph, capture_error_mode=mode):
            kept = [next(it)[0] for _ in range(8)]  # more than there are: it grows
            out = still * 2
        assert torch.cuda.memory_allocated() - held < 1 << 20
        still.copy_(kept[7])
        graph.replay()
        assert torch.equal(out, kept[7] * 2) and float(kept[7][0, 0]) == 4096 * 8
        assert sum(1 for _ in it) == 64 - 9


def test_memory_of_pytorchs_allocator_for_the_decoder(tmp_path):
    """Pictures that are decoded on the GPU take memory of their own, more where they are large."""
    io = pytest.importorskip("torchvision.io")
    (tmp_path / "one").mkdir()
    for i in range(64):
        side = 64 if i < 32 else 512
        io.write_jpeg(torch.randint(0, 256, (3, side, side), dtype=torch.uint8), str(tmp_path / "one" / f"{i:02d}.jpg"))
    arguments = dict(transform="stretch:64x64", decode="gpu", seed=1)
    before = torch.cuda.memory_allocated()
    with load(tmp_path, 16, allocator="torch", **arguments) as loader, load(tmp_path, 16, **arguments) as other:
        assert all(torch.equal(x, y) for (x, _), (y, _) in zip(loader, other))
    assert torch.cuda.memory_allocated() == before


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


def test_workers_of_torch_beside_it(photos):
    with load(photos, 8) as loader:
        it = iter(loader)
        next(it)
        for _ in range(2):
            other = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.arange(512.0)), 32, num_workers=2, pin_memory=True)
            assert sum(float(b[0].sum()) for b in other) == 511 * 256
            next(it)


def test_exit_with_everything_alive(child, photos):
    child(
        """
        import sys, torch, pinion
        for allocator in None, "torch":
            loader = pinion.DataLoader(sys.argv[1], 8, device="cuda:0", allocator=allocator); it = iter(loader); x, y = next(it); z = x * 2
            keep = globals().setdefault("keep", []); keep += loader, it, x, y, z
        closed = pinion.DataLoader(sys.argv[1], 8, device="cuda:0", allocator="torch")
        last = next(iter(closed)); closed.close()
        """,
        photos,
    )
