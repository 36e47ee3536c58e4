"""Inference in overlapping windows, as MONAI does, with sums that are slabs of the result."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as functional

Starts = tuple[int, ...]

PIECE = 16 << 20
"""Elements of predictions that are weighted at a time."""


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

    Sums of predictions are kept on ``sw_device``, but only of what windows to come still touch; what is done is
    divided and goes to ``device``. So neither the volume nor the result has to fit ``sw_device``. Windows and
    weights, and the order of sums, are MONAI's. The windows of a prediction are of one image of the batch. ``buffer_steps`` and ``buffer_dim`` are accepted, and change
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
    windows = list(itertools.product(*starts))
    for image, at in _shown(list(itertools.product(images, range(0, len(windows), sw_batch_size))), progress):
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
            sums[i].add(image, batch, part, weight)
    for total in sums:
        total.finish()
    results = [s.cropped(before, size, rois) for s in sums]
    if names is not None:
        return dict(zip(names, results))
    return results[0] if len(results) == 1 else tuple(results)


class _Sums:
    """What is added up of one of the predictor's results, as far as windows to come add to it.

    Windows come row by row of the first two axes. ``sums`` are those of a window's extent along both, which
    moves along the second axis. Of what it leaves behind, rows of the first axis that no further window touches
    are done, and the others wait in ``carry`` until it comes by again. So each element is added up in the order
    of the windows, as if all sums were there.
    """

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
        shape = list(part.shape[2:])
        # MONAI's arithmetic for results of another size than the window.
        self.zoom = None if shape == rois else [out / float(r) for out, r in zip(shape, rois)]
        whole = [int(n * z) for n, z in zip(padded, self.zoom)] if self.zoom else padded
        self.out = torch.empty((images, part.shape[1], *whole), dtype=dtype, device=lies_on)
        if self.zoom:
            self.out.fill_(torch.nan)  # where no window comes
        self.flat = len(shape) == 1  # then there is a second axis of one element
        self.whole = self.out.unsqueeze(-1) if self.flat else self.out
        shape, whole = (shape + [1], whole + [1]) if self.flat else (shape, whole)
        starts = starts + [[0]] if self.flat else starts
        # Where windows begin along the first two axes, and how many elements there are done behind each.
        self.firsts = [self._at(0, s) for s in starts[0]]
        self.seconds = [self._at(1, s) for s in starts[1]] if not self.flat else [0]
        self.shape = shape
        self.first_weight = self._scaled(weight, shape)[0, 0]
        wait = max((shape[0] - (b - a) for a, b in zip(self.firsts, self.firsts[1:])), default=0)
        self.slabs = [  # of predictions, and of weights: sums, and carry
            (
                torch.zeros((channels, *shape[:2], *whole[2:]), dtype=dtype, device=runs_on),
                torch.zeros((channels, max(wait, 0), *whole[1:]), dtype=dtype, device=runs_on),
            )
            for channels in (part.shape[1], 1)
        ]
        self.carried = 0  # rows that are in carry
        self.at: tuple[int, int] | None = None  # where sums are: numbers of the starts
        self.image = 0
        self.scratch = self.slabs[0][0].new_empty(0)

    def _at(self, axis: int, place: int) -> int:
        return int(place * self.zoom[axis]) if self.zoom else place

    def _scaled(self, weight: torch.Tensor, shape: list[int]) -> torch.Tensor:
        weight = weight.unsqueeze(-1) if self.flat and weight.dim() < len(shape) + 2 else weight
        if self.zoom is None:
            return weight
        scaled: torch.Tensor = functional.interpolate(weight.float(), shape, mode="nearest-exact")
        return scaled.to(weight.dtype)

    def add(self, image: int, batch: list[Starts], part: torch.Tensor, weight: torch.Tensor) -> None:
        part = part.detach()
        part = part.unsqueeze(-1) if self.flat else part
        weight = self._scaled(weight.detach(), self.shape)
        for i, (start, p) in enumerate(zip(batch, part)):
            second = 0 if self.flat else self._at(1, start[1])
            self._move(image, (self.firsts.index(self._at(0, start[0])), self.seconds.index(second)))
            rest = [slice(self._at(k, s), self._at(k, s) + n) for k, (s, n) in enumerate(zip(start[2:], self.shape[2:]), 2)]
            sums, counts = (slab[(slice(None), slice(None), slice(None), *rest)] for slab, _ in self.slabs)
            w = weight[i if len(weight) > 1 else 0]
            size = max(1, PIECE // max(1, p[0].numel()))
            for channels in range(0, len(p), size):  # little memory for what is weighted
                some = slice(channels, channels + size)
                by = w[some] if len(w) > 1 else w
                shape, kind = p[some].shape, torch.result_type(p, by)
                if self.scratch.shape != shape or self.scratch.dtype != kind:
                    self.scratch = torch.empty(shape, dtype=kind, device=p.device)
                sums[some] += torch.mul(p[some], by, out=self.scratch)
            counts += self.first_weight

    def _move(self, image: int, to: tuple[int, int]) -> None:
        """Moves sums to where a window begins. Windows come in order."""
        if self.at == to and self.image == image:
            return
        if self.at is not None:
            self._leave(None if image != self.image or to[0] != self.at[0] else to[1])
        self.image = image
        first, second = to
        if self.at is None or self.at[0] != first:
            self.carried = 0 if first == 0 else max(self.shape[0] - (self.firsts[first] - self.firsts[first - 1]), 0)
        fresh = 0  # along the second axis, of the window's extent
        if second > 0:
            fresh = max(self.shape[1] - (self.seconds[second] - self.seconds[second - 1]), 0)
        begin = self.seconds[second]
        for sums, carry in self.slabs:
            rows = carry[:, : self.carried, begin + fresh : begin + self.shape[1]]
            sums[:, : self.carried, fresh : fresh + rows.shape[2]].copy_(rows)
            sums[:, self.carried :, fresh:].zero_()
        self.at = to

    def _leave(self, second: int | None) -> None:
        """Takes what is done out of the sums: all of it along the second axis, or what lies before a start."""
        assert self.at is not None
        first, now = self.at
        row, begin = self.firsts[first], self.seconds[now]
        done = self.shape[0]
        if first + 1 < len(self.firsts):
            done = min(self.firsts[first + 1] - row, done)
        width = self.shape[1] if second is None else min(self.seconds[second] - begin, self.shape[1])
        (sums, carry), (counts, waiting) = self.slabs
        out = self.whole[self.image, :, row : row + done, begin : begin + width]
        part, by = sums[:, :done, : out.shape[2]], counts[:, :done, : out.shape[2]]
        if out.device == sums.device:
            torch.div(part, by, out=out)
        else:
            out.copy_(part.div_(by))
        for slab, kept in self.slabs:
            rows = kept[:, : self.shape[0] - done, begin : begin + width]
            rows.copy_(slab[:, done:, : rows.shape[2]])
            if second is not None:
                left = self.shape[1] - width
                for k in range(0, left, width):  # pieces that do not overlap, downwards
                    n = min(width, left - k)
                    slab[:, :, k : k + n].copy_(slab[:, :, k + width : k + width + n])

    def finish(self) -> None:
        """All windows were added."""
        self._leave(None)

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
