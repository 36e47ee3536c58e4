"""pinion.timeline: the file that it writes, and what is in it."""

import os
import shutil
import subprocess

import pytest

SOURCE = os.path.join(os.path.dirname(__file__), "../../internal/cupti/testdata/fakecupti/fakecupti.c")

START = """
import ctypes, json, os, sys, threading
import pinion
ARRAY, FILE = sys.argv[1:]
def load(): return pinion.DataLoader(ARRAY, 1024, device="host", output="dlpack")
def events():
    with open(FILE) as f: return json.load(f)
def spans(trace, group):
    (pid,) = [e["pid"] for e in trace["traceEvents"] if e["name"] == "process_name" and e["args"]["name"] == group]
    return [e for e in trace["traceEvents"] if e["ph"] == "X" and e["pid"] == pid]
"""


@pytest.fixture
def run(child, array, tmp_path):
    import textwrap

    def run(body, **more):
        env = {"PINION_LIB_CUPTI": "off", **more.pop("env", {})}
        return child(START + textwrap.dedent(body), array, tmp_path / "trace.json", env=env, **more)

    return run


@pytest.fixture(scope="session")
def cupti(tmp_path_factory):
    """A stand-in for CUPTI, as internal/cupti has it for its tests."""
    if not os.path.exists(SOURCE) or not shutil.which("cc"):
        pytest.skip("needs the sources of the repository and a C compiler")
    path = str(tmp_path_factory.mktemp("cupti") / "libfakecupti.so")
    subprocess.run(["cc", "-shared", "-fPIC", "-pthread", "-o", path, SOURCE], check=True)
    return path


def test_loader(run):
    run("""
        with pinion.timeline.record(FILE) as recording:
            assert "goes on" in str(recording) and recording.report is None and not os.path.exists(FILE)
            with load() as loader:
                assert len(list(loader)) == 64
        trace = events()
        assert recording.report == trace["otherData"]["overlap"] == recording.stop()
        assert "PINION_LIB_CUPTI" in recording.report["others_error"]
        assert {s["stage"] for s in recording.report["stages"]} >= {"read", "upload", "wait for a batch"}
        (device,) = recording.report["devices"]
        assert device["device"] == "host" and {e["engine"] for e in device["engines"]} >= {"h2d"}
        assert len([e for e in spans(trace, "host") if e["cat"] == "h2d"]) == 64
        text = str(recording)
        assert "loader worker" in text and "h2d" in text and "other libraries is not in it" in text
    """)


def test_one_at_a_time(run):
    run("""
        first = pinion.timeline.record(FILE)
        try: pinion.timeline.record(FILE)
        except pinion.PinionError as e: assert "a recording is on" in str(e)
        else: assert False
        first.stop(); first.stop()
        for records, kind in ((0, ValueError), (5, ValueError), (4095, ValueError), (1 << 31, ValueError), (4096.5, TypeError)):
            try: pinion.timeline.record(FILE, records=records)
            except kind as e: assert kind is TypeError or str(records) in str(e)
            else: assert False
        with pinion.timeline.record(FILE, records=4096): pass
        assert events()["traceEvents"] == []
    """)


def test_file_that_cannot_be(run):
    run("""
        folder = os.path.dirname(FILE)
        for path, kind in ((FILE + "/none/trace.json", FileNotFoundError), (folder, IsADirectoryError), ("", ValueError)):
            try: pinion.timeline.record(path)
            except kind as e: assert path in str(e) or "none" in str(e)
            else: assert False
        # A folder that goes while it is on.
        os.mkdir(folder + "/gone")
        recording = pinion.timeline.record(folder + "/gone/trace.json")
        os.rmdir(folder + "/gone")
        try: recording.stop()
        except FileNotFoundError as e: assert "gone" in str(e)
        else: assert False
        assert "goes on" not in str(recording) and recording.stop() is None
        with pinion.timeline.record(FILE): pass  # that one is over
        # What went wrong in the block is what is told.
        try:
            with pinion.timeline.record(FILE): raise KeyError("mine")
        except KeyError: pass
        else: assert False
    """)


def test_interrupted_stop(run):
    run("""
        import types
        def synchronize(i): raise KeyboardInterrupt
        cuda = types.SimpleNamespace(is_initialized=lambda: True, device_count=lambda: 1, current_device=lambda: 0, synchronize=synchronize)
        recording = pinion.timeline.record(FILE)
        sys.modules["torch"] = types.SimpleNamespace(cuda=cuda)
        try: recording.stop()
        except KeyboardInterrupt: pass
        else: assert False
        assert "goes on" in str(recording) and not os.path.exists(FILE)
        cuda.synchronize = lambda i: None
        assert recording.stop() == events()["otherData"]["overlap"]
    """)


def test_end_of_the_process(run):
    # Also one that nobody stops, in another working directory; a forked child leaves it alone.
    run("""
        folder, name = os.path.split(FILE)
        os.chdir(folder)
        recording = pinion.timeline.record(name)
        next(iter(load()))
        os.chdir("/")
        pid = os.fork()
        if pid == 0:
            assert recording.stop() is None
            sys.exit(3)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3
        assert not os.path.exists(FILE)
        import atexit
        atexit.register(lambda: None)
    """)
    # The child above left nothing; this one looks at what the end of a process writes.
    run("""
        trace = events()
        assert spans(trace, "loader")
        recording = pinion.timeline.record(FILE)
    """)
    run("assert events()['traceEvents'] == []")


def test_others(run, cupti):
    # Threads of Python queue kernels, while the loader runs; the stand-in calls from theirs and from its own.
    run(
        """
        lib = ctypes.CDLL(os.environ["PINION_LIB_CUPTI"])
        lib.fake_work.argtypes = [ctypes.c_uint32] * 4 + [ctypes.c_uint64] * 3 + [ctypes.c_char_p]
        def queue():
            for i in range(5000): lib.fake_work(10, 0, 0, 7, 0, 1000, 0, b"kernel")
        with pinion.timeline.record(FILE) as recording:
            threads = [threading.Thread(target=queue) for _ in range(4)]
            for t in threads: t.start()
            with load() as loader: assert len(list(loader)) == 64
            for t in threads: t.join()
            lib.fake_storm(ctypes.c_uint64(8), ctypes.c_uint64(1000))
            lib.fake_work(1, 1, 0, 13, 0, 2000, 4096, None)
        trace = events()
        found = spans(trace, "cuda:0")
        assert sum(e["name"] == "kernel" for e in found) == 20000 and sum(e["name"] == "storm" for e in found) == 8000
        (copy,) = [e for e in found if e["name"] == "copy h2d"]
        assert copy["cat"] == "h2d" and copy["args"]["bytes"] == 4096 and abs(copy["dur"] - 2) < 0.01
        report = recording.report
        assert "others_error" not in report and "lost_records" not in report
        assert {d["device"] for d in report["devices"]} == {"cuda:0", "host"}
        with pinion.timeline.record(FILE): lib.fake_work(1, 1, 0, 13, 0, 2000, 4096, None)
        assert len(spans(events(), "cuda:0")) == 1
        """,
        env={"PINION_LIB_CUPTI": cupti},
    )


def test_wheel(run, cupti, tmp_path):
    # Where PyTorch is not imported yet, the CUPTI of NVIDIA's wheels is taken.
    folder = tmp_path / "site" / "nvidia" / "cu13" / "lib"
    folder.mkdir(parents=True)
    shutil.copy(cupti, folder / "libcupti.so.13")
    run(
        """
        sys.path.insert(0, sys.argv[2].replace("trace.json", "site"))
        with pinion.timeline.record(FILE) as recording: pass
        assert "others_error" not in recording.report, recording.report
        """,
        env={"PINION_LIB_CUPTI": ""},
    )


def test_another_profiler(run, cupti):
    run(
        """
        with pinion.timeline.record(FILE) as recording: list(load())
        assert "MULTIPLE_SUBSCRIBERS" in recording.report["others_error"] and spans(events(), "loader")
        """,
        env={"PINION_LIB_CUPTI": cupti, "FAKECUPTI_BUSY": "1"},
    )
