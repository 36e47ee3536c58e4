"""pinion.monitor, and what other processes see of this one."""

import json
import os
import signal
import socket
import subprocess
import sys
import time

import pytest

from conftest import Child, command

START = """
import json, os, socket, sys, time
import pinion, pinion.monitor as monitor
FOLDER = os.environ["PINION_TOP"]
def sockets(): return sorted(os.listdir(FOLDER)) if os.path.isdir(FOLDER) else []
def mine(): return [s for s in sockets() if s.split("-")[0] == str(os.getpid())]
"""

# What torch.cuda tells on a GPU, as far as it is used. Device 1 is not used; device 2 has an allocator that does not tell.
TORCH = """
import types
def stats(i):
    if i == 2: raise RuntimeError("CUDAPluggableAllocator does not yet support getDeviceStats")
    known = {"allocation.all.allocated": 10 * (i == 0), "allocation.all.freed": 4, "allocation.all.current": 6,
             "segment.all.allocated": 3, "segment.all.freed": 1, "num_alloc_retries": 1, "num_ooms": 2}
    for j, k in enumerate(("reserved", "allocated", "active", "inactive_split", *(("requested",) if NEW else ()))):
        known[k + "_bytes.all.current"] = 1000 * (j + 1)
    return known
NEW, ready = True, True
sys.modules["torch"] = types.SimpleNamespace(cuda=types.SimpleNamespace(
    is_initialized=lambda: ready, device_count=lambda: 3, memory_stats=stats))
"""


@pytest.fixture
def folder(tmp_path_factory):
    return str(tmp_path_factory.mktemp("s") / "s")


@pytest.fixture
def run(child, folder, array):
    def run(body, *start, **more):
        import textwrap

        return child(START + "".join(start) + textwrap.dedent(body), array, env={"PINION_TOP": folder}, **more)

    return run


def ask(folder, name, path="/snapshot"):
    """What a process's socket answers."""
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(60)
        s.connect(os.path.join(folder, name))
        s.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
        answer = b""
        while more := s.recv(65536):
            answer += more
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.0 200") and b"Pinion-Api: 1" in head, answer
    return json.loads(body)


def test_snapshot(run):
    run("""
        s = monitor.snapshot()
        assert s["pid"] == os.getpid() and s["loader"] == s["vram"] == s["foreign"] == [] and s["seconds"] > 0
        with pinion.DataLoader(sys.argv[1], 1024, device="host", output="dlpack") as loader:
            assert len(list(loader)) == 64
            (l,) = monitor.snapshot()["loader"]
            assert l["batches"] == 64 and l["samples"] == 65536 and l["loaders"] == 1
            assert {s["stage"] for s in l["stages"]} >= {"read", "idle", "h2d"}
        (l,) = monitor.snapshot()["loader"]
        assert l["batches"] == 64 and l["loaders"] == 0  # what was done stays
    """)


def test_offered_with_the_first_use(run, folder):
    run("""
        loader = pinion.DataLoader(sys.argv[1], 1024, device="host", output="dlpack")
        assert sockets() == []  # nothing was loaded
        next(iter(loader))
        assert len(mine()) == 1 and os.stat(FOLDER).st_mode & 0o777 == 0o700
        monitor.offer(); monitor.offer()
        assert len(mine()) == 1
        monitor.withdraw(); monitor.withdraw()
        assert sockets() == []
        monitor.offer()
        assert len(mine()) == 1
    """)
    assert os.listdir(folder) == []  # taken away at the end


def test_off(child, array, tmp_path):
    for value in ("off", "nonsense"):
        child(
            """
            import sys, pinion, pinion.monitor
            next(iter(pinion.DataLoader(sys.argv[1], 64, device="host", output="dlpack")))
            assert pinion.monitor.snapshot()["loader"]
            try: pinion.monitor.offer()
            except ValueError as e: assert sys.argv[2] == "nonsense" in str(e)
            else: assert sys.argv[2] == "off"
            """,
            array,
            value,
            env={"PINION_TOP": value, "XDG_RUNTIME_DIR": str(tmp_path), "TMPDIR": str(tmp_path)},
        )
    assert not list(tmp_path.iterdir())


def test_seen_from_outside(folder, array):
    body = START + """
next(iter(pinion.DataLoader(sys.argv[1], 64, device="host", output="dlpack")))
print("ready", flush=True)
time.sleep(600)
"""
    children = [Child(body, array, env={"PINION_TOP": folder}) for _ in range(2)]
    for c in children:
        assert c.line() == "ready\n"
    names = {int(name.split("-")[0]): name for name in os.listdir(folder)}
    assert set(names) == {c.process.pid for c in children}
    for pid, name in names.items():
        s = ask(folder, name)
        assert s["pid"] == pid and s["loader"][0]["batches"] == 1
    killed, interrupted = children
    killed.process.kill()
    killed.end()
    interrupted.process.send_signal(signal.SIGINT)
    code, _, _ = interrupted.end()
    assert code == -signal.SIGINT
    assert os.listdir(folder) == [names[killed.process.pid]]  # it could not take it away
    third = Child(body, array, env={"PINION_TOP": folder})
    third.line()
    assert [int(name.split("-")[0]) for name in os.listdir(folder)] == [third.process.pid]  # so that the next one did
    third.process.kill()
    third.end()


def test_pinion_top(folder, array):
    c = Child(START + """
loader = pinion.DataLoader(sys.argv[1], 64, device="host", output="dlpack")
next(iter(loader))
print("ready", flush=True)
time.sleep(600)
""", array, env={"PINION_TOP": folder})
    assert c.line() == "ready\n"
    top = [command(), "top", "--once", "--interval", "200ms"]
    shown = subprocess.run(top, env={**os.environ, "PINION_TOP": folder}, capture_output=True, text=True, check=True)
    assert f"{c.process.pid}  " in shown.stdout and "1 process" in shown.stdout and "samples/s" in shown.stdout
    shown = subprocess.run([*top, "--json"], env={**os.environ, "PINION_TOP": folder}, capture_output=True, text=True, check=True)
    (p,) = json.loads(shown.stdout)["processes"]
    assert p["pid"] == c.process.pid == p["snapshot"]["pid"] and p["command"].startswith(sys.executable)
    c.process.kill()
    c.end()


def test_fork(run):
    # A child leaves the socket alone, whatever its end, and cannot be found itself.
    run("""
        def fork(body):
            pid = os.fork()
            if pid == 0: body()
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        def refused():
            for f in (monitor.snapshot, monitor.offer, monitor.watch):
                try: f()
                except pinion.ForkedError: continue
                os._exit(9)
            watch.stop()
            os._exit(0)
        monitor.offer()
        watch = monitor.watch(0.001)
        before = mine()
        for i in range(20):  # also while the thread has the lock
            assert fork(refused) == 0
            assert fork(lambda: sys.exit(3)) == 3
        assert mine() == before == sockets()
        watch.stop()
        assert monitor.snapshot()["pid"] == os.getpid()
    """, TORCH)


def test_watch(run):
    run("""
        kept = monitor.watch(1000)  # too long to be waited for: snapshot() reads at once
        want = dict(source="pytorch", device="cuda:0", reserved_bytes=1000, allocated_bytes=2000, active_bytes=3000,
                    fragmented_bytes=4000, requested_bytes=5000, blocks=6, allocations=10, frees=4, driver_calls=4,
                    retries=1, out_of_memory=2)
        assert monitor.snapshot()["foreign"] == [want]
        with monitor.watch() as other:
            assert monitor.snapshot()["foreign"] == [want]
        assert monitor.snapshot()["foreign"] == [want]
        NEW = False  # a PyTorch before 2.0
        assert monitor.snapshot()["foreign"] == [{**want, "requested_bytes": 2000}]
        ready = False  # CUDA was not used yet
        assert monitor.snapshot()["foreign"] == []
        ready = True
        kept.stop(); kept.stop()
        assert monitor.snapshot()["foreign"] == []
        with monitor.watch(float("inf")) as once:  # it reads once, and whenever somebody asks
            once._thread.join(.05)
            assert once._thread.is_alive()
        once._thread.join()
        try: monitor.watch(0)
        except ValueError as e: assert "interval is 0" in str(e)
        else: assert False
    """, TORCH)


def test_watch_reads_by_itself(folder, array):
    c = Child(START + TORCH + "watch = monitor.watch(0.01)\nprint('ready', flush=True)\ntime.sleep(600)\n", array, env={"PINION_TOP": folder})
    assert c.line() == "ready\n"
    (name,) = os.listdir(folder)
    end = time.monotonic() + 60
    while not (found := ask(folder, name)["foreign"]) and time.monotonic() < end:
        time.sleep(0.02)
    assert found[0]["source"] == "pytorch" and found[0]["reserved_bytes"] == 1000
    c.process.send_signal(signal.SIGTERM)
    assert c.end()[0] == -signal.SIGTERM


SNAPSHOT = os.path.join(os.path.dirname(__file__), "..", "..", "vram", "trace", "testdata", "torch-2.11.pickle")

# The segments that PyTorch 2.11 told on a GPU, with stacks, and what asks for the dashboard's map.
MAP = f"""
import pickle, urllib.error, urllib.request
segments = pickle.load(open({os.path.abspath(SNAPSHOT)!r}, "rb"))["segments"]
def memory_snapshot(**options):
    if options and not NEW: raise TypeError("memory_snapshot() got an unexpected keyword argument")
    assert options in ({{}}, {{"include_traces": False}})
    return segments
sys.modules["torch"].cuda.memory = types.SimpleNamespace(memory_snapshot=memory_snapshot)
def get(path): return json.load(urllib.request.urlopen(page.url + path, timeout=60))
def pools():
    end = time.monotonic() + 60
    while not (found := [p for p in get("api/memory")["pools"] if p["source"] == "pytorch"]) and time.monotonic() < end:
        time.sleep(.02)
    return found
"""


def test_blocks_of_torch(run):
    run("""
        blocks = [b for s in segments for b in s["blocks"]]
        live = [b for b in blocks if b["state"] == "active_allocated"]
        assert len(live) > 2 and len(blocks) > len(live)
        for NEW in (True, False):  # a PyTorch before 2.10 sends its history along
            with monitor.watch(0.01), monitor.serve() as page:
                pools()  # blocks are read once somebody looks
                while not (p := pools()[0])["blocks"]: time.sleep(.02)
                assert p["device"] == "cuda:0" and p["blocks"] == len(live)
                assert p["reserved_bytes"] == sum(s["total_size"] for s in segments)
                assert p["allocated_bytes"] == sum(b["size"] for b in live)
                assert p["requested_bytes"] == sum(b["requested_size"] for b in live)
                d = get("api/memory?cells=64")
                assert d["states"][-1] == "pytorch" and len(d["map"]["segments"]) == len(segments)
                (most, *_) = get("api/blocks?limit=64")["blocks"]
                want = max(blocks, key=lambda b: b["size"])
                assert most["address"] == hex(want["address"]) and most["bytes"] == want["size"] and most["purpose"] == "pytorch"
                frame = want["frames"][0]
                assert most["stack"][0] == f"{frame['name']} {frame['filename']}:{frame['line']}", most
                holders = get("api/holders")["holders"]
                assert sum(h["allocated_bytes"] for h in holders) == p["allocated_bytes"] and holders[0]["stack"] and holders[0]["name"]
    """, TORCH, MAP)


def test_serve(run):
    run("""
        with monitor.serve() as page:
            assert page.url.startswith("http://127.0.0.1:")
            assert get("api/snapshot")["pid"] == os.getpid()
            try: monitor.serve()
            except pinion.PinionError as e: assert "served already" in str(e)
            else: assert False
        page.stop()
        try: urllib.request.urlopen(page.url, timeout=60)
        except urllib.error.URLError: pass
        else: assert False
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0)); taken.listen()
            try: monitor.serve(taken.getsockname()[1])
            except pinion.PinionError as e: assert "in use" in str(e)
            else: assert False
        try: monitor.serve(1 << 16)
        except ValueError as e: assert "port is 65536" in str(e)
        else: assert False
        page = monitor.serve()  # and it ends with the process
    """, TORCH, MAP)


def test_blocks_that_cannot_be(run):
    run("""
        lib = pinion._lib.load()
        good = dict(source="x", device="d", stacks=[["f"]], segments=[dict(address=512, stream=0, blocks=[dict(bytes=8, state="live", stack=1)])])
        def set(**block):
            m = json.loads(json.dumps(good)); m["segments"][0]["blocks"][0].update(block)
            text = json.dumps([m]).encode(); return lib.pinion_monitor_memory(text, len(text))
        assert set() == 0
        for bad in (dict(bytes=0), dict(bytes=-1), dict(requested_bytes=9), dict(state="odd"), dict(stack=2), dict(stack=-1), dict(bytes=(1 << 63) - 1)):
            assert set(**bad) < 0, bad
        assert lib.pinion_monitor_memory(b"no JSON", 7) < 0
    """, "import pinion._lib\n")


def test_watch_without_torch(run):
    run("""
        with monitor.watch():
            assert monitor.snapshot()["foreign"] == []
        sys.modules["torch"] = None  # as while it is being imported, or cannot be
        with monitor.watch():
            assert monitor.snapshot()["foreign"] == []
    """)


def test_exit_while_watching(run):
    run("monitor.watch(0.001); time.sleep(.05)", TORCH)
    run("w = monitor.watch(0.001); raise SystemExit(5)", TORCH, want=5)


def test_figures_that_cannot_be_read(run):
    """They are no reason for a thread or a snapshot to end; that they cannot is said once."""
    out = run("""
        fault, asked = KeyError("no such figure"), 0
        def broken(i):
            global asked
            asked += 1
            if fault: raise fault
            return stats(i)
        sys.modules["torch"].cuda.memory_stats = broken
        with monitor.watch(0.001):
            assert monitor.snapshot()["foreign"] == []
            for fault in ValueError("odd"), OSError("gone"), RuntimeError("dead"):
                sys.modules["torch"].cuda.device_count = lambda: 1 / 0 if isinstance(fault, OSError) else 3
                seen = asked
                while asked < seen + 3 and not isinstance(fault, OSError): time.sleep(.001)
                assert monitor.snapshot()["foreign"] == []
            fault = None
            end = time.monotonic() + 60
            while not (found := monitor.snapshot()["foreign"]) and time.monotonic() < end: time.sleep(.001)
            assert len(found) == 1
    """, TORCH)
    assert out.count("cannot be read: KeyError: 'no such figure'") == out.count("cannot be read") == 1


@pytest.mark.gpu
def test_watch_a_gpu(run):
    run("""
        import torch, urllib.request
        with monitor.watch(0.01), monitor.serve() as page:
            def get(path): return json.load(urllib.request.urlopen(page.url + path, timeout=60))
            assert monitor.snapshot()["foreign"] == []
            torch.cuda.memory._record_memory_history("state", stacks="python")
            x = torch.empty(100 << 20, dtype=torch.uint8, device="cuda:0")
            (f,) = monitor.snapshot()["foreign"]
            assert f["device"] == "cuda:0" and f["allocated_bytes"] == torch.cuda.memory_allocated(0) >= 100 << 20
            assert f["reserved_bytes"] == torch.cuda.memory_reserved(0) and f["blocks"] == 1
            end = time.monotonic() + 60
            while not (found := [p for p in get("api/memory")["pools"] if p["source"] == "pytorch" and p["blocks"]]) and time.monotonic() < end: time.sleep(.02)
            (p,) = found
            assert p["device"] == "cuda:0" and p["blocks"] == 1 and p["allocated_bytes"] == torch.cuda.memory_allocated(0)
            assert p["reserved_bytes"] == torch.cuda.memory_reserved(0)
            b = get("api/blocks?limit=1")["blocks"][0]
            assert b["address"] == hex(x.data_ptr()) and b["requested_bytes"] == 100 << 20 and b["stack"], b
    """)
