"""pinion.DataLoader: batches of a dataset in the memory of a device."""

from __future__ import annotations

import ctypes as C
import importlib.util
import json
import math
import operator
import os
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from . import _borrow, _dlpack, _errors, _lib

_dtypes = {
    "float32": "f32", "float": "f32", "float16": "f16", "half": "f16", "bfloat16": "bf16",
    "float64": "f64", "double": "f64", "uint8": "u8", "uint16": "u16", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
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


def _cuda_of_torch() -> Any:
    """torch.cuda, where torch is in use and has a GPU."""
    torch: Any = sys.modules.get("torch")
    return torch.cuda if torch is not None and torch.cuda.is_available() else None


def _device_name(device: Any) -> str:
    """The library's name of a device, which may be torch's."""
    if isinstance(device, int):
        return f"cuda:{device}"
    name = "auto" if device is None else str(device)
    cuda = _cuda_of_torch()
    if cuda is not None and name in ("auto", "cuda"):
        local = _environment("LOCAL_RANK") if name == "auto" and "LOCAL_RANK" in os.environ else -1
        return f"cuda:{local if 0 <= local < cuda.device_count() else cuda.current_device()}"
    return {"cpu": "host", "cpu:0": "host", "cuda": "cuda:0"}.get(name, name)


def _share(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """Which part of every epoch is this process's: what was asked for, or what torch or torchrun says."""
    if rank is not None and world_size is not None:
        return rank, world_size
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        return _environment("RANK"), _environment("WORLD_SIZE")
    return 0, 1


def _environment(name: str) -> int:
    """A number that torchrun has put there."""
    try:
        return int(os.environ[name])
    except ValueError:
        raise ValueError(f"{name} is {os.environ[name]!r} in the environment, but must be a number") from None


def _text(value: Any) -> str:
    """An option as the command's flags have it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ("x" if all(isinstance(v, int) for v in value) else ",").join(map(str, value))
    return str(value)


def _number(name: str, value: Any, least: int = 0, most: int = 2**63 - 1) -> int:
    """An integer of any kind, NumPy's for one, within bounds."""
    try:
        n = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}, but must be an integer") from None
    if not least <= n <= most:
        raise ValueError(f"{name} is {n}, but must be {f'at least {least}' if n < least else f'at most {most}'}")
    return n


def _real(name: str, value: Any, least: float = -math.inf) -> float:
    """A finite number of any kind, NumPy's for one, not below the least."""
    if isinstance(value, (str, bytes)) or not hasattr(value, "__float__"):
        raise TypeError(f"{name} is {value!r}, but must be a number")
    x = float(value)
    if not math.isfinite(x) or x < least:
        raise ValueError(f"{name} is {x}, but must be {'finite' if not math.isfinite(x) else f'at least {least}'}")
    return x


def _reals(name: str, values: Any) -> list[float] | None:
    """A number for each channel, or None."""
    if values is None:
        return None
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise TypeError(f"{name} is {values!r}, but must be a sequence of numbers, one for each channel")
    return [_real(name, v) for v in values]


def _flag(name: str, value: Any) -> bool:
    """True or False, which NumPy's are too."""
    if not isinstance(value, bool) and type(value).__name__ not in ("bool_", "bool"):
        raise TypeError(f"{name} is {value!r}, but must be True or False")
    return bool(value)


_pytorchs = {
    "batch_sampler": "take sampler, a name",
    "collate_fn": "batches are made by the library; transform may be a function, which gets whole batches",
    "generator": "the order follows from seed",
    "multiprocessing_context": "workers are threads",
    "persistent_workers": "workers are threads, which stay",
    "pin_memory_device": "batches are on the device already",
    "prefetch_factor": "prefetch is how many batches are read ahead",
    "timeout": "sample_timeout is the longest time to read a sample",
    "worker_init_fn": "workers are threads of the library, which run no Python",
}
"""What PyTorch's DataLoader takes, and this one does not, and what to do."""


def _form(output: str) -> str:
    """What is yielded: for "auto" the first that is installed."""
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

    A batch is a tuple: samples, labels (int64; int32 as dlpack) if there are any, then lengths and mask where samples differ in length,
    weights of mixup, and targets. Each loop is an epoch; after ``break`` the next loop begins a new one, as with
    PyTorch. Arguments that PyTorch has too have its names and meanings.

    A batch's memory is given back when nothing uses it any more: arrays stay valid when the loader is closed, and
    ``list(loader)`` works where there is memory for it. Work that a GPU has yet to do on a batch is waited for on the
    GPU, whatever stream it is on. The file, the device and the threads are opened when they are first needed.

    What is read:
        source: a file, a folder, a pattern such as "train-{000..127}.tar", or a URL: all that ``pinion feed`` reads.
        targets: paths of datasets whose sample i goes with sample i of the source, such as a folder of masks.
        **options: of the source's format, as for ``pinion feed``, with "_" for "-": ``field="tokens"``, ``depth=16``.
        on_error: what is done about a sample that cannot be read: "fail", "skip" or "replace".
        sample_timeout: the longest time to read a sample, in seconds. Default: no limit.

    Their order, which depends on seed and epoch alone:
        shuffle: each sample once, in random order.
        sampler: "sequential", "random", "replacement", "balanced", "length" or "blocks": see ``pinion feed --help``.
        seed: of the order, and of everything random about samples.
        rank, world_size: which part of every epoch is this process's. Default: what torch.distributed says, or torchrun's
            RANK and WORLD_SIZE, when the loader is first used.
        in_order: False yields the batches of an epoch as they become complete.

    What becomes of them:
        batch_size: samples in a batch; "auto": as many as there is room for.
        drop_last: leave out a last batch that is not full.
        transform: of pictures, such as "rrc:224,flip" (see ``pinion feed --help``); or a function of your own that gets
            each batch as it would be yielded, and whose result is yielded instead.
        dtype: the element type on the device, as "bf16" or torch.bfloat16. Default: float32 for pictures, else the
            source's. uint8 leaves the pixels of pictures as they are.
        mean, std: normalise pictures, a value a channel, on a scale from 0 to 1. Default: ImageNet's.
        mixup: alpha of mixup. Sample i of n is mixed with sample (i + n // 2) % n, and weighs what the batch says.
        pad, pad_to, mask: samples that differ in length are padded with pad, to the longest of the batch or to pad_to;
            mask adds an array of bytes, 1 for data and 0 for padding.

    Where they go:
        device: "cuda:0", "cpu", a torch.device, or a list of them, to which batches are dealt out in turn. Default:
            LOCAL_RANK's GPU under torchrun, else torch's current one, else the first that works, else the host.
        output: what is yielded: "torch" tensors, "numpy" arrays, or "dlpack" objects (pinion.Array). Default: the first
            that is installed.
        names: keys, such as ("pixel_values", "labels"), to yield dicts instead of tuples.

    How fast:
        num_workers: threads that read and decode. 0: one a processor.
        prefetch: batches read ahead of the one on its way to the device. 0: 2 to 4.
        decode: where JPEGs are decoded: "cpu", "gpu", or "auto" for a GPU with JPEG engines.
        cpu_share: the part of the JPEGs, from 0 to 1, that threads decode although the GPU would; "auto": what those that have
            nothing to read can, while no finished batch waits for the program (a pixel may then differ by a step of a byte
            between two runs).
        pin_memory: False leaves host memory pageable.
        device_buffers: batches in the memory of each device. More are made while the program keeps these.
        pin_budget, device_budget: the most bytes of page-locked host memory, and of the device's. 0: what is sensible,
            and what is free.
        allocator: "torch" takes the memory of batches from PyTorch's own caching allocator, so that its statistics and limits
            see it. Default: from the driver.
        copiers, chunk: threads that copy memory which is not pinned, and the bytes of a piece. 0: the default.
    """

    def __init__(
        self,
        source: str | os.PathLike[str],
        batch_size: int | str = 1,
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
        targets: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
        sampler: str | None = None,
        in_order: bool = True,
        on_error: str = "fail",
        sample_timeout: float = 0,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        mixup: float = 0,
        pad: float = 0,
        pad_to: int = 0,
        mask: bool = False,
        output: str = "auto",
        names: Sequence[str] | None = None,
        prefetch: int = 0,
        decode: str = "auto",
        cpu_share: float | str = 0,
        pin_memory: bool = True,
        device_buffers: int = 4,
        pin_budget: int = 0,
        device_budget: int = 0,
        copiers: int = 0,
        chunk: int = 0,
        allocator: str | None = None,
        **options: Any,
    ) -> None:
        self._arguments = {k: v for k, v in locals().items() if k not in ("self", "options")} | options
        self._finalizer: Any = None
        for name in options:
            if name in _pytorchs:
                raise TypeError(f"pinion.DataLoader has no {name}: {_pytorchs[name]}")
        if not isinstance(source, (str, os.PathLike)):
            raise TypeError(
                f"source is a {type(source).__name__}, but must be a path or a URL: for datasets in Python, give "
                "torch.utils.data.DataLoader collate_fn=pinion.Collate()"
            )
        if batch_size == "auto":
            size = -1
        elif isinstance(batch_size, str) or batch_size is None:
            raise ValueError(f"batch_size is {batch_size!r}, but must be at least 1, or 'auto'")
        else:
            size = _number("batch_size", batch_size, 1)
        num_workers, prefetch = _number("num_workers", num_workers), _number("prefetch", prefetch)
        seed = _number("seed", seed, 0, 2**64 - 1)
        pin_budget, device_budget = _number("pin_budget", pin_budget), _number("device_budget", device_budget)
        copiers, chunk = _number("copiers", copiers), _number("chunk", chunk)
        device_buffers = _number("device_buffers", device_buffers, 1, 1 << 16)
        sample_timeout = min(_real("sample_timeout", sample_timeout, 0), 1e9)  # which is no limit any more
        mixup, pad = _real("mixup", mixup), _real("pad", pad)
        pad_to = _number("pad_to", pad_to)
        if transform is not None and not isinstance(transform, str) and not callable(transform):
            raise TypeError(f"transform is {transform!r}, but must be text, such as 'rrc:224,flip', or a function")
        if sampler is not None and not isinstance(sampler, str):
            raise TypeError(f"sampler is a {type(sampler).__name__}, but must be a name, such as 'balanced': see help(pinion.DataLoader)")
        if isinstance(names, str) or (names is not None and not isinstance(names, Iterable)):
            raise TypeError(f"names is {names!r}, but must be a sequence of names, such as ('images', 'labels')")
        shuffle = shuffle is not None and _flag("shuffle", shuffle)  # PyTorch's default is None
        if shuffle and sampler not in (None, "random"):
            raise ValueError(f"shuffle means sampler='random', but sampler is {sampler!r}")
        if output not in ("auto", *_converters):
            raise ValueError(f"output is {output!r}, but must be 'auto', 'torch', 'numpy' or 'dlpack'")
        if cpu_share != "auto":
            if isinstance(cpu_share, str) or not 0 <= _real("cpu_share", cpu_share) <= 1:
                raise ValueError(f"cpu_share is {cpu_share!r}, but must be from 0 to 1, or 'auto'")
            cpu_share = float(cpu_share)
        if allocator not in (None, "torch"):
            raise ValueError(f"allocator is {allocator!r}, but must be 'torch' or None")
        self.source = _lib.name(source)
        self.drop_last = _flag("drop_last", drop_last)
        self.num_workers = num_workers
        if (rank is None) != (world_size is None):
            raise ValueError("rank and world_size go together: give both or none")
        if rank is not None:
            world_size = _number("world_size", world_size, 1)
            rank = _number("rank", rank, 0, world_size - 1)
        self._share = rank, world_size
        self._then = transform if callable(transform) else None
        if isinstance(transform, str):
            options["transform"] = transform
        if isinstance(targets, (str, os.PathLike)):
            targets = [targets]
        if not isinstance(targets, Iterable):
            raise TypeError(f"targets is {targets!r}, but must be a path, or a sequence of them")
        if isinstance(device, (list, tuple)) and not device:
            raise ValueError("device is an empty list: name one device at least, or leave it out")
        self._names = tuple(names) if names is not None else None
        self._output = output
        self._device = device
        self._allocator = allocator
        self._lender: _borrow.Lender | None = None
        self._config: dict[str, Any] = {
            "source": self.source, "targets": [_lib.name(t) for t in targets],
            "options": {k.replace("_", "-"): _text(v) for k, v in options.items() if v is not None},
            "batch_size": size, "shuffle": shuffle, "sampler": sampler or "",
            "drop_last": self.drop_last, "in_order": _flag("in_order", in_order), "seed": seed,
            "dtype": _dtype_name(dtype), "mean": _reals("mean", mean), "std": _reals("std", std), "mixup": mixup, "pad": pad, "pad_to": pad_to,
            "mask": _flag("mask", mask), "decode": decode, "cpu_share": -1 if cpu_share == "auto" else cpu_share, "on_error": on_error, "sample_timeout": sample_timeout, "num_workers": num_workers,
            "prefetch": prefetch, "pin_memory": _flag("pin_memory", pin_memory), "pin_budget": pin_budget, "device_budget": device_budget,
            # One more than the library's own default: a batch comes back at the next call of next.
            "copiers": copiers, "chunk": chunk, "device_buffers": device_buffers, "max_device_buffers": 1 << 16,
        }  # fmt: skip
        self._lock = threading.RLock()
        self._handle = 0  # of the library's loader, once there is one
        self._closed = False
        self._out = _lib.Batch()  # what the library describes a batch in
        self._reference = C.byref(self._out)
        self._turn = 0  # number of the last loop
        self._state: dict[str, Any] | None = None  # to go on from when it starts
        self._resumed = False  # no loop has begun since
        self._failed = False  # the library's loader gives nothing but its error
        self._epoch: int | None = None  # wanted for the next loop

    def _check_open(self) -> None:
        if self._closed:
            raise _errors.ClosedError("the DataLoader is closed")

    # Starting is put off until something needs it, so that a loader that is made before a fork, or that is to resume,
    # starts once, and where it is used.
    def _start(self) -> Any:
        lib = _lib.load()
        if self._handle:
            return lib
        self._check_open()
        form = _form(self._output)
        self.rank, self.world_size = _share(*self._share)
        self._config |= {"rank": self.rank, "world_size": self.world_size, "devices": self._devices(form)}
        if self._allocator == "torch":
            self._lender = _borrow.Lender()
            self._config["borrow"] = self._lender.handle.value
        text = json.dumps(self._config).encode()
        self._handle = self._run(lib.pinion_loader_open, text, len(text))
        self._finalizer = weakref.finalize(self, _close, self._handle, self._out)
        self._facts: dict[str, Any] = json.loads(_lib.ask(lib.pinion_loader_info, self._handle))
        self._convert = _converters[form]
        self._stream = _stream_of(self._facts["devices"]) if self._facts["cuda"] else None
        for warning in self._facts["warnings"] or ():
            warnings.warn(f"{self.source}: {warning}", stacklevel=4)
        if self._state is not None:
            state, self._state = self._state, None
            self._resume(state)
        return lib

    def _run(self, function: Any, *arguments: Any) -> int:
        """A task that may need memory of PyTorch's."""
        if self._lender is None:
            return _lib.run(function, *arguments)
        try:
            return _lib.run(function, *arguments, serve=self._lender.serve)
        except Exception as e:
            raise self._lender.explain(e)

    def _devices(self, form: str) -> list[str]:
        """The library's names of the devices. The default is one that torch can use, where it is to have the batches."""
        if self._allocator == "torch":
            form = "torch"
        if form == "torch":
            importlib.import_module("torch")
        several = self._device if isinstance(self._device, (list, tuple)) else [self._device]
        names = [_device_name(d) for d in several]
        if form == "torch" and _cuda_of_torch() is None:
            if any(n.startswith("cuda") for n in names):
                raise _errors.UnavailableError(
                    f"device is {', '.join(names)}, but this PyTorch has no GPU: take device='cpu', or output='dlpack'"
                )
            names = ["host" if n == "auto" else n for n in names]
        return names

    def _resume(self, state: Mapping[str, Any]) -> None:
        text = json.dumps(dict(state)).encode()
        self._run(_lib.load().pinion_loader_resume, self._handle, text, len(text))
        self._resumed, self._failed = True, False

    def _fact(self, name: str) -> Any:
        with self._lock:
            self._start()
            return self._facts[name]

    @property
    def batch_size(self) -> int:
        """Samples in a batch."""
        size: int = self._config["batch_size"]
        return size if size > 0 else int(self._fact("batch_size"))

    @property
    def classes(self) -> list[str] | None:
        """Names of the classes, to which labels are indexes, if they have any."""
        names: list[str] | None = self._fact("classes")
        return names

    @property
    def dataset(self) -> Samples:
        """What len() of tells the samples of the dataset: of all ranks."""
        return Samples(self)

    def __len__(self) -> int:
        """The batches of an epoch of this rank."""
        n: int = self._fact("batches")
        if n < 0:
            raise TypeError("a stream has no length: it is read to its end")
        return n

    def __iter__(self) -> Iterator[Any]:
        with self._lock:
            lib = self._start()
            self._turn += 1
            _dlpack.take(self._out)  # a batch that an interrupt came before
            if self._epoch is not None or self._failed:
                self._run(lib.pinion_loader_seek, self._handle, -1 if self._epoch is None else self._epoch, self._resumed, self._failed)
                self._epoch = None
            self._resumed = self._failed = False
            return _Loop(self, self._turn)

    def set_epoch(self, epoch: int) -> None:
        """The next loop is over the epoch of that number. It need not be called: loops count by themselves."""
        epoch = _number("epoch", epoch, 0, 2**31 - 1)
        with self._lock:
            self._check_open()
            self._epoch = epoch

    def state_dict(self) -> dict[str, Any]:
        """Where the loader is: behind the last batch that it gave. It is small, and of JSON's types."""
        with self._lock:
            self._check_open()
            if self._state is not None:
                return dict(self._state)
            lib = self._start()
            state: dict[str, Any] = json.loads(_lib.ask(lib.pinion_loader_state, self._handle))
            return state

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Goes on where state_dict was called: the next loop begins with the batch that would have come next; it has no
        batches if that one had none left. Workers, devices and the number of ranks may differ, if batch_size times
        world_size stays the same."""
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"state_dict is a {type(state_dict).__name__}, but must be what state_dict() returned")
        with self._lock:
            self._check_open()
            self._turn += 1
            _dlpack.take(self._out)
            self._epoch = None
            if self._handle:
                self._resume(state_dict)
            else:
                self._state = dict(state_dict)

    def stats(self) -> dict[str, Any]:
        """What was done so far, and how long it took, in the words of ``pinion feed --json``."""
        with self._lock:
            lib = self._start()
            stats: dict[str, Any] = json.loads(_lib.ask(lib.pinion_loader_stats, self._handle))
            return stats

    def close(self) -> None:
        """Ends the threads and frees the memory of batches that nobody has. Arrays stay valid."""
        self._closed = True
        self._end()  # without the lock, which a thread may hold that waits for a batch
        with self._lock:
            self._end()
            if _lib.loaded() is not None:
                _dlpack.take(self._out)

    def _end(self) -> None:
        handle, self._handle = self._handle, 0
        lib = _lib.loaded()
        if handle and lib is not None:
            self._finalizer.detach()
            _lib.run(lib.pinion_loader_close, handle)

    def __reduce__(self) -> Any:
        """To another process: a loader of its own, that goes on where this one is."""
        state = self.state_dict() if self._handle else self._state
        return _make, (type(self), self._arguments, state)

    def __enter__(self) -> DataLoader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<pinion.DataLoader {self.source!r}>"


class Samples:
    """The samples of a DataLoader, for those who ask how many there are."""

    def __init__(self, loader: DataLoader) -> None:
        self._loader = loader

    def __len__(self) -> int:
        n: int = self._loader._fact("samples")
        if n < 0:
            raise TypeError("a stream has no length: it is read to its end")
        return n


def _make(kind: type[DataLoader], arguments: dict[str, Any], state: dict[str, Any] | None) -> DataLoader:
    loader = kind(**arguments)
    if state is not None:
        loader.load_state_dict(state)
    return loader


PATIENCE = 3000
"""Milliseconds for which the end of the process, or of a loader that was not closed, waits for what is being read."""


def _close(handle: int, out: _lib.Batch) -> None:
    lib = _lib.loaded()
    if lib is not None:
        _dlpack.take(out)
        _lib.run(lib.pinion_loader_close, handle, patience=PATIENCE)


class _Loop:
    """A loop over an epoch."""

    __slots__ = ("_loader", "_turn", "_flags", "_ended")

    def __init__(self, loader: DataLoader, turn: int) -> None:
        self._loader, self._turn, self._flags, self._ended = loader, turn, _lib.FRESH, False

    def __iter__(self) -> _Loop:
        return self

    def __next__(self) -> Any:
        loader = self._loader
        with loader._lock:
            if self._ended:
                raise StopIteration
            lib = _lib.load()
            if self._turn != loader._turn:
                raise RuntimeError("another loop over this DataLoader has begun, or a state was loaded, which ended this loop")
            out, flags, stream = loader._out, self._flags, -1
            if loader._stream is not None:
                stream, capturing = loader._stream()
                flags |= _lib.CAPTURE if capturing else 0
            while not out.hold:  # there is a batch already where an interrupt came before it was given
                code = lib.pinion_loader_next(loader._handle, _lib.POLL, flags, stream, loader._reference)
                if code == _lib.END:
                    self._ended = True
                    raise StopIteration
                if code == _lib.MEMORY and loader._lender is not None:
                    loader._lender.serve()
                elif code < 0:
                    loader._failed = code not in _errors.PASSING
                    if loader._lender is None:
                        _lib.fail(code)
                    try:
                        _lib.fail(code)
                    except Exception as e:
                        raise loader._lender.explain(e)
            self._flags, loader._failed = 0, False
            batch: Any = loader._convert(out)
        if loader._names is not None:
            if len(loader._names) != len(batch):
                raise ValueError(f"names are {', '.join(map(repr, loader._names))}, but a batch has {len(batch)} arrays")
            batch = dict(zip(loader._names, batch))
        if loader._then is not None:
            batch = loader._then(batch)
        return batch


def _stream_of(devices: Sequence[str]) -> Callable[[], tuple[int, bool]] | None:
    """What tells torch's current stream on a device, and whether a graph is being captured there."""
    cuda = _cuda_of_torch()
    if cuda is None:
        return None
    if len(devices) > 1:
        return lambda: (-1, cuda.is_current_stream_capturing())
    number = int(devices[0].partition(":")[2] or 0)
    return lambda: (cuda.current_stream(number).cuda_stream, cuda.is_current_stream_capturing())


def _arrays(out: _lib.Batch) -> tuple[_dlpack.Array, ...]:
    return _dlpack.arrays(out, out.array[: out.arrays])


def _numpy(out: _lib.Batch) -> tuple[Any, ...]:
    # PyTorch's labels are int64, and its losses want that.
    return tuple(a.numpy().astype("int64") if a.role == _lib.LABELS else a.numpy() for a in _arrays(out))


def _torch(out: _lib.Batch) -> tuple[Any, ...]:
    return tuple(a.torch().long() if a.role == _lib.LABELS else a.torch() for a in _arrays(out))


_converters: dict[str, Callable[[_lib.Batch], tuple[Any, ...]]] = {"dlpack": _arrays, "numpy": _numpy, "torch": _torch}
