"""pinion.safetensors and pinion.torch.load."""

import json
import os
import struct

import pytest

torch = pytest.importorskip("torch")
numpy = pytest.importorskip("numpy")

import pinion.safetensors  # noqa: E402
import pinion.torch  # noqa: E402
from pinion.safetensors import load_file, safe_open, save_file  # noqa: E402


def write(path, tensors, metadata=None):
    """Writes a file as the format's documentation has it: {name: (dtype, shape, bytes)}."""
    header, at, data = {}, 0, b""
    if metadata is not None:
        header["__metadata__"] = metadata
    for name, (dtype, shape, raw) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(raw)]}
        at += len(raw)
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return str(path)


def some():
    r = torch.Generator().manual_seed(0)
    return {
        "weight": torch.randn(6, 5, 4, generator=r),
        "half": torch.randn(3, 7, generator=r).to(torch.bfloat16),
        "f16": torch.randn(9, generator=r).half(),
        "f64": torch.randn(2, 2, generator=r).double(),
        "ids": torch.arange(11),
        "i8": torch.arange(-5, 5).to(torch.int8),
        "mask": torch.tensor([True, False, True]),
        "c": torch.view_as_complex(torch.randn(3, 2, generator=r)),
        "scalar": torch.tensor(2.5),
        "none": torch.empty(0, 4),
    }


def same(a, b):
    return a.keys() == b.keys() and all(a[k].dtype == b[k].dtype and a[k].shape == b[k].shape and torch.equal(a[k], b[k]) for k in a)


def test_there_and_back(tmp_path):
    path, want = tmp_path / "x.safetensors", some()
    save_file(want, path, metadata={"format": "pt", "ü": "ß"})
    assert same(load_file(path), want)
    with safe_open(str(path), framework="pt") as f:
        assert f.metadata() == {"format": "pt", "ü": "ß"}
        assert f.keys() == sorted(want) and set(f.offset_keys()) == set(want)
        assert all(torch.equal(f.get_tensor(k), want[k]) for k in want)
        assert all(f.get_slice(k).get_shape() == list(want[k].shape) for k in want)
        assert f.get_slice("half").get_dtype() == "BF16"


def test_order_of_the_reference(tmp_path):
    """Larger types first, then names: so that every tensor is aligned."""
    path = tmp_path / "x.safetensors"
    save_file({"b": torch.zeros(1), "a": torch.zeros(1), "z": torch.zeros(1, dtype=torch.int64), "m": torch.zeros(1, dtype=torch.bool)}, path)
    with safe_open(path) as f:
        assert f.offset_keys() == ["z", "a", "b", "m"] and f.metadata() is None
    raw = path.read_bytes()
    n = struct.unpack("<Q", raw[:8])[0]
    assert n % 8 == 0 and json.loads(raw[8 : 8 + n])["z"] == {"dtype": "I64", "shape": [1], "data_offsets": [0, 8]}


def test_files_of_others(tmp_path):
    path = write(tmp_path / "x.safetensors", {"a": ("I16", [2, 2], struct.pack("<4h", 1, -2, 3, -4)), "b": ("U8", [3], b"\1\2\3")})
    got = load_file(path)
    assert got["a"].tolist() == [[1, -2], [3, -4]] and got["b"].tolist() == [1, 2, 3]


def test_tensors_outlive_the_file(tmp_path):
    path = tmp_path / "x.safetensors"
    save_file(some(), path)
    with safe_open(path) as f:
        x = f.get_tensor("weight")
    path.unlink()
    x += 1
    assert torch.equal(x, some()["weight"] + 1)
    with pytest.raises(pinion.ClosedError):
        f.get_tensor("weight")
    f.close()


@pytest.mark.parametrize("framework", ["pt", "np"])
def test_slices(tmp_path, framework):
    path, x = tmp_path / "x.safetensors", torch.arange(6 * 5 * 4).view(6, 5, 4)
    save_file({"x": x}, path)
    indexes = [
        slice(None), slice(1, 4), slice(-2, None), slice(4, 1), slice(0, 6, 2), 3, -1, (2, slice(1, 3)), (2, 3), (2, 3, 1), (2, 3, slice(0, 2)),
        (slice(1, 3), slice(2, 4), 1), (slice(1, 3), slice(None), slice(None, None, 3)), ..., (..., 1), (1, ..., slice(1, 2)),
        (slice(None), -1), (slice(1, 100), slice(0, 0)),
    ]  # fmt: skip
    with safe_open(path, framework, "cpu") as f:
        part = f.get_slice("x")
        for index in indexes:
            got, want = part[index], x[index]
            assert tuple(got.shape) == tuple(want.shape) and got.tolist() == want.tolist(), index
        for index, error in ((6, IndexError), (-7, IndexError), ((0, 5), IndexError), ((0, 0, 0, 0), IndexError), ("a", TypeError), (numpy.array([0, 1]), TypeError),
                             ((..., ...), IndexError), (slice(None, None, -1), ValueError)):  # fmt: skip
            with pytest.raises(error):
                part[index]
        with pytest.raises(KeyError, match="does not contain tensor y"):
            f.get_slice("y")


def test_a_slice_reads_no_more(tmp_path, monkeypatch):
    path = tmp_path / "x.safetensors"
    save_file({"x": torch.zeros(1000, 10)}, path)
    with safe_open(path) as f:
        wants = []
        read = f._read
        monkeypatch.setattr(f, "_read", lambda w: (wants.extend(w), read(w)))
        f.get_slice("x")[10:20]
        f.get_slice("x")[7, 3:]
    assert wants[0]["range"] == [10, 20] and wants[1]["at"] == [7] and wants[1]["range"] == [3, 10]


def test_numpy(tmp_path):
    path = tmp_path / "x.safetensors"
    want = {"a": numpy.arange(6, dtype=numpy.uint16).reshape(2, 3), "b": numpy.array(3.5)}
    save_file(want, path)
    got = load_file(path, framework="np")
    assert all(numpy.array_equal(got[k], want[k]) and got[k].dtype == want[k].dtype and got[k].flags.writeable for k in want)
    save_file({"h": torch.zeros(2, dtype=torch.bfloat16)}, path)
    with pytest.raises(pinion.UnsupportedError, match="BF16"):
        load_file(path, framework="np")


def test_types_that_torch_lacks(tmp_path):
    path = write(tmp_path / "x.safetensors", {"a": ("F6_E2M3", [4], b"\0" * 3)})
    with pytest.raises(pinion.UnsupportedError, match="F6_E2M3"):
        load_file(path)


def test_what_cannot_be_saved(tmp_path):
    path, x = tmp_path / "x.safetensors", torch.zeros(3, 4)
    for tensors, error in (
        ({"a": x.t()}, ValueError), ({"a": x.to_sparse()}, ValueError), ({"a": [1]}, TypeError), ({1: x}, TypeError),
        ({"a": x, "b": x[1:]}, RuntimeError), ({"a": x.to(torch.complex128)}, ValueError), ({"__metadata__": x}, ValueError),
        ({"a": numpy.zeros((2, 3)).T}, ValueError), ({"a": numpy.zeros(2, ">f4")}, ValueError), ({"\udcff": x}, ValueError),
    ):  # fmt: skip
        with pytest.raises(error):
            save_file(tensors, path)
    with pytest.raises(TypeError):
        save_file({"a": x}, path, metadata={"n": 1})
    with pytest.raises(FileNotFoundError):
        save_file({"a": x}, tmp_path / "no" / "x.safetensors")
    for name in (b"x\xff.safetensors", b"x\0.safetensors"):
        with pytest.raises(ValueError, match="UTF-8|null character"):
            save_file({"a": x}, os.fsdecode(os.fsencode(tmp_path) + b"/" + name))
    assert not os.listdir(tmp_path)
    for read in (load_file, lambda name: safe_open(name, "np")):
        with pytest.raises(ValueError, match="null character"):
            read("x\0y.safetensors")
    save_file({"a": x}, os.fsencode(path))
    assert load_file(path)["a"].shape == (3, 4)


def test_bad_files(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_file(tmp_path / "no.safetensors")
    (tmp_path / "bad.safetensors").write_bytes(b"\xff" * 100)
    with pytest.raises(pinion.DataError):
        load_file(tmp_path / "bad.safetensors")
    path = write(tmp_path / "short.safetensors", {"a": ("F32", [4], b"\0" * 15)})
    with pytest.raises(pinion.DataError):
        load_file(path)
    save_file(some(), tmp_path / "x.safetensors")
    for arguments in ({"framework": "tf"}, {"framework": "np", "device": "cuda"}, {"device": "meta"}):
        with pytest.raises(ValueError):
            safe_open(tmp_path / "x.safetensors", **arguments)


class Net(torch.nn.Module):
    def __init__(self, dtype=torch.float32):
        super().__init__()
        self.a, self.b = torch.nn.Linear(4, 4, dtype=dtype), torch.nn.Linear(4, 4, bias=False, dtype=dtype)
        self.tied = torch.nn.Linear(4, 4, bias=False, dtype=dtype)
        self.tied.weight = self.b.weight
        self.register_buffer("steps", torch.zeros(()))


def file_of(net, path, drop=("tied.weight",)):
    save_file({k: v.detach().clone() for k, v in net.state_dict().items() if k not in drop}, path)
    return path


def test_load_model(tmp_path):
    source, net = Net(), Net()
    source.steps += 7
    path = file_of(source, tmp_path / "x.safetensors")
    address, version = net.a.weight.data_ptr(), net.a.weight._version
    assert pinion.torch.load(net, path) == ([], [])
    assert same(net.state_dict(), source.state_dict())
    assert net.a.weight.data_ptr() == address and net.a.weight._version > version and net.tied.weight is net.b.weight
    half = Net(torch.float64)
    pinion.torch.load(half, path)
    assert torch.equal(half.a.weight, source.a.weight.double()) and half.a.weight.requires_grad


def test_load_model_strictly(tmp_path):
    source, net = Net(), Net()
    before = {k: v.clone() for k, v in net.state_dict().items()}
    path = file_of(source, tmp_path / "x.safetensors", drop=("a.bias", "tied.weight"))
    with pytest.raises(RuntimeError, match='Missing key.*"a.bias"'):
        pinion.torch.load(net, path)
    assert same(net.state_dict(), before)
    assert pinion.torch.load(net, path, strict=False) == (["a.bias"], [])
    with pytest.raises(RuntimeError, match='Unexpected key.*"b.weight"'):
        pinion.torch.load(torch.nn.ModuleDict({"a": torch.nn.Linear(4, 4)}), path)
    with pytest.raises(RuntimeError, match="size mismatch for a.weight"):
        pinion.torch.load(torch.nn.ModuleDict({"a": torch.nn.Linear(3, 4)}), path, strict=False)


def test_load_model_with_its_own_way(tmp_path):
    source = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))
    source(torch.randn(8, 3))
    path = file_of(source, tmp_path / "x.safetensors")
    net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))
    assert pinion.torch.load(net, path) == ([], [])
    assert same(net.state_dict(), source.state_dict())


def test_load_shards(tmp_path):
    source, net = Net(), Net()
    state = {k: v.detach().clone() for k, v in source.state_dict().items() if k != "tied.weight"}
    names = sorted(state)
    files = {}
    for i, part in enumerate((names[:2], names[2:]), 1):
        file = f"model-0000{i}-of-00002.safetensors"
        save_file({k: state[k] for k in part}, tmp_path / file)
        files.update({k: file for k in part})
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": files}))
    for path in (tmp_path, index):
        with torch.no_grad():
            net.a.weight.zero_()
        assert pinion.torch.load(net, path) == ([], [])
        assert same(net.state_dict(), source.state_dict())
        assert same(load_file(path), state)
    (tmp_path / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match="00002-of-00002"):
        pinion.torch.load(net, tmp_path)


def test_load_onto_meta(tmp_path):
    path = file_of(Net(), tmp_path / "x.safetensors")
    net = torch.nn.Linear(4, 4, device="meta")
    with pytest.raises(ValueError, match="assign=True"):
        pinion.torch.load(net, path, strict=False)


@pytest.mark.skipif(torch.__version__.startswith("1."), reason="assign came with PyTorch 2.1")
def test_assign(tmp_path):
    source = Net()
    path = file_of(source, tmp_path / "x.safetensors")
    with torch.device("meta"):
        net = Net()
    assert pinion.torch.load(net, path, assign=True) == ([], [])
    assert same(net.state_dict(), source.state_dict())


def test_many_tensors(tmp_path):
    want = {f"layer.{i}.weight": torch.full((i % 7, 3), i) for i in range(2000)}
    save_file(want, tmp_path / "x.safetensors")
    assert same(load_file(tmp_path / "x.safetensors"), want)


def test_devices_and_tensors_that_cannot_be(tmp_path):
    with pytest.raises(ValueError, match="list, but must be a dict"):
        save_file([torch.ones(2)], tmp_path / "x.safetensors")
    save_file({"a": torch.ones(2)}, tmp_path / "x.safetensors")
    if not torch.cuda.is_available():
        with pytest.raises(pinion.UnavailableError, match="no GPU"):
            load_file(tmp_path / "x.safetensors", "cuda")


@pytest.mark.gpu
def test_on_the_gpu(tmp_path):
    want = {**some(), "big": torch.randn(3000, 1111)}
    path = tmp_path / "x.safetensors"
    save_file({k: v.cuda() for k, v in want.items()}, path)
    assert same(load_file(path), want)
    for device in ("cuda", 0, torch.device("cuda:0")):
        assert same({k: v.cpu() for k, v in load_file(path, device).items()}, want)
    with safe_open(path, "pt", "cuda") as f:
        assert torch.equal(f.get_slice("big")[10:20, 5].cpu(), want["big"][10:20, 5])
    source, net = Net(), Net().cuda()
    pinion.torch.load(net, file_of(source, path))
    assert same({k: v.cpu() for k, v in net.state_dict().items()}, source.state_dict())
