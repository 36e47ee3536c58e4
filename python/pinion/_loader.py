"""pinion.DataLoader: batches of a dataset in the memory of a device."""

from __future__ import annotations

import ctypes as C
import importlib.util
import json
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from . import _dlpack, _errors, _lib

_dtypes = {
    "float32": "f32", "float": "f32", "float16": "f16", "half": "f16", "bfloat16": "bf16",
    "float64": "f64", "double": "f64", "uint8": "u8", "uint16": "u16", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
}  # fmt: skip
_roles = {
    _lib.SAMPLES: "samples", _lib.LABELS: "labels", _lib.LENGTHS: "lengths", _lib.MASK: "mask", _lib.MIX: "mix",
    _lib.TARGET: "target", _lib.TARGET_LENGTHS: "target_lengths",
}  # fmt: skip


def _dtype_name(dtype: Any) -> str:
    """The library's name of an element type, which may be torch's or NumPy's."""
    if dtype is None:
        return ""
    if isinstance(dtype, str):
        name = dtype
    elif isinstance(dtype, type):
        name = dtype.__name__  # numpy.float32
    else:
        name = str(dtype)  # torch.float32, or numpy.dtype("float32")
    name = name.removeprefix("torch.")
    return _dtypes.get(name, name)


def _device_name(device: Any) -> str:
    """The library's name of a device, which may be torch's."""
    if device is None:
        local = os.environ.get("LOCAL_RANK")
        if local is not None and "WORLD_SIZE" in os.environ:
            torch = sys.modules.get("torch")
            if torch is not None and torch.cuda.is_available():
                return f"cuda:{local}"
        return "auto"
    if isinstance(device, int):
        return f"cuda:{device}"
    name = str(device)
    if name == "cpu":
        return "host"
    if name == "cuda":
        torch = sys.modules.get("torch")
        return f"cuda:{torch.cuda.current_device()}" if torch is not None and torch.cuda.is_available() else "cuda:0"
    return name


def _share(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """Which part of every epoch is this process's: what was asked for, or what torchrun says."""
    if rank is None and world_size is None:
        if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
            return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        return 0, 1
    if rank is None or world_size is None:
        raise ValueError("rank and world_size go together: give both or none")
    return rank, world_size


def _form(output: str) -> str:
    if output not in ("auto", "torch", "numpy", "dlpack"):
        raise ValueError(f"output is {output!r}, but must be 'auto', 'torch', 'numpy' or 'dlpack'")
    if output != "auto":
        return output
    for name in ("torch", "numpy"):
        if name in sys.modules or importlib.util.find_spec(name) is not None:
            return name
    return "dlpack"


class DataLoader:
    """Batches of a dataset, read, decoded and transformed by threads of the library, in the memory of a device.

    ::

        loader = pinion.DataLoader("photos", batch_size=64, shuffle=True)
        for epoch in range(90):
            for images, labels in loader:
                ...

    Arguments have PyTorch's names and meanings where PyTorch has them. Each loop is an epoch of its own; after
    ``break`` the next one begins a new epoch.

    source: a file, a folder, a pattern or a URL: all that ``pinion feed`` reads.
    batch_size: samples in a batch.
    shuffle: visit the samples of each epoch in an order drawn from seed and the number of the epoch.
    num_workers: threads that read and decode. 0: one a processor.
    drop_last: leave out a last batch that is not full.
    seed: of the order, and of everything random about samples.
    transform: what becomes of pictures, such as "rrc:224,flip" (see ``pinion feed --help``), or a function of your
        own, which gets each batch as it would be yielded, and whose result is yielded instead.
    dtype: element type on the device, as "bf16" or torch.bfloat16. Default: float32 for pictures, else the dataset's.
    device: "cuda:0", "cpu", a torch.device, or several of them, to which batches are dealt out in turn. Default:
        LOCAL_RANK's GPU under torchrun, else the first that works, else the host.
    rank, world_size: which part of every epoch is this process's. Default: torchrun's RANK and WORLD_SIZE.
    prefetch: batches read ahead of the one on its way to the device. 0: 2 to 4.
    output: what is yielded: "torch" tensors, "numpy" arrays, or "dlpack" objects (pinion.Array). Default: the first
        that is installed.
    names: yield dicts with these keys instead of tuples, such as ("pixel_values", "labels").
    options: of the dataset's format, as of ``pinion feed``, with "_" for "-": ``field="tokens"``.

    A batch is a tuple of samples, labels (int64, if the dataset has any), and whatever else there is: lengths, masks
    and targets. Its memory is given back when nothing uses it any more; arrays stay valid when the loader is closed.
    The file, the device and the threads are opened when they are first needed.
    """

    def __init__(
        self,
        source: str | os.PathLike[str],
        batch_size: int = 1,
        shuffle: bool = False,
        *,
        num_workers: int = 0,
        drop_last: bool = False,
        seed: int = 0,
        transform: str | Callable[[Any], Any] | None = None,
        dtype: Any = None,
        device: Any = None,
        rank: int | None = None,
        world_size: int | None = None,
        prefetch: int = 0,
        output: str = "auto",
        names: Sequence[str] | None = None,
        **options: Any,
    ) -> None:
        self._handle = 0  # before anything can fail: __del__ looks at it
        if batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}, but must be at least 1")
        self.source = os.fspath(source)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.num_workers = num_workers
        self.rank, self.world_size = _share(rank, world_size)
        self._then = transform if callable(transform) else None
        if isinstance(transform, str):
            options["transform"] = transform
        self._names = tuple(names) if names is not None else None
        self._output = output
        self._device = device
        self._config: dict[str, Any] = {
            "source": self.source, "options": {k.replace("_", "-"): v for k, v in options.items() if v is not None},
            "batch_size": batch_size, "shuffle": bool(shuffle), "num_workers": num_workers, "prefetch": prefetch,
            "drop_last": drop_last, "seed": seed, "dtype": _dtype_name(dtype), "rank": self.rank, "world_size": self.world_size,
            # One more than the library's own default: a batch comes back at the next call of next.
            "device_buffers": 4, "max_device_buffers": 1 << 16,
        }  # fmt: skip
        self._lock = threading.RLock()
        self._out = _lib.Batch()
        self._reference = C.byref(self._out)
        self._closed = False
        self._turn = 0  # number of the last iterator
        self._state: dict[str, Any] | None = None  # to go on from when it starts
        self._epoch: int | None = None  # wanted for the next loop

    # Starting is put off until the first batch, so that a loader that is made before a fork, or that is to resume,
    # starts once, and where it is used.
    def _start(self) -> Any:
        lib = _lib.load()
        if self._handle:
            return lib
        if self._closed:
            raise _errors.ClosedError("the DataLoader is closed")
        devices = self._device if isinstance(self._device, (list, tuple)) else [self._device]
        text = json.dumps({**self._config, "devices": [_device_name(d) for d in devices]}).encode()
        self._handle = _lib.run(lib.pinion_loader_open, text, len(text))
        self._finalizer = weakref.finalize(self, _close, self._handle)
        self._convert = _converters[_form(self._output)]
        if self._state is not None:
            state, self._state = self._state, None
            self._resume(state)
        return lib

    def _resume(self, state: Mapping[str, Any]) -> None:
        text = json.dumps(dict(state)).encode()
        _lib.run(_lib.load().pinion_loader_resume, self._handle, text, len(text))

    def _info(self) -> dict[str, Any]:
        with self._lock:
            lib = self._start()
            result: dict[str, Any] = json.loads(_lib.ask(lib.pinion_loader_info, self._handle))
            return result

    def __len__(self) -> int:
        """The batches of an epoch of this rank."""
        n: int = self._info()["batches"]
        if n < 0:
            raise TypeError("a stream has no length: it is read to its end")
        return n

    def __iter__(self) -> Iterator[Any]:
        with self._lock:
            self._start()
            self._turn += 1
            return _Iterator(self, self._turn)

    def state_dict(self) -> dict[str, Any]:
        """Where the loader is: behind the last batch that it gave. For load_state_dict of another one."""
        with self._lock:
            if self._state is not None:
                return dict(self._state)
            lib = self._start()
            state: dict[str, Any] = json.loads(_lib.ask(lib.pinion_loader_state, self._handle))
            return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on where state_dict was called: the next loop begins with the batch that would have come next."""
        with self._lock:
            self._turn += 1
            if self._handle:
                self._resume(state)
            else:
                self._state = dict(state)

    def close(self) -> None:
        """Ends the threads and frees the memory of batches that nobody has. Arrays stay valid."""
        with self._lock:
            self._closed = True
            handle, self._handle = self._handle, 0
        if handle:
            self._finalizer.detach()
            lib = _lib.loaded()
            if lib is not None:
                _lib.run(lib.pinion_loader_close, handle)

    def __enter__(self) -> DataLoader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


PATIENCE = 3000
"""Milliseconds for which the end of the process, or of a loader that was not closed, waits for what is being read."""


def _close(handle: int) -> None:
    lib = _lib.loaded()
    if lib is not None:
        _lib.run(lib.pinion_loader_close, handle, patience=PATIENCE)


class _Iterator:
    """A loop over an epoch."""

    __slots__ = ("_loader", "_turn", "_flags")

    def __init__(self, loader: DataLoader, turn: int) -> None:
        self._loader, self._turn, self._flags = loader, turn, _lib.FRESH

    def __iter__(self) -> _Iterator:
        return self

    def __next__(self) -> Any:
        loader = self._loader
        with loader._lock:
            lib = _lib.load()
            if self._turn != loader._turn:
                if self._flags < 0:
                    raise StopIteration
                raise RuntimeError("another loop over this DataLoader has begun, which ended this one")
            if self._flags < 0:
                raise StopIteration
            while True:
                code = lib.pinion_loader_next(loader._handle, _lib.POLL, self._flags, loader._reference)
                if code == _lib.OK:
                    break
                if code == _lib.END:
                    self._flags = -1
                    raise StopIteration
                if code != _lib.WAIT:
                    _lib.fail(code)
            self._flags = 0
            batch: Any = loader._convert(loader._out)
        if loader._names is not None:
            batch = dict(zip(loader._names, batch))
        if loader._then is not None:
            batch = loader._then(batch)
        return batch


def _arrays(out: _lib.Batch) -> tuple[_dlpack.Array, ...]:
    hold = _dlpack.Hold(out.hold)
    return tuple(_dlpack.Array(_dlpack.copy_of(a), hold) for a in out.array[: out.arrays])


def _numpy(out: _lib.Batch) -> tuple[Any, ...]:
    arrays = _arrays(out)
    return tuple(a.numpy().astype("int64") if a._array.role == _lib.LABELS else a.numpy() for a in arrays)


def _torch(out: _lib.Batch) -> tuple[Any, ...]:
    arrays = _arrays(out)
    return tuple(a.torch().long() if a._array.role == _lib.LABELS else a.torch() for a in arrays)


_converters: dict[str, Callable[[_lib.Batch], tuple[Any, ...]]] = {"dlpack": _arrays, "numpy": _numpy, "torch": _torch}
