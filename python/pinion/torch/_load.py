"""Checkpoints straight into the memory of a model."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import torch

from .. import safetensors
from ._memory import storage_of


class Keys(NamedTuple):
    """What load found besides, as torch's load_state_dict tells it."""

    missing_keys: list[str]
    unexpected_keys: list[str]


def load(model: torch.nn.Module, path: str | os.PathLike[str], strict: bool = True, assign: bool = False, device: Any = None) -> Keys:
    """Loads a .safetensors file, or a sharded checkpoint by its index or folder, into a model.

    As model.load_state_dict(load_file(path), strict, assign), without the copy of all weights on the way: tensors are read
    straight into the parameters, where those have the type of the file, and one after the other where they are cast.
    Missing keys of tied weights, of which files have one, are no error. Modules with their own way of loading get it:
    then the weights are read to the host first.

    assign: put new tensors, of the types in the file, in the place of the model's; needed for a model on the meta device.
    device: where assigned tensors are made. Default: where the model's are, or the CPU for those on the meta device.
    """
    state = {k: v for k, v in model.state_dict(keep_vars=True).items() if isinstance(v, torch.Tensor)}
    if assign or not all(map(_plain, model.modules())) or len(state) != len(model.state_dict()):
        return _by_state_dict(model, path, strict, assign, device)
    meta = [name for name, t in state.items() if t.device.type == "meta"]
    if meta:
        raise ValueError(f"{meta[0]!r} is on the meta device, which has no memory: load with assign=True")
    with safetensors.safe_open(path) as f:
        names = f.keys()
        loaded = {storage_of(state[name]).data_ptr() for name in names if name in state}
        missing = [name for name, t in state.items() if name not in f._tensors and storage_of(t).data_ptr() not in loaded]
        unexpected = [name for name in names if name not in state]
        errors = []
        for name in names:
            if name in state and list(state[name].shape) != f.get_slice(name).get_shape():
                errors.append(
                    f"size mismatch for {name}: copying a param with shape {torch.Size(f.get_slice(name).get_shape())} from checkpoint, "
                    f"the shape in current model is {state[name].shape}."
                )
        if strict and missing:
            errors.insert(0, "Missing key(s) in state_dict: {}. ".format(", ".join(f'"{k}"' for k in missing)))
        if strict and unexpected:
            errors.insert(0, "Unexpected key(s) in state_dict: {}. ".format(", ".join(f'"{k}"' for k in unexpected)))
        if errors:
            raise RuntimeError("Error(s) in loading state_dict for {}:\n\t{}".format(type(model).__name__, "\n\t".join(errors)))
        direct: dict[torch.device, list[tuple[str, torch.Tensor]]] = {}
        with torch.no_grad():
            for name in f.offset_keys():
                if name not in state:
                    continue
                t = state[name].detach()
                kind = safetensors._dtypes.get(f.get_slice(name).get_dtype(), ("",))[0]
                if f"torch.{kind}" == str(t.dtype) and t.is_contiguous() and t.device.type in ("cpu", "cuda") and type(t) is torch.Tensor:
                    direct.setdefault(t.device, []).append((name, t))
                else:
                    t.copy_(f.get_tensor(name))
            for where, tensors in direct.items():
                f._kind = safetensors._Torch(where)
                f._read([{"name": name, "address": t.data_ptr()} for name, t in tensors])
                for _, t in tensors:
                    if t.dim():
                        t.narrow(0, 0, 0).zero_()  # so that autograd knows that it was written
    return Keys(missing, unexpected)


def _plain(module: torch.nn.Module) -> bool:
    """Whether a module loads as all modules do."""
    own = type(module)
    return (
        own._load_from_state_dict is torch.nn.Module._load_from_state_dict
        and own.load_state_dict is torch.nn.Module.load_state_dict
        and not module._load_state_dict_pre_hooks
        and not getattr(module, "_load_state_dict_post_hooks", None)
    )


def _by_state_dict(model: torch.nn.Module, path: Any, strict: bool, assign: bool, device: Any) -> Keys:
    state = {k: v for k, v in model.state_dict(keep_vars=True).items() if isinstance(v, torch.Tensor)}
    places: dict[Any, list[str]] = {}
    with safetensors.safe_open(path) as f:
        for name in f.offset_keys():
            place = torch.device("cpu")
            if assign:
                place = state[name].device if device is None and name in state else torch.device(device or "cpu")
            places.setdefault(torch.device("cpu") if place.type == "meta" else place, []).append(name)
        tensors: dict[str, torch.Tensor] = {}
        for place, names in places.items():
            f._kind = safetensors._Torch(place)
            tensors.update(f.get_tensors(names))
    by_memory = {(t.device, storage_of(t).data_ptr() if t.device.type != "meta" else id(t)): k for k, t in state.items() if k in tensors}
    for name, t in state.items():  # tied weights, of which files have one
        other = by_memory.get((t.device, storage_of(t).data_ptr() if t.device.type != "meta" else id(t)))
        if name not in tensors and other is not None and t.shape == state[other].shape:
            tensors[name] = tensors[other]
    extra = {"assign": True} if assign else {}
    found = model.load_state_dict(tensors, strict=strict, **extra)
    return Keys(list(found.missing_keys), list(found.unexpected_keys))
