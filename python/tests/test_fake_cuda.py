"""CUDA without a GPU: the stand-in for the driver that the tests of device/cuda have, whose device memory is ordinary
memory. It has no kernels, which samples that stay as they are do not need."""

import os
import shutil
import subprocess

import pytest

pytest.importorskip("numpy")
SOURCE = os.path.join(os.path.dirname(__file__), "../../device/cuda/testdata/fakecuda/fakecuda.c")

START = """
import ctypes, gc, os, sys
import numpy as np, pinion
ARRAY = sys.argv[1]
driver = ctypes.CDLL(os.environ["PINION_LIB_CUDA"])
def load(device="cuda:0", batch=1024): return pinion.DataLoader(ARRAY, batch, device=device, output="dlpack")
def look(a): return np.ctypeslib.as_array(ctypes.cast(a._array.data, ctypes.POINTER(ctypes.c_float)), a.shape)
"""


@pytest.fixture(scope="session")
def driver(tmp_path_factory):
    if not os.path.exists(SOURCE) or not shutil.which("cc"):
        pytest.skip("needs the sources of the repository and a C compiler")
    folder = tmp_path_factory.mktemp("driver")

    def build(*flags):
        path = str(folder / "-".join(("libfakecuda", *flags, ".so")))
        if not os.path.exists(path):
            subprocess.run(["cc", "-shared", "-fPIC", "-pthread", *flags, "-o", path, SOURCE], check=True)
        return path

    return build


@pytest.fixture
def run(child, driver, array):
    import textwrap

    def run(body, *flags, **env):
        env = {"PINION_LIB_CUDA": driver(*flags), "PINION_LIB_NVML": "off", "FAKECUDA_DEVICES": "2", **env}
        return child(START + textwrap.dedent(body), array, env=env)

    return run


def test_batches(run):
    run("""
        with load() as loader:
            for epoch in range(3):
                for i, (a,) in enumerate(loader):
                    assert a.__dlpack_device__() == (2, 0) and look(a)[0, 0] == 4096 * i
                assert i == 63
            assert loader.stats()["device_buffers"] == 4
            kept = list(loader)
        assert all(look(a)[0, 0] == 4096 * i for i, (a,) in enumerate(kept))
        del a, kept; gc.collect()
        assert pinion._lib.load().pinion_holds() == 0
    """)


def test_the_loop_waits_for_no_device(run):
    run(
        """
        loader = load()
        for epoch in range(3): assert sum(1 for _ in loader) == 64
        assert loader.stats()["device_buffers"] == 4  # all came back
        os._exit(0)
        """,
        FAKECUDA_FAIL="cuCtxSynchronize=999",
    )


def test_the_context_of_the_callers_thread_stays(run):
    """PyTorch's current device is the context of the thread."""
    run("""
        driver.cuInit(0)
        first, now = ctypes.c_void_p(), ctypes.c_void_p()
        assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(first), 0) == 0 and driver.cuCtxSetCurrent(first) == 0
        def check(): assert driver.cuCtxGetCurrent(ctypes.byref(now)) == 0 and now.value == first.value
        loader = load(["cuda:1"]); it = iter(loader); check()
        for (a,) in it: check()
        kept = next(iter(loader)); check()
        loader.close(); check()
        del kept, a; gc.collect(); check()
    """)


def test_the_mode_of_the_callers_thread_beside_captures_stays(run):
    run("""
        THREAD_LOCAL = 1
        def exchange(mode):
            word = ctypes.c_int(mode)
            assert driver.cuThreadExchangeStreamCaptureMode(ctypes.byref(word)) == 0
            return word.value
        exchange(THREAD_LOCAL)
        with load() as loader:
            for (a,) in loader: assert exchange(THREAD_LOCAL) == THREAD_LOCAL
    """)


def test_nothing_is_recorded_while_a_graph_is_captured(run):
    """The event behind all streams would end the capture. Batches wait until it is over."""
    run("""
        loader = load(); capturing = True
        len(loader); loader._stream = lambda: (-1, capturing)
        it = iter(loader)
        for _ in range(12): next(it)
        buffers = loader.stats()["device_buffers"]
        assert buffers >= 11
        capturing = False
        assert sum(1 for _ in it) == 64 - 12
        assert loader.stats()["device_buffers"] == buffers
    """)


def test_while_another_thread_captures(run):
    """In PyTorch's mode of capture the driver refuses whatever may wait, unless the thread says that it may."""
    run(
        """
        context = ctypes.c_void_p()
        assert driver.cuInit(0) == 0 and driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
        assert driver.cuCtxSetCurrent(context) == 0 and driver.cuMemAlloc_v2(ctypes.byref(ctypes.c_uint64()), 4096) == 900
        with load() as loader:
            for _ in range(2): assert sum(1 for _ in loader) == 64
        from pinion import _lib, _ring
        lib, ring = _lib.load(), _ring.Ring.create(8 << 20)
        handle, address = ctypes.c_uint64(), ctypes.c_uint64()
        _lib.check(lib.pinion_collate_open(ring.fd, ctypes.byref(handle), ctypes.byref(address)))
        _lib.check(lib.pinion_collate_use(handle, b"cuda:0"))
        slot, hold = ring.claim(1 << 20), (ctypes.c_void_p * 2)()
        _lib.check(lib.pinion_collate_lend(handle, slot.start - _ring.DATA, slot.size, slot.state - _ring.DATA, hold))
        _lib.check(lib.pinion_collate_settle(handle))
        where = b"cuda:0"
        memory = ctypes.c_uint64(), ctypes.c_uint64(), ctypes.c_int32()
        _lib.check(lib.pinion_pinned_alloc(where, len(where), 1 << 20, *map(ctypes.byref, memory)))
        _lib.check(lib.pinion_pinned_free(memory[0]))
        mode = ctypes.c_int(0)
        assert driver.cuThreadExchangeStreamCaptureMode(ctypes.byref(mode)) == 0 and mode.value == 0, "the thread's own mode"
        os._exit(0)
        """,
        FAKECUDA_CAPTURING="1",
    )


def test_a_driver_that_cannot_record_behind_all_streams(run):
    run(
        """
        loader = load(); len(loader)
        context, stream = ctypes.c_void_p(), ctypes.c_void_p()
        assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and driver.cuCtxSetCurrent(context) == 0
        assert driver.cuStreamCreate(ctypes.byref(stream), 1) == 0
        loader._stream = lambda: (stream.value, False)
        for _ in range(3): assert sum(1 for _ in loader) == 64
        assert loader.stats()["device_buffers"] == 4
        os._exit(0)
        """,
        "-DFAKECUDA_WITHOUT_RECORD_ALL",
        FAKECUDA_FAIL="cuCtxSynchronize=999",
    )


# Memory that comes from PyTorch: the driver's by a call that the loader does not make, in a tensor whose end is written down.
BORROW = """
from pinion import _borrow, _dlpack
torch = type(sys)("torch"); torch.cuda = type(sys)("torch.cuda"); torch.cuda.is_available = lambda: False
sys.modules["torch"] = torch  # it is only asked whether it is there
live, gone = {}, []
class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_uint64), ("kind", ctypes.c_int32), ("id", ctypes.c_int32), ("ndim", ctypes.c_int32), ("dtype", ctypes.c_uint32),
                ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p), ("offset", ctypes.c_uint64), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]
@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def deleter(at):
    t = live.pop(at)
    assert driver.cuMemFree_v2(ctypes.c_uint64(t.data)) == 0
    gone.append(at)
new = ctypes.pythonapi.PyCapsule_New
new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
def empty(n, kind, device):
    context, t = ctypes.c_void_p(), Tensor(kind=kind, id=device, deleter=ctypes.cast(deleter, ctypes.c_void_p).value)
    assert kind == 2 and driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0 and driver.cuCtxSetCurrent(context) == 0
    assert driver.cuMemAlloc_v2(ctypes.byref(t, Tensor.data.offset), ctypes.c_size_t(n)) == 0
    live[ctypes.addressof(t)] = t
    return new(ctypes.addressof(t), b"dltensor", None)
_borrow._empty = empty
def load(device="cuda:0", batch=1024): return pinion.DataLoader(ARRAY, batch, device=device, output="dlpack", allocator="torch")
pinion.DataLoader._devices = lambda self, form: [d for d in (self._device if isinstance(self._device, list) else [self._device])]
"""


def test_memory_of_pytorchs(run):
    run(
        BORROW
        + """
with load() as loader:
    for epoch in range(3):
        for i, (a,) in enumerate(loader):
            assert a.__dlpack_device__() == (2, 0) and look(a)[0, 0] == 4096 * i
    assert loader.stats()["device_buffers"] == len(live) == 4
    kept = list(loader)
    assert len(live) == 64 + 1  # a is one of them
assert len(live) == 65 and all(look(a)[0, 0] == 4096 * i for i, (a,) in enumerate(kept))
del a, kept; gc.collect()
assert not live and len(gone) == 65
"""
    )


def test_memory_of_pytorchs_on_several_devices(run):
    run(
        BORROW
        + """
with load(["cuda:0", "cuda:1"]) as loader:
    for _ in range(2): assert [a.__dlpack_device__() for (a,) in loader] == [(2, 0), (2, 1)] * 32
    assert [t.id for t in live.values()] == [0] * 4 + [1] * 4
assert not live
"""
    )


def test_memory_of_pytorchs_while_a_graph_is_captured(run):
    """What PyTorch allocates then would be the graph's, so the driver is asked instead."""
    run(
        BORROW
        + """
capturing = False
_borrow._capturing = lambda: capturing
with load() as loader:
    it = iter(loader)
    kept = [next(it) for _ in range(3)]
    capturing = True
    kept += [next(it) for _ in range(20)]
    capturing = False
    assert len(live) == 4 and loader.stats()["device_buffers"] >= 23
    assert all(look(a)[0, 0] == 4096 * i for i, (a,) in enumerate(kept))
    kept += list(it)
    assert len(kept) == 64 and len(live) >= 4 + 64 - 24
del kept; gc.collect()
assert not live
"""
    )


def test_several_devices(run):
    run("""
        with load(["cuda:0", "cuda:1"]) as loader:
            for _ in range(2): assert [a.__dlpack_device__() for (a,) in loader] == [(2, 0), (2, 1)] * 32
    """)


def test_exit_with_everything_alive(run):
    run("loader = load(); it = iter(loader); a = next(it); b = load(); c = next(iter(b))")


def test_out_of_memory(run):
    assert "out of device memory" in run(
        """
        try: next(iter(load(batch=65536)))
        except MemoryError as e: print(e)
        """,
        FAKECUDA_MEMORY=str(1 << 20),
    )


def test_a_gpu_that_torch_has_not(run):
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("this torch has a GPU")
    out = run("""
        with pinion.DataLoader(ARRAY, 64, output="torch") as loader: assert next(iter(loader))[0].device.type == "cpu"
        try: next(iter(pinion.DataLoader(ARRAY, 64, output="torch", device="cuda:0")))
        except pinion.UnavailableError as e: print(e)
        with pinion.DataLoader(ARRAY, 64, output="dlpack") as loader: assert next(iter(loader))[0].__dlpack_device__() == (2, 0)
    """)
    assert "this PyTorch has no GPU" in out


def test_a_gpu_that_is_not_there(run):
    assert "cuda:7" in run("""
        try: next(iter(load("cuda:7")))
        except pinion.UnavailableError as e: print(e)
    """)
