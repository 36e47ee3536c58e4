"""The examples run."""

import os
import re
import subprocess
import sys

import pytest

FOLDER = os.path.join(os.path.dirname(__file__), "../examples")


def run(*arguments):
    if not os.path.isdir(FOLDER):
        pytest.skip("needs the sources of the repository")
    return subprocess.run([sys.executable, *arguments], cwd=FOLDER, check=True, capture_output=True, text=True, timeout=300).stdout


def test_photos(photos):
    pytest.importorskip("numpy")
    out = run("photos.py", photos)
    assert len(re.findall(r"epoch \d: 96 samples, \d+ a second", out)) == 3


def test_train(photos):
    """With the photos of the tests, and one epoch, there is nothing to learn, but both loaders feed a model."""
    pytest.importorskip("torch")
    pytest.importorskip("PIL")
    out = run("train.py", photos, "--epochs", "1", "--size", "32", "--batch", "32", "--workers", "1", "--device", "cpu")
    assert re.fullmatch(r"torch.utils.data.DataLoader +\d+ images/s +\d+% right at last\npinion.DataLoader +\d+ images/s +\d+% right at last\n", out), out
