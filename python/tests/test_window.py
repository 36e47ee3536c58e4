"""pinion.torch.sliding_window: the results are MONAI's."""

import json
import math
import pathlib

import pytest

torch = pytest.importorskip("torch")

import pinion.torch  # noqa: E402
from pinion.torch import _window  # noqa: E402

CASES = json.loads((pathlib.Path(__file__).parents[2] / "window/testdata/monai.json").read_text())


def values(n):
    return [((i * 7919 + 13) % 1000) / 1000 - 0.5 for i in range(n)]


def predict(x):
    """The model of window/testdata/monai.py."""
    inside = math.prod(x.shape[2:])
    ramp = (torch.arange(inside, dtype=torch.float32) / inside).reshape(x.shape[2:])
    first = x[:, :1]
    return torch.cat([first * 2 + ramp, first * first], 1)


def inputs(c, images=1):
    shape = (images, c.get("channels", 1), *c["size"])
    return torch.tensor(values(math.prod(shape)), dtype=torch.float32).reshape(shape)


def options(c):
    dims = len(c["size"])
    many = lambda name, usual: (c.get(name, [usual]) * dims)[:dims] if len(c.get(name, [usual])) == 1 else c[name]  # noqa: E731
    return dict(
        overlap=many("overlap", 0.25), mode=c.get("mode", "constant"), sigma_scale=many("sigma", 0.125),
        padding_mode=c.get("padding", "constant"), cval=c.get("value", 0.0),
    )


@pytest.mark.parametrize("c", CASES, ids=lambda c: f'{c["roi"]} in {c["size"]}')
def test_monai(c):
    got = pinion.torch.sliding_window(inputs(c), c["roi"], c.get("batch", 1), predict, **options(c))
    assert got.shape == (1, 2, *c["size"]) and got.dtype == torch.float32
    torch.testing.assert_close(got.flatten(), torch.tensor(c["want"]), rtol=0, atol=1e-6)


def test_results_of_all_kinds():
    c = CASES[9]
    x = inputs(c, images=2)
    whole = pinion.torch.sliding_window(x, c["roi"], 3, predict, **options(c))
    assert whole.shape[0] == 2
    torch.testing.assert_close(whole[1:], pinion.torch.sliding_window(x[1:], c["roi"], 1, predict, **options(c)), rtol=0, atol=0)
    a, b = pinion.torch.sliding_window(x, c["roi"], 3, lambda w: (predict(w), w), **options(c))
    torch.testing.assert_close(a, whole, rtol=0, atol=0)
    torch.testing.assert_close(b, x, rtol=1e-6, atol=1e-6)
    named = pinion.torch.sliding_window(x, c["roi"], 3, lambda w: {"b": w, "a": predict(w)}, **options(c))
    assert list(named) == ["a", "b"]
    torch.testing.assert_close(named["a"], whole, rtol=0, atol=0)


def test_results_of_another_size():
    x = torch.arange(8 * 12, dtype=torch.float32).reshape(1, 1, 8, 12)
    double = lambda w: w.repeat_interleave(2, 2).repeat_interleave(2, 3)  # noqa: E731
    got = pinion.torch.sliding_window(x, (4, 4), 2, double, overlap=0.5, mode="gaussian")
    torch.testing.assert_close(got, double(x), rtol=1e-6, atol=1e-5)
    half = pinion.torch.sliding_window(x, (4, 4), 2, lambda w: w[:, :, ::2, ::2], overlap=0.5)
    torch.testing.assert_close(half, x[:, :, ::2, ::2], rtol=1e-6, atol=1e-5)


def test_coordinates_weights_and_more_arguments():
    x = torch.rand(2, 1, 7, 6)
    seen = []

    def model(w, where, bias, scale=1.0):
        seen.append((len(w), where))
        for part, at in zip(w, where):
            assert torch.equal(part[None], x[tuple(at)])
        return w * scale + bias

    got = pinion.torch.sliding_window(
        x, 3, 4, model, 0.0, "constant", 0.125, "constant", 0.0, None, None, False, torch.full((3, 3), 0.5), None, 2, -1, True, 1.0, scale=2.0)
    torch.testing.assert_close(got, x * 2 + 1)
    assert sum(n for n, _ in seen) == 2 * 3 * 2
    calls = []

    def process(parts, data, weight):
        calls.append(weight.dim())
        return tuple(2 * p for p in parts), weight

    torch.testing.assert_close(pinion.torch.sliding_window(x, 3, 1, lambda w: w, process_fn=process), 2 * x)
    assert set(calls) == {2}


def test_models_with_gradients():
    model = torch.nn.Conv2d(1, 2, 3, padding=1)
    got = pinion.torch.sliding_window(torch.rand(1, 1, 7, 6), 4, 2, model)
    assert not got.requires_grad and got.shape == (1, 2, 7, 6)


def test_memory_of_sums(monkeypatch):
    """Sums are those of a window along two axes, and of the rows that two rows of windows share."""
    made = []
    first = _window._Sums.__init__

    def init(self, *args):
        first(self, *args)
        made.append(sum(t.numel() for pair in self.slabs for t in pair))

    monkeypatch.setattr(_window._Sums, "__init__", init)
    pinion.torch.sliding_window(torch.zeros(1, 1, 48, 48, 48), 16, 4, lambda w: w.repeat(1, 10, 1, 1, 1), overlap=0.5)
    assert made == [11 * (16 * 16 * 48 + 8 * 48 * 48)]  # a third of 48 x 48 x 48


@pytest.mark.parametrize("arguments, words", [
    (dict(overlap=1.0), "overlap is 1.0"),
    (dict(overlap=(0.5,)), "not for 2 axes"),
    (dict(mode="linear"), "mode is 'linear'"),
    (dict(sw_batch_size=0), "sw_batch_size is 0"),
    (dict(inputs=torch.zeros(3, 3)), "the inputs have 2 axes"),
])
def test_bad_arguments(arguments, words):
    good = dict(inputs=torch.zeros(1, 1, 4, 4), roi_size=2, sw_batch_size=1, predictor=lambda w: w)
    with pytest.raises(ValueError, match=words):
        pinion.torch.sliding_window(**{**good, **arguments})


def test_random_against_monai():
    monai = pytest.importorskip("monai.inferers.utils")
    g = torch.Generator().manual_seed(3)
    pick = lambda n: int(torch.randint(n, (), generator=g))  # noqa: E731
    for _ in range(60):
        dims = 1 + pick(3)
        size, roi = [1 + pick(9) for _ in range(dims)], [1 + pick(8) for _ in range(dims)]
        x = torch.rand(1 + pick(2), 1 + pick(2), *size, generator=g)
        o = dict(overlap=[pick(95) / 100 for _ in range(dims)], mode=("constant", "gaussian")[pick(2)], sigma_scale=0.05 + pick(100) / 100,
                 **(dict(padding_mode="replicate"), dict(cval=0.5))[pick(2)])
        want = monai.sliding_window_inference(x, roi, 1 + pick(4), predict, **o)
        got = pinion.torch.sliding_window(x, roi, 1 + pick(4), predict, **o)
        assert torch.equal(got, want), (size, roi, o)
