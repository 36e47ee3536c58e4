"""Arrays for other libraries."""

import ctypes

import pytest

import pinion

np = pytest.importorskip("numpy")


@pytest.fixture
def batch(photos):
    with pinion.DataLoader(photos, 4, device="host", output="dlpack", transform="center:8") as loader:
        yield next(iter(loader))


def name(capsule):
    get = ctypes.pythonapi.PyCapsule_GetName
    get.restype, get.argtypes = ctypes.c_char_p, [ctypes.py_object]
    return get(capsule)


def pointer(capsule):
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return get(capsule, name(capsule))


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64),
    ]  # fmt: skip


class Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64), ("tensor", Tensor),
    ]  # fmt: skip


def test_versions(batch):
    samples = batch[0]
    assert name(samples.__dlpack__()) == b"dltensor"
    assert name(samples.__dlpack__(max_version=(0, 8))) == b"dltensor"
    capsule = samples.__dlpack__(max_version=(1, 1), stream=None)
    assert name(capsule) == b"dltensor_versioned"
    v = Versioned.from_address(pointer(capsule))
    assert (v.major, v.minor, v.flags) == (1, 0, 0)  # not read-only
    t = v.tensor
    assert (t.device_type, t.ndim, t.code, t.bits, t.lanes, t.byte_offset) == (1, 4, 2, 32, 1, 0)
    assert t.shape[:4] == [4, 3, 8, 8] and t.strides[:4] == [192, 64, 8, 1]
    assert t.data == samples.numpy().ctypes.data


def test_requests(batch):
    samples = batch[0]
    assert samples.__dlpack_device__() == (1, 0)
    assert name(samples.__dlpack__(dl_device=(1, 0), copy=False)) == b"dltensor"
    for refused in ({"dl_device": (2, 0)}, {"copy": True}):
        with pytest.raises(BufferError):
            samples.__dlpack__(**refused)


def test_numpy(batch):
    samples, labels = batch
    a = np.from_dlpack(samples)
    b = samples.numpy()
    assert b.flags.writeable and np.shares_memory(a, b) and labels.numpy().dtype == np.int32
    b[:] = 3
    assert a.min() == a.max() == 3


def test_torch(batch):
    torch = pytest.importorskip("torch")
    samples = batch[0]
    t = torch.from_dlpack(samples)
    t.fill_(2)
    assert samples.numpy().max() == 2 and samples.torch().data_ptr() == t.data_ptr()


@pytest.mark.parametrize("dtype, torchs", [("f16", "float16"), ("bf16", "bfloat16"), ("u8", "uint8"), ("f32", "float32")])
def test_types(photos, dtype, torchs):
    torch = pytest.importorskip("torch")
    for given in (dtype, torchs, getattr(torch, torchs)):
        with pinion.DataLoader(photos, 4, device="host", output="torch", dtype=given, transform="center:8") as loader:
            x, _ = next(iter(loader))
        assert x.dtype == getattr(torch, torchs) and x.float().std() > 0


def test_numpy_has_no_bfloat16(photos):
    with pinion.DataLoader(photos, 4, device="host", output="numpy", dtype="bf16") as loader, pytest.raises(TypeError, match="bfloat16"):
        next(iter(loader))


def test_uint16(tmp_path):
    torch = pytest.importorskip("torch")
    np.save(tmp_path / "x.npy", np.full((4, 3), 65535, np.uint16))
    with pinion.DataLoader(tmp_path / "x.npy", 4, device="host", output="torch") as loader:
        if hasattr(torch, "uint16"):
            assert int(next(iter(loader))[0].long().max()) == 65535
        else:
            with pytest.raises(pinion.UnsupportedError, match="no uint16"):
                next(iter(loader))


def test_text(batch):
    assert repr(batch[0]) == "<pinion.Array (4, 3, 8, 8) f4 on (1, 0)>"
    assert len(batch[0]) == 4
