"""What the tests share. They test the package that is installed, or with PYTHONPATH=python the one of the tree, whose
library PINION_LIBRARY names. The device is the host, or PINION_DEVICE."""

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import textwrap

import pytest

DEVICE = os.environ.get("PINION_DEVICE", "host")
os.environ["PINION_TOP"] = "off"  # the tests are not for pinion top to show
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it, and so would their children


def command():
    """The command pinion: of the wheel, or of PINION_COMMAND."""
    beside = os.path.join(sysconfig.get_path("scripts"), "pinion")
    found = os.environ.get("PINION_COMMAND") or (beside if os.path.exists(beside) else shutil.which("pinion"))
    if not found:
        pytest.skip("the command pinion is not installed: name it in PINION_COMMAND")
    return found


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: bool({"child", "run", "program"} & set(item.fixturenames)))  # processes of their own take seconds: last
    gpu = [item for item in items if item.get_closest_marker("gpu")]
    if not gpu:
        return
    try:
        import torch
    except ImportError:
        torch = None
    if torch is None or not torch.cuda.is_available():
        for item in gpu:
            item.add_marker(pytest.mark.skip(reason="PyTorch has no GPU"))


@pytest.fixture(scope="session")
def device():
    return DEVICE


@pytest.fixture(scope="session")
def array(tmp_path_factory):
    """A .npy file of 65536 samples of 4 floats: sample i is 4i, 4i+1, 4i+2, 4i+3."""
    numpy = pytest.importorskip("numpy")
    path = tmp_path_factory.mktemp("array") / "array.npy"
    numpy.save(path, numpy.arange(65536 * 4, dtype=numpy.float32).reshape(-1, 4))
    return str(path)


@pytest.fixture(scope="session")
def photos(tmp_path_factory):
    """A folder of two classes of 48 photos each, as PNGs that the test makes itself."""
    numpy = pytest.importorskip("numpy")
    root = tmp_path_factory.mktemp("photos")
    random = numpy.random.default_rng(1)
    for kind in ("cat", "dog"):
        (root / kind).mkdir()
        for i in range(48):
            write_png(root / kind / f"{i:03d}.png", random.integers(0, 256, (48, 64, 3), dtype=numpy.uint8))
    return str(root)


def write_png(path, pixels):
    """Writes an array of bytes, H x W x 3 or H x W."""
    import struct
    import zlib

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    height, width = pixels.shape[:2]
    rows = b"".join(b"\0" + pixels[y].tobytes() for y in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 2 if pixels.ndim == 3 else 0, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b""))


class Child:
    """A program in a process of its own."""

    def __init__(self, body, *arguments, env=None, python=()):
        self.process = subprocess.Popen(
            [sys.executable, *python, "-c", textwrap.dedent(body), *map(str, arguments)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **(env or {})},
        )  # fmt: skip
        self.before = ""

    def line(self):
        """Waits for a line of its output."""
        line = self.process.stdout.readline()
        self.before += line
        return line

    def end(self, timeout=120):
        """Waits for its end: exit code, output, errors. One that hangs is killed."""
        try:
            out, err = self.process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            out, err = self.process.communicate()
            pytest.fail(f"hangs; so far it said:\n{self.before}{out}\n{err}")
        return self.process.returncode, self.before + out, err


@pytest.fixture
def child():
    """Runs a program in a process of its own, which must end well unless it is told another exit code."""

    def run(body, *arguments, want=0, env=None, python=(), timeout=120):
        code, out, err = Child(body, *arguments, env=env, python=python).end(timeout)
        assert code in (want if isinstance(want, tuple) else (want,)), f"exit code {code}, want {want}\n{out}\n{err}"
        return out + err

    return run
