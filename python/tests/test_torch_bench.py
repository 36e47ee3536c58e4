"""The benchmarks of pinion.torch run, with small sizes, and write what is read from them."""

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
    assert [v["name"] for v in got["variants"]] == ["plain", "save_on_cpu", "hide", "hide:0.02", "all"]
    assert len({v["loss"] for v in got["variants"]}) == 1 and all(v["step_seconds"] > 0 for v in got["variants"])


def test_copies(tmp_path):
    got = run(tmp_path, "copies.py", "--mib", "2", "--rounds", "1")
    assert [(c["name"], c["by"]) for c in got["copies"]] == [(n, b) for n in ("to_device", "to_host") for b in ("pytorch", "pinion")]
    assert got["pinned"][0]["pinned_bytes"] == 129_503_232
