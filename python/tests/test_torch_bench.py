"""The benchmarks of pinion.torch run, with small sizes, and write what is read from them."""

import importlib
import json
import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

BENCH = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bench")


def run(tmp_path, name, *arguments):
    out = tmp_path / "out.json"
    subprocess.run(
        [sys.executable, os.path.join(BENCH, name), *arguments, "--device", "cpu", "--out", str(out)], check=True, capture_output=True
    )
    return json.loads(out.read_text())


@pytest.mark.parametrize("precision", ["autocast", "bfloat16"])
def test_offload(tmp_path, precision):
    sizes = ("--layers", "1", "--width", "32", "--batch", "1", "--length", "8", "--vocabulary", "50", "--rounds", "1")
    got = run(tmp_path, "offload.py", *sizes, "--precision", precision)
    assert got["model"]["precision"] == precision
    assert [v["name"] for v in got["variants"]] == ["plain", "save_on_cpu", "hide", "hide:0.02", "hide+recast", "all"]
    assert len({v["loss"] for v in got["variants"]}) == 1 and all(v["step_seconds"] > 0 for v in got["variants"])


def test_copies(tmp_path):
    got = run(tmp_path, "copies.py", "--mib", "2", "--rounds", "1")
    assert [(c["name"], c["by"]) for c in got["copies"]] == [(n, b) for n in ("to_device", "to_host") for b in ("pytorch", "pinion")]
    assert got["pinned"][0]["pinned_bytes"] == 129_503_232


def test_windows(tmp_path):
    got = run(tmp_path, "windows.py", "--size", "12", "--window", "4", "--classes", "3", "--rounds", "1")
    assert [w["name"][:14] for w in got["ways"]] == ["all sums on th", "sliding_window", "sliding_window"] and all(w["seconds"] > 0 for w in got["ways"])


def test_idle_time_of_a_trace(monkeypatch):
    """Three steps of two kernels and a mark: 1 of 10 between them, 1 within, and a decoder that is at work half of both."""
    monkeypatch.syspath_prepend(BENCH)
    monkeypatch.syspath_prepend(os.path.join(BENCH, "../../bench/peers"))
    photos = importlib.import_module("photos")
    events = []

    def kernel(stream, start, end, name="kernel"):
        events.append({"cat": "kernel", "name": name, "ts": start, "dur": end - start, "args": {"stream": stream}})

    for start in (0, 10, 20):
        kernel(7, start, start + 4)
        kernel(7, start + 5, start + 8)
        kernel(7, start + 8, start + 9, "at::cuda::spin_kernel(long)")
        kernel(9, start + 4.5, start + 9.25)
        kernel(9, start + 9.25, start + 9.5)
    events.append({"cat": "cpu_op", "ts": 0, "dur": 100})
    found = photos.idle(events)
    assert found == pytest.approx({"between": 1 / 19, "within": 2 / 19, "others between": 0.5 / 19, "others within": 1 / 19})
