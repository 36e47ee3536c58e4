"""Inference in overlapping windows, as MONAI does, with sums that are slabs of the result."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as functional

Starts = tuple[int, ...]


def sliding_window(
    inputs: torch.Tensor,
    roi_size: Sequence[int] | int,
    sw_batch_size: int,
    predictor: Callable[..., Any],
    overlap: Sequence[float] | float = 0.25,
    mode: str = "constant",
    sigma_scale: Sequence[float] | float = 0.125,
    padding_mode: str = "constant",
    cval: float = 0.0,
    sw_device: torch.device | str | None = None,
    device: torch.device | str | None = None,
    progress: bool = False,
    roi_weight_map: torch.Tensor | None = None,
    process_fn: Callable[..., Any] | None = None,
    buffer_steps: int | None = None,
    buffer_dim: int = -1,
    with_coord: bool = False,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """``monai.inferers.sliding_window_inference``, with the same arguments and results.

    Sums of predictions are kept on ``sw_device``, but only for the rows of one window along the first spatial
    axis: rows that no further window touches are divided and go to ``device``. So neither the volume nor the
    result has to fit ``sw_device``. Windows and weights, and the order of sums, are MONAI's. The windows of a
    prediction are of one image of the batch. ``buffer_steps`` and ``buffer_dim`` are accepted, and change
    nothing: results do not depend on them. A MetaTensor comes back as a plain tensor, and no gradient goes through.
    """
    axes = inputs.dim() - 2
    if axes < 1:
        raise ValueError(f"the inputs have {inputs.dim()} axes, but must have a batch, channels and at least one more")
    if sw_batch_size < 1:
        raise ValueError(f"sw_batch_size is {sw_batch_size}, but must be at least 1")
    overlaps, sigmas = _each(overlap, axes, "overlap"), _each(sigma_scale, axes, "sigma_scale")
    if any(not 0 <= o < 1 for o in overlaps):
        raise ValueError(f"overlap is {overlap}, but must be at least 0 and less than 1")
    if mode not in ("constant", "gaussian"):
        raise ValueError(f'mode is {mode!r}, but must be "constant" or "gaussian"')
    inputs = inputs.as_subclass(torch.Tensor)
    dtype, size = inputs.dtype, list(inputs.shape[2:])
    runs_on = torch.device(sw_device) if sw_device is not None else inputs.device
    lies_on = torch.device(device) if device is not None else inputs.device
    rois = [int(r) if r is not None and r > 0 else n for r, n in zip(_each(roi_size, axes, "roi_size"), size)]

    before = [max(r - n, 0) // 2 for r, n in zip(rois, size)]
    behind = [max(r - n, 0) - b for r, n, b in zip(rois, size, before)]
    if any(before + behind):
        pads = [p for b, a in zip(reversed(before), reversed(behind)) for p in (b, a)]
        inputs = functional.pad(inputs, pads, mode=padding_mode, **({"value": cval} if padding_mode == "constant" else {}))
    padded = list(inputs.shape[2:])
    starts = [_starts(n, r, o) for n, r, o in zip(padded, rois, overlaps)]
    weights = roi_weight_map if roi_weight_map is not None else _weights(rois, mode, sigmas)
    weights = weights.to(dtype=dtype, device=runs_on)
    if weights.dim() == axes and process_fn is None:
        weights = weights[None, None]

    sums: list[_Sums] = []
    names: list[Any] | None = None
    images = range(inputs.shape[0])
    for image, first in _shown(list(itertools.product(images, starts[0])), progress):
        windows = [(first, *rest) for rest in itertools.product(*starts[1:])]
        for at in range(0, len(windows), sw_batch_size):
            batch = windows[at : at + sw_batch_size]
            where = [[slice(image, image + 1), slice(None), *(slice(s, s + r) for s, r in zip(w, rois))] for w in batch]
            data = torch.cat([inputs[tuple(w)] for w in where]).to(runs_on)
            predicted = predictor(data, where, *args, **kwargs) if with_coord else predictor(data, *args, **kwargs)
            parts, names = _flat(predicted)
            weight = weights
            if process_fn is not None:
                parts, weight = process_fn(parts, data, weights)
                weight = weight[None, None] if weight.dim() == axes else weight
                weight = weight.to(dtype=dtype, device=runs_on)
            for i, part in enumerate(parts):
                if i == len(sums):
                    sums.append(_Sums(part, weight, inputs.shape[0], rois, padded, starts, dtype, runs_on, lies_on))
                sums[i].add(batch, part, weight)
        for s in sums:
            s.next(image, first)
    results = [s.cropped(before, size, rois) for s in sums]
    if names is not None:
        return dict(zip(names, results))
    return results[0] if len(results) == 1 else tuple(results)


class _Sums:
    """What is added up of one of the predictor's results, and the rows of it that are done."""

    def __init__(
        self,
        part: torch.Tensor,
        weight: torch.Tensor,
        images: int,
        rois: list[int],
        padded: list[int],
        starts: list[list[int]],
        dtype: torch.dtype,
        runs_on: torch.device,
        lies_on: torch.device,
    ) -> None:
        self.rois, self.starts, shape = rois, starts, list(part.shape[2:])
        # MONAI's arithmetic for results of another size than the window.
        self.zoom = None if shape == rois else [out / float(r) for out, r in zip(shape, rois)]
        whole = [int(n * z) for n, z in zip(padded, self.zoom)] if self.zoom else padded
        self.first_weight = self._scaled(weight, shape)
        slab = [min(shape[0], whole[0]), *whole[1:]]
        self.sums = torch.zeros((part.shape[1], *slab), dtype=dtype, device=runs_on)
        self.counts = torch.zeros(slab, dtype=dtype, device=runs_on)
        self.weighted = self.sums[:0]  # of the last batch: its memory is used again
        self.out = torch.empty((images, part.shape[1], *whole), dtype=dtype, device=lies_on)

    def _at(self, axis: int, place: int) -> int:
        return int(place * self.zoom[axis]) if self.zoom else place

    def _scaled(self, weight: torch.Tensor, shape: list[int]) -> torch.Tensor:
        if self.zoom is None:
            return weight
        scaled: torch.Tensor = functional.interpolate(weight.float(), shape, mode="nearest-exact")
        return scaled.to(weight.dtype)

    def add(self, batch: list[Starts], part: torch.Tensor, weight: torch.Tensor) -> None:
        part, shape = part.detach(), list(part.shape[2:])
        weight = self._scaled(weight.detach(), shape)
        if self.weighted.shape != part.shape:
            self.weighted = torch.empty(part.shape, dtype=torch.result_type(part, weight), device=part.device)
        part = torch.mul(part, weight, out=self.weighted)
        for start, p in zip(batch, part):
            here = [slice(None), slice(None, shape[0])]
            here += [slice(self._at(k, s), self._at(k, s) + n) for k, (s, n) in enumerate(zip(start[1:], shape[1:]), 1)]
            self.sums[tuple(here)] += p.to(self.sums.dtype)
            self.counts[tuple(here[1:])] += self.first_weight[0, 0]

    def next(self, image: int, start: int) -> None:
        """All windows that begin at this row were added."""
        at = self.starts[0].index(start)
        row, end = self._at(0, start), self.out.shape[2]
        if at + 1 < len(self.starts[0]):
            end = self._at(0, self.starts[0][at + 1])
        rows = min(end - row, self.sums.shape[1])
        out = self.out[image, :, row : row + rows]
        if out.device == self.sums.device:
            torch.div(self.sums[:, :rows], self.counts[:rows], out=out)
        else:
            out.copy_(self.sums[:, :rows].div_(self.counts[:rows]))
        last = at + 1 == len(self.starts[0])
        for slab in (self.sums.movedim(1, 0), self.counts):
            kept = 0 if last else slab.shape[0] - rows
            for k in range(0, kept, rows):  # pieces that do not overlap, downwards
                n = min(rows, kept - k)
                slab[k : k + n].copy_(slab[k + rows : k + rows + n])
            slab[kept:].zero_()

    def cropped(self, before: list[int], size: list[int], rois: list[int]) -> torch.Tensor:
        """Without padding, in MONAI's arithmetic."""
        if all(n >= r for n, r in zip(size, rois)):
            return self.out
        scale = [n / r for n, r in zip(self.out.shape[2:], rois)]
        where = [slice(int(round(b * z)), int(round((b + n) * z))) for b, n, z in zip(before, size, scale)]
        return self.out[(slice(None), slice(None), *where)]


def _each(value: Any, axes: int, name: str) -> list[Any]:
    values = list(value) if isinstance(value, Sequence) else [value] * axes
    if len(values) != axes:
        raise ValueError(f"{name} is {value}, which is not for {axes} axes")
    return values


def _starts(size: int, roi: int, overlap: float) -> list[int]:
    interval = roi if roi == size else max(int(roi * (1 - overlap)), 1)
    list_ = []
    for at in range(0, size, interval):
        list_.append(min(at, size - roi))
        if at + roi >= size:
            break
    return list_


def _weights(rois: list[int], mode: str, sigmas: list[float]) -> torch.Tensor:
    weights = torch.ones(())
    for roi, sigma in zip(rois, sigmas):
        line = torch.ones(roi)
        if mode == "gaussian":
            x = torch.arange(-(roi - 1) / 2.0, (roi - 1) / 2.0 + 1, dtype=torch.float)
            line = torch.exp(x**2 / (-2 * (roi * sigma) ** 2))
        weights = weights.unsqueeze(-1) * line
    return weights.clamp(min=max(float(weights.min()), 1e-3))


def _flat(predicted: Any) -> tuple[tuple[torch.Tensor, ...], list[Any] | None]:
    if isinstance(predicted, torch.Tensor):
        return (predicted,), None
    if isinstance(predicted, Mapping):
        names = sorted(predicted.keys())
        return tuple(predicted[n] for n in names), names
    return tuple(predicted), None


def _shown(steps: list[tuple[int, int]], progress: bool) -> Any:
    if not progress:
        return steps
    try:
        from tqdm import tqdm  # type: ignore[import]
    except ImportError:
        return steps
    return tqdm(steps)
