"""The safetensors package's functions on Pinion's readers: only the import changes.

    from pinion.safetensors import load_file, safe_open, save_file

    tensors = load_file("model.safetensors", device="cuda")
    with safe_open("model.safetensors", framework="pt", device="cuda") as f:
        rows = f.get_slice("embedding.weight")[:1000]

What is read goes straight into the memory of the tensor, which is its own: several threads read at once, and what goes to
a GPU goes at the speed of the link. Paths may also be an index (model.safetensors.index.json) or a folder with one, whose
files count as one.
"""

from __future__ import annotations

import ctypes as C
import json
import math
import operator
import os
from collections.abc import Mapping, Sequence
from typing import Any

from . import _errors, _lib

__all__ = ["load_file", "safe_open", "save_file"]

# The format's name of an element type: torch's, NumPy's ("": it has none). In the order in which files have them.
_dtypes = {
    "U64": ("uint64", "uint64"), "I64": ("int64", "int64"), "F64": ("float64", "float64"), "C64": ("complex64", "complex64"),
    "F32": ("float32", "float32"), "U32": ("uint32", "uint32"), "I32": ("int32", "int32"),
    "BF16": ("bfloat16", ""), "F16": ("float16", "float16"), "U16": ("uint16", "uint16"), "I16": ("int16", "int16"),
    "F8_E5M2FNUZ": ("float8_e5m2fnuz", ""), "F8_E4M3FNUZ": ("float8_e4m3fnuz", ""), "F8_E8M0": ("float8_e8m0fnu", ""),
    "F8_E4M3": ("float8_e4m3fn", ""), "F8_E5M2": ("float8_e5m2", ""), "I8": ("int8", "int8"), "U8": ("uint8", "uint8"),
    "F4": ("float4_e2m1fn_x2", ""), "BOOL": ("bool", "bool"),
}  # fmt: skip
_order = {name: i for i, name in enumerate(_dtypes)}


class _Torch:
    """Tensors of PyTorch."""

    def __init__(self, device: Any) -> None:
        import torch

        self.torch = torch
        self.device = torch.device("cuda", device) if isinstance(device, int) else torch.device(device)
        _errors.need_gpu(torch, self.device)
        if self.device.type == "cuda" and self.device.index is None:
            self.device = torch.device("cuda", torch.cuda.current_device())
        from .torch._memory import site

        self.site = site(self.device)

    def stream(self) -> int:
        return int(self.torch.cuda.current_stream(self.device).cuda_stream) if self.device.type == "cuda" else -1

    def empty(self, dtype: str, shape: Sequence[int]) -> tuple[Any, int]:
        name = _dtypes.get(dtype, ("", ""))[0]
        known = getattr(self.torch, name, None) if name else None
        if known is None:
            raise _errors.UnsupportedError(f"PyTorch {self.torch.__version__} has no type for {dtype}")
        if dtype == "F4":  # two to an element
            shape = [*shape[:-1], shape[-1] // 2]
        made = self.torch.empty(tuple(shape), dtype=known, device=self.device)
        return made, made.data_ptr()


class _Numpy:
    """Arrays of NumPy."""

    site = b"host"

    def __init__(self, device: Any) -> None:
        if str(device) != "cpu":
            raise ValueError(f"the device is {device!r}, but NumPy's arrays are on 'cpu'")

    def stream(self) -> int:
        return -1

    def empty(self, dtype: str, shape: Sequence[int]) -> tuple[Any, int]:
        import numpy

        name = _dtypes.get(dtype, ("", ""))[1]
        if not name:
            raise _errors.UnsupportedError(f"NumPy has no type for {dtype}")
        made = numpy.empty(tuple(shape), dtype=name)
        return made, made.ctypes.data


def _framework(framework: str, device: Any) -> _Torch | _Numpy:
    if framework in ("pt", "torch", "pytorch"):
        return _Torch(device)
    if framework in ("np", "numpy"):
        return _Numpy(device)
    raise ValueError(f"framework is {framework!r}, but must be 'pt' or 'np'")


class safe_open:  # noqa: N801: as in safetensors
    """An open checkpoint, to be read in part: as safetensors.safe_open.

    filename: a .safetensors file, an index of several, or a folder with either.
    framework: "pt" for torch tensors, "np" for NumPy arrays.
    device: where tensors are made: "cpu", "cuda", "cuda:1", a number, or a torch.device.

    Tensors that were got stay when it is closed.
    """

    def __init__(self, filename: str | os.PathLike[str], framework: str = "pt", device: Any = "cpu") -> None:
        self._handle = 0
        self._kind = _framework(framework, device)
        lib, path, handle = _lib.load(), _lib.path_bytes(filename), C.c_uint64()
        _lib.check(lib.pinion_safetensors_open(path, len(path), C.byref(handle)))
        self._handle = handle.value
        info = json.loads(_lib.ask(lib.pinion_safetensors_info, self._handle))
        self._metadata: dict[str, str] | None = info["metadata"]
        self._tensors: dict[str, dict[str, Any]] = {t["name"]: t for t in info["tensors"] or ()}

    def __enter__(self) -> safe_open:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:  # the interpreter is ending
            pass

    def close(self) -> None:
        """Closes the files. A second time it does nothing."""
        handle, self._handle = self._handle, 0
        lib = _lib.loaded() if handle else None
        if lib is not None:
            lib.pinion_safetensors_close(handle)

    def keys(self) -> list[str]:
        """The names of the tensors, sorted."""
        return sorted(self._tensors)

    def offset_keys(self) -> list[str]:
        """The names of the tensors, in the order of their data."""
        return list(self._tensors)

    def metadata(self) -> dict[str, str] | None:
        """The text that the file has about itself; None where there is none."""
        return self._metadata

    def get_tensor(self, name: str) -> Any:
        """A tensor."""
        return self.get_tensors([name])[name]

    def get_tensors(self, names: Sequence[str] | None = None) -> dict[str, Any]:
        """Several tensors, or all, which are read at once."""
        made: dict[str, Any] = {}
        wants = []
        for name in self.offset_keys() if names is None else names:
            info = self._info(name)
            made[name], address = self._kind.empty(info["dtype"], info["shape"])
            wants.append({"name": name, "address": address})
        self._read(wants)
        return made

    def get_slice(self, name: str) -> Slice:
        """A tensor that is read as far as it is indexed."""
        return Slice(self, self._info(name))

    def _info(self, name: str) -> dict[str, Any]:
        info = self._tensors.get(name)
        if info is None:
            raise KeyError(f"File does not contain tensor {name}")
        return info

    def _read(self, wants: list[dict[str, Any]]) -> None:
        """Reads tensors, or parts of them, into memory."""
        if not self._handle:
            raise _errors.ClosedError("the file is closed")
        text, where = json.dumps(wants).encode(), self._kind.site
        lib, stream = _lib.load(), self._kind.stream()
        _lib.run_to_end(lib.pinion_safetensors_read, self._handle, text, len(text), where, len(where), stream)


class Slice:
    """A tensor of a file, of which an index reads a part: numbers and a slice of the first axes read no more than that."""

    def __init__(self, file: safe_open, info: dict[str, Any]) -> None:
        self._file, self._info = file, info

    def get_shape(self) -> list[int]:
        return list(self._info["shape"])

    def get_dtype(self) -> str:
        """The element type, as the format has it: "F32", "BF16" and so on."""
        return str(self._info["dtype"])

    def __getitem__(self, index: Any) -> Any:
        index = index if isinstance(index, tuple) else (index,)
        shape = self.get_shape()
        gaps = [k for k, i in enumerate(index) if i is Ellipsis]
        if len(gaps) > 1:
            raise IndexError("an index can only have a single ellipsis ('...')")
        for gap in gaps:
            index = (*index[:gap], *[slice(None)] * (len(shape) - len(index) + 1), *index[gap + 1 :])
        if len(index) > len(shape):
            raise IndexError(f"too many indices: {len(index)} for a tensor of {len(shape)} dimensions")
        at: list[int] = []
        rest = list(index)
        while rest and not isinstance(rest[0], slice):
            at.append(_element(rest.pop(0), shape[len(at)], len(at)))
        shape = shape[len(at) :]
        want: dict[str, Any] = {"name": self._info["name"], "at": at}
        then: list[Any] = []  # what is left to index, when the part is there
        if rest:
            start, stop, step = rest.pop(0).indices(shape[0])
            if step < 0:
                raise ValueError("step must be greater than zero")
            stop = max(start, stop)
            want["range"] = [start, stop]
            shape[0] = stop - start
            then.append(slice(None, None, step))
            for axis, i in enumerate(rest, len(at) + 1):
                size = shape[axis - len(at)]
                if not isinstance(i, slice):
                    i = _element(i, size, axis)
                elif i.step is not None and i.step < 0:
                    raise ValueError("step must be greater than zero")
                then.append(i)
        made, want["address"] = self._file._kind.empty(self.get_dtype(), shape)
        self._file._read([want])
        if all(isinstance(i, slice) and i == slice(None, None, 1) or i == slice(None) for i in then):
            return made
        part = made[tuple(then)]
        return part.clone() if hasattr(part, "clone") else part.copy()  # keeps no more than it shows


def _element(i: Any, size: int, axis: int) -> int:
    try:
        i = operator.index(i)
    except TypeError:
        raise TypeError(f"an index of axis {axis} is {i!r}, but must be a number, a slice or ...") from None
    if not -size <= i < size:
        raise IndexError(f"index {i} is out of bounds for axis {axis}, which has {size}")
    return int(i % size)


def load_file(filename: str | os.PathLike[str], device: Any = "cpu", *, framework: str = "pt") -> dict[str, Any]:
    """All tensors of a file, or of a checkpoint of several: as safetensors.torch.load_file."""
    with safe_open(filename, framework, device) as f:
        return f.get_tensors()


def save_file(tensors: Mapping[str, Any], filename: str | os.PathLike[str], metadata: Mapping[str, str] | None = None) -> None:
    """Writes torch tensors or NumPy arrays to a file: as safetensors.torch.save_file, in the same order.

    Tensors may be on GPUs. The file is there as a whole, durable, or as it was before. Tensors must be contiguous, and
    none may share memory with another.
    """
    if not isinstance(tensors, Mapping):
        raise ValueError(f"tensors are a {type(tensors).__name__}, but must be a dict of names and tensors")
    described = []
    seen: dict[Any, list[str]] = {}
    for name, tensor in tensors.items():
        if not isinstance(name, str):
            raise TypeError(f"a name is {name!r}, but must be a string")
        info = _describe(name, tensor)
        described.append(info)
        if info["bytes"]:
            seen.setdefault((info["device"], _owner(tensor)), []).append(name)
    shared = [names for names in seen.values() if len(names) > 1]
    if shared:
        raise RuntimeError(
            f"Some tensors share memory, this will lead to duplicate memory on disk and potential differences when loading them again: {shared}"
        )
    described.sort(key=lambda t: (_order[t["dtype"]], t["name"]))
    for key, value in (metadata or {}).items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"metadata has {key!r}: {value!r}, but both must be strings")
    about = {"path": _lib.name(filename), "metadata": dict(metadata) if metadata is not None else None, "tensors": described}
    text = json.dumps(about, ensure_ascii=False).encode()  # a name that is no UTF-8 is an error
    _lib.run_to_end(_lib.load().pinion_safetensors_save, text, len(text))


def _owner(tensor: Any) -> Any:
    """What memory of others begins where it does."""
    if hasattr(tensor, "data_ptr"):
        from .torch._memory import storage_of

        return storage_of(tensor).data_ptr()
    while tensor.base is not None and hasattr(tensor.base, "ctypes"):
        tensor = tensor.base
    return tensor.ctypes.data


def _describe(name: str, tensor: Any) -> dict[str, Any]:
    info: dict[str, Any] = {"name": name, "device": "host"}
    if hasattr(tensor, "data_ptr"):
        import torch

        if tensor.layout != torch.strided:
            raise ValueError(f"{name!r} is a tensor of {tensor.layout}: only dense tensors can be saved")
        if not tensor.is_contiguous() or tensor.is_conj() or tensor.is_neg():
            raise ValueError(f"{name!r} is not contiguous: save tensor.contiguous()")
        kind, shape = str(tensor.dtype).removeprefix("torch."), list(tensor.shape)
        names = {theirs: ours for ours, (theirs, _) in _dtypes.items()}
        if tensor.device.type != "cpu":
            from .torch._memory import site

            info["device"] = site(tensor.device).decode()
            info["stream"] = int(torch.cuda.current_stream(tensor.device).cuda_stream)
        info["address"], nbytes = tensor.data_ptr(), tensor.numel() * tensor.element_size()
        if kind == "float4_e2m1fn_x2":
            shape[-1] *= 2
    elif hasattr(tensor, "ctypes"):
        if not tensor.flags.c_contiguous:
            raise ValueError(f"{name!r} is not contiguous: save numpy.ascontiguousarray(array)")
        if tensor.dtype.byteorder == ">":
            raise ValueError(f"{name!r} is big-endian: save array.astype(array.dtype.newbyteorder('<'))")
        kind, shape, nbytes = tensor.dtype.name, list(tensor.shape), tensor.nbytes
        names = {theirs: ours for ours, (_, theirs) in _dtypes.items() if theirs}
        info["address"] = tensor.ctypes.data
    else:
        raise TypeError(f"{name!r} is a {type(tensor).__name__}, but must be a tensor or an array")
    if kind not in names:
        raise ValueError(f"{name!r} is of {kind}, which the format does not have")
    return {**info, "dtype": names[kind], "shape": shape, "bytes": nbytes, "address": info["address"] if math.prod(shape) else 0}
