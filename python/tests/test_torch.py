"""pinion.torch: pinned memory and copies."""

import ctypes
import gc

import pytest

torch = pytest.importorskip("torch")
numpy = pytest.importorskip("numpy")

import pinion  # noqa: E402
import pinion.torch  # noqa: E402
from pinion import _lib  # noqa: E402
from pinion.torch import _copy, _memory  # noqa: E402


def active():
    gc.collect()
    return pinion.torch.pinned_stats()["active_bytes"]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.bool, torch.int64, torch.float16, torch.bfloat16, torch.complex64])
def test_empty(dtype):
    x = pinion.torch.empty(3, 5, 7, dtype=dtype, pin_memory=True)
    assert x.shape == (3, 5, 7) and x.dtype == dtype and x.is_contiguous() and not x.requires_grad
    x.fill_(1)
    assert (x == 1).all()


def test_empty_of_exact_size():
    before = active()
    x = pinion.torch.empty(129_500_000, dtype=torch.uint8)
    assert active() - before == -(-129_500_000 // 4096) * 4096
    del x
    assert active() == before


def test_empty_of_any_shape():
    assert pinion.torch.empty((2, 3)).shape == (2, 3) and pinion.torch.empty([4]).shape == (4,)
    assert pinion.torch.empty(()).shape == () and pinion.torch.empty(0, 3).shape == (0, 3)
    assert pinion.torch.empty(torch.Size([2])).dtype == torch.get_default_dtype()
    assert pinion.torch.empty(2, requires_grad=True).requires_grad
    np = pytest.importorskip("numpy")
    assert pinion.torch.empty(np.int64(3)).shape == (3,) and pinion.torch.empty(np.array([2, 3])).shape == (2, 3)
    with pytest.raises(RuntimeError, match="negative dimension -1"):
        pinion.torch.empty(2, -1)
    with pytest.raises(ValueError, match="meta"):
        pinion.torch.empty(2, device="meta")


def test_views_keep_the_memory():
    before = active()
    x = pinion.torch.empty(1 << 20, dtype=torch.uint8).fill_(7)
    view = x[1000:2000].view(torch.int32).numpy()
    del x
    gc.collect()
    assert active() > before and (view == 0x07070707).all()
    del view
    assert active() == before


def test_memory_that_is_too_much():
    with pytest.raises(MemoryError):
        pinion.torch.empty(1 << 50, dtype=torch.uint8)


def test_many_tensors_in_threads():
    import threading

    before = active()

    def work():
        for i in range(50):
            x = pinion.torch.empty(1000 + i, dtype=torch.int32).fill_(i)
            assert int(x.sum()) == i * (1000 + i)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert active() == before


def registered():
    gc.collect()
    return pinion.torch.pinned_stats()["registered_bytes"]


LARGE = (32 << 20) + 1000  # bytes that malloc maps by themselves


def test_pin_in_place():
    before = registered()
    x = torch.arange(LARGE // 4, dtype=torch.int32)
    address = x.data_ptr()
    assert pinion.torch.pin_(x) is x and x.data_ptr() == address
    pinned = registered()
    assert pinned - before >= LARGE
    view = x[5:10]
    assert pinion.torch.pin_(view) is view and registered() == pinned
    del x
    assert registered() == pinned and view.tolist() == [5, 6, 7, 8, 9]
    del view
    assert registered() == before


def test_pin_of_parameters_that_autograd_keeps():
    before = registered()
    w = torch.nn.Parameter(torch.ones(LARGE // 4))
    pinion.torch.pin_(w)
    loss = (w * 2).sum()
    keeper = [w]
    del w
    assert registered() > before
    loss.backward()
    assert keeper[0].grad is not None
    del loss, keeper
    assert registered() == before


def test_pin_of_pages_that_others_have():
    """What shares a page with pinned memory could not be copied any more: CUDA refuses what is pinned in part."""
    before = registered()
    for x in (torch.ones(10), torch.from_numpy(numpy.ones(LARGE, numpy.uint8)[5000:]), torch.ones(LARGE // 4)[:0].new_ones(3000)):
        with pytest.raises(ValueError, match="other memory shares a page"):
            pinion.torch.pin_(x)
    assert registered() == before


def test_pin_of_whole_pages():
    import mmap
    import tempfile

    before = registered()
    page = mmap.PAGESIZE
    with mmap.mmap(-1, 4 * page) as memory:
        x = torch.frombuffer(memory, dtype=torch.uint8, offset=page, count=2 * page)
        pinion.torch.pin_(x)
        assert registered() == before + 2 * page
        del x
        assert registered() == before
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as f:  # pages of files on a disk cannot be pinned for a GPU
        f.truncate(3 * page + 10)
        x = torch.from_numpy(numpy.memmap(f.name, numpy.uint8, "r+"))
        pinion.torch.pin_(x)
        assert registered() == before + 4 * page
        del x
    x = torch.ones(5000).share_memory_()
    pinion.torch.pin_(x)
    assert registered() == before + 20480
    del x
    assert registered() == before


def test_pin_of_what_cannot_be_pinned():
    with pytest.raises(TypeError):
        pinion.torch.pin_([1, 2])
    with pytest.raises(RuntimeError, match="only dense CPU tensors"):
        pinion.torch.pin_(torch.eye(3).to_sparse())
    with pytest.raises(RuntimeError, match="only dense CPU tensors"):
        pinion.torch.pin_(torch.empty(3, device="meta"))
    assert pinion.torch.pin_(torch.empty(0)).numel() == 0


def test_free_waits_for_the_end_of_a_capture(monkeypatch):
    before = active()
    x = pinion.torch.empty(1 << 20, dtype=torch.uint8)
    monkeypatch.setattr(_memory, "_capturing", lambda: True)
    del x
    assert active() > before
    monkeypatch.undo()
    assert active() == before


@pytest.fixture
def staged(monkeypatch):
    """The way of staged copies on the host, with the copies counted."""
    calls = []

    def run(where, host, device, nbytes, to_host, stream):
        calls.append((where, nbytes, to_host, stream))
        ctypes.memmove(host if to_host else device, device if to_host else host, nbytes)

    monkeypatch.setattr(_copy, "_run", run)
    return calls


def inputs():
    base = torch.arange(4 * 6 * 10, dtype=torch.float32).view(4, 6, 10)
    yield base
    yield base.permute(2, 0, 1)
    yield base[:, 1:3]
    yield base[:, :, ::3]
    yield base[0, 0].expand(5, 10)
    yield base[0, 0, 0]
    yield base.to(torch.complex64).conj()
    yield base.view(1, 4, 6, 10).contiguous(memory_format=torch.channels_last)
    yield base[:0]


def test_bytes_of_staged_copies(staged):
    for x in inputs():
        if x.numel():
            up = _copy._up(x, torch.device("cpu"))
            want = x.to("cpu", copy=True)
            assert torch.equal(up, want.resolve_conj()) and up.data_ptr() != x.data_ptr()
            if _copy._dense(x):
                assert up.stride() == want.stride()
            source = _copy._plain(x)
            out = torch.empty_strided(source.shape, source.stride(), dtype=source.dtype)
            version = out._version
            assert torch.equal(_copy._down(source, out), want.resolve_conj())
            assert out._version > version or not out.dim()
    assert staged


def test_copies_of_the_host():
    for x in inputs():
        for made in (pinion.torch.to_device(x, "cpu"), pinion.torch.to_host(x)):
            assert torch.equal(made, x) and (made.data_ptr() != x.data_ptr() or not x.numel())
    a = numpy.arange(12, dtype=numpy.int16).reshape(3, 4)
    assert pinion.torch.to_device(a, "cpu").tolist() == a.tolist()
    assert pinion.torch.to_device([1.5, 2.5], torch.device("cpu")).tolist() == [1.5, 2.5]


def test_out():
    x = torch.rand(4, 5)
    out = torch.empty(4, 5)
    assert pinion.torch.to_host(x, out) is out and torch.equal(out, x)
    wide = torch.empty(4, 5, dtype=torch.float64)
    assert torch.equal(pinion.torch.to_host(x, out=wide), x.double())
    strided = torch.empty(5, 4).t()
    assert torch.equal(pinion.torch.to_host(x, out=strided), x)
    with pytest.raises(RuntimeError):
        pinion.torch.to_host(x, out=torch.empty(3, 5))
    with pytest.raises(ValueError, match="must be on the CPU"):
        pinion.torch.to_host(x, out=torch.empty(4, 5, device="meta"))


def test_gradients_flow(staged):
    x = torch.rand(3, 4, requires_grad=True)
    (_copy._ToDevice.apply(x, torch.device("cpu")) * 3).sum().backward()
    assert torch.equal(x.grad, torch.full((3, 4), 3.0))
    y = torch.rand(3, requires_grad=True)
    assert pinion.torch.to_host(y).requires_grad and pinion.torch.to_device(y, "cpu").requires_grad
    out = torch.zeros(3)
    pinion.torch.to_host(y * 2, out).sum().backward()
    assert torch.equal(y.grad, torch.full((3,), 2.0))


def test_bad_devices():
    for device in ("meta", "nonsense"):
        with pytest.raises((ValueError, RuntimeError)):
            pinion.torch.to_device(torch.ones(2), device)
    with pytest.raises(TypeError):
        pinion.torch.to_host([1])
    if not torch.cuda.is_available():
        for use in (lambda d: pinion.torch.to_device(torch.ones(2), d), lambda d: pinion.torch.empty(2, device=d)):
            for device in ("cuda", "cuda:1"):
                with pytest.raises(pinion.UnavailableError, match=f"device is {device}, but this PyTorch has no GPU"):
                    use(device)


def test_errors_of_copies_arrive():
    x = torch.zeros(1 << 20)
    with pytest.raises(pinion.PinionError, match="not live device memory"):
        _copy._run(b"host", x.data_ptr(), 64, x.numel() * 4, False, -1)
    with pytest.raises(ValueError, match="no streams"):
        _copy._run(b"host", x.data_ptr(), 64, x.numel() * 4, False, 0)
    with pytest.raises(pinion.UnavailableError):
        _copy._run(b"nonsense", x.data_ptr(), 64, 4, False, -1)


def test_in_a_forked_child(child):
    child("""
        import os, torch, pinion.torch
        x = pinion.torch.empty(1000)
        w = pinion.torch.pin_(torch.ones(10 << 20))
        pid = os.fork()
        if pid == 0:
            del x, w
            try:
                pinion.torch.empty(1)
            except Exception as e:
                os._exit(0 if type(e).__name__ == "ForkedError" else 1)
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        x.fill_(1)
        """)


def test_exit_with_live_tensors(child):
    child("import torch, pinion.torch\nx = pinion.torch.empty(1000)\nw = pinion.torch.pin_(torch.ones(10 << 20))")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_memory_pool_without_a_gpu():
    with pytest.raises(pinion.UnsupportedError, match="needs a GPU"):
        pinion.torch.memory_pool()
    lib = _lib.load()
    assert lib.pinion_torch_malloc(4096, 0, None) is None
    lib.pinion_torch_free(None, 4096, 0, None)
    lib.pinion_torch_free(64, 4096, 0, None)  # not its own


@pytest.mark.gpu
@pytest.mark.skipif(not hasattr(torch.cuda, "MemPool"), reason="PyTorch is older than 2.5")
def test_memory_pool():
    pool = pinion.torch.memory_pool()
    with torch.cuda.use_mem_pool(pool):
        x = torch.arange(1 << 26, device="cuda")
        y = torch.ones(1000, device="cuda")
    assert int(x[-1]) == (1 << 26) - 1 and float(y.sum()) == 1000
    del x, y
    torch.cuda.empty_cache()
    del pool
    gc.collect()


@pytest.mark.gpu
def test_pinned_for_the_gpu():
    x = pinion.torch.empty(1 << 20, dtype=torch.int32)
    assert x.is_pinned() and x[10:].is_pinned()
    y = pinion.torch.pin_(torch.arange(LARGE))
    assert y.is_pinned() and torch.equal(y.cuda(non_blocking=True).cpu(), torch.arange(LARGE))
    x.copy_(torch.arange(1 << 20, device="cuda"), non_blocking=True)
    torch.cuda.synchronize()
    assert int(x[-1]) == (1 << 20) - 1


@pytest.mark.gpu
def test_copies_of_the_gpu():
    for n in (10, 1 << 20, (1 << 24) + 3):
        x = torch.randn(n)
        y = pinion.torch.to_device(x, "cuda")
        assert torch.equal(y, x.cuda())
        z = y * 2
        assert torch.equal(pinion.torch.to_host(z), x * 2)
        assert torch.equal(pinion.torch.to_host(z, out=torch.empty_like(x)), x * 2)
    big = torch.randn(2000, 3000)
    for x in (big.t(), big[:, 5:2000], big[:, ::2], big.to(torch.bfloat16)):
        assert torch.equal(pinion.torch.to_device(x, "cuda").cpu(), x)


@pytest.mark.gpu
def test_order_of_copies_on_the_gpu():
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        x = torch.zeros(1 << 24, device="cuda")
        torch.cuda._sleep(100_000_000)
        x.fill_(3)
        down = pinion.torch.to_host(x)
        up = pinion.torch.to_device(down + 1, "cuda")
        up.add_(1)
    stream.synchronize()
    assert (down == 3).all() and (up == 5).all()
