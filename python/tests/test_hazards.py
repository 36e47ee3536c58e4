"""What a library inside Python must survive: signals, forks, exits in any order, other runtimes. Each in a process of
its own. None depends on how fast the machine is: time limits only end what hangs."""

import os
import shutil
import signal
import subprocess

import pytest

from conftest import Child

pytest.importorskip("numpy")

START = """
import os, sys, time, threading, signal, gc
import numpy as np, pinion
from pinion import _lib
PHOTOS, ARRAY = sys.argv[1:3]
def small(output="numpy", **k): return pinion.DataLoader(ARRAY, 64, device="host", output=output, **k)
def photos(output="numpy", **k): return pinion.DataLoader(PHOTOS, 8, device="host", output=output, **k)
def forever(loader):
    while True:
        for batch in loader: pass
"""

FORK = (
    START
    + """
loader = small(); it = iter(loader); (x,) = next(it); s = float(x.sum())
def run(child):
    pid = os.fork()
    if pid == 0:
        try: child(); os._exit(0)
        except pinion.ForkedError as e: print(e, flush=True); os._exit(7)
        except BaseException as e: print(repr(e), flush=True); os._exit(9)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
"""
)


@pytest.fixture
def run(child, photos, array):
    """Runs a program that begins with START, or with another text."""

    def run(body, want=0, start=START, **more):
        import textwrap

        return child(start + textwrap.dedent(body), photos, array, want=want, **more)

    return run


@pytest.fixture
def interrupted(photos, array):
    """Runs a program, and sends it a signal some time after it says something."""

    def run(body, number, want):
        import textwrap
        import time

        child = Child(START + textwrap.dedent(body), photos, array)
        assert child.line()
        time.sleep(0.5)
        child.process.send_signal(number)
        code, out, err = child.end()
        assert code == want, f"exit code {code}, want {want}\n{out}\n{err}"
        return out + err

    return run


# Signals.


@pytest.mark.parametrize("what", ["photos(num_workers=1)", "small()"])
def test_interrupt_is_an_exception(interrupted, what):
    out = interrupted(
        f"""
        loader = {what}
        try: print("started", flush=True); forever(loader)
        except KeyboardInterrupt: print("interrupted")
        """,
        signal.SIGINT,
        0,
    )
    assert "interrupted" in out


def test_interrupt_while_a_server_is_silent(interrupted):
    out = interrupted(
        """
        import socket
        server = socket.create_server(("127.0.0.1", 0))
        try: print("started", flush=True); next(iter(pinion.DataLoader(f"http://127.0.0.1:{server.getsockname()[1]}/train.tar", 8, device="host", output="numpy")))
        except KeyboardInterrupt: print("interrupted")
        """,
        signal.SIGINT,
        0,
    )
    assert "interrupted" in out


@pytest.mark.parametrize("what", ["load_file(FILE, framework='np')", "save_file(want, FILE)"])
def test_interrupt_of_a_checkpoint(interrupted, tmp_path, what):
    """The file is whole all the same, and serves again."""
    out = interrupted(
        f"""
        from pinion.safetensors import load_file, save_file
        FILE, want = {str(tmp_path / "x.safetensors")!r}, {{str(i): np.full(1 << 20, i, np.float32) for i in range(8)}}
        save_file(want, FILE)
        try:
            print("started", flush=True)
            while True: {what}
        except KeyboardInterrupt: print("interrupted")
        got = load_file(FILE, framework="np")
        assert got.keys() == want.keys() and all((got[k] == want[k]).all() for k in want)
        assert os.listdir(os.path.dirname(FILE)) == ["x.safetensors"]
        """,
        signal.SIGINT,
        0,
    )
    assert "interrupted" in out


def test_interrupt_uncaught(interrupted):
    interrupted("loader = photos(); next(iter(loader)); print('started', flush=True); forever(loader)", signal.SIGINT, -signal.SIGINT)


def test_terminate(interrupted):
    interrupted("loader = photos(); next(iter(loader)); print('started', flush=True); forever(loader)", signal.SIGTERM, -signal.SIGTERM)


def test_signal_storm(run):
    run("""
        n = 0
        def count(*_):
            global n; n += 1
        for s in (signal.SIGUSR1, signal.SIGALRM, signal.SIGPROF, signal.SIGVTALRM): signal.signal(s, count)
        timers = (signal.ITIMER_REAL, signal.ITIMER_PROF, signal.ITIMER_VIRTUAL)
        for t in timers: signal.setitimer(t, .001, .001)
        k = sum(len(x) for x, y in photos())
        while n < 20: next(iter(small()))
        for t in timers: signal.setitimer(t, 0)
        assert k == 96
    """)


# Forks.


def test_fork_child_reads_and_drops_arrays(run):
    run(
        """
        def child():
            global x, it, loader
            assert float(x.sum()) == s
            del x, it, loader; gc.collect()
        assert run(child) == 0
        for (x,) in loader: pass
        """,
        start=FORK,
    )


def test_fork_child_uses_the_loader(run):
    out = run(
        """
        for use in (lambda: next(it), lambda: len(loader), lambda: next(iter(small())), lambda: iter(loader),
                    lambda: loader.state_dict(), lambda: x.base.__dlpack__()):
            assert run(use) in (7, 9 if use.__code__.co_names[0] == "x" else 7)
        next(it)
        """,
        start=FORK,
    )
    assert "start method 'spawn' or 'forkserver'" in out and all(len(line) < 250 for line in out.splitlines())


def test_fork_child_exits(run):
    run(
        """
        pid = os.fork()
        if pid == 0: sys.exit(3)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3
        """,
        start=FORK,
    )


def test_fork_pool_beside_the_loader(run):
    run("""
        import multiprocessing as mp
        def f(i): return np.arange(1000).sum() + i
        loader = photos(); it = iter(loader); next(it)
        with mp.get_context("fork").Pool(4) as p:
            for r in range(10):
                assert p.map(f, range(8))[3] == 499500 + 3
                next(it, None)
    """)


def test_fork_workers_of_torch_beside_the_loader(run):
    pytest.importorskip("torch")
    run("""
        import torch
        from torch.utils.data import DataLoader, TensorDataset
        loader = photos("torch"); it = iter(loader); next(it)
        other = DataLoader(TensorDataset(torch.arange(512.)), batch_size=32, num_workers=2)
        for r in range(2):
            assert sum(float(b[0].sum()) for b in other) == 511 * 256
            next(it, None)
    """)


def test_fork_from_a_thread_whose_child_returns(run):
    run("""
        loader = small(); it = iter(loader); next(it)
        codes = []
        def work():
            next(it)
            pid = os.fork()
            if pid == 0: return  # this is the child's main thread: the child ends
            codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        t = threading.Thread(target=work); t.start(); t.join()
        assert codes == [0], codes
    """)


def test_fork_child_dies_of_signals(run):
    run(
        """
        import ctypes
        def term(): os.kill(os.getpid(), signal.SIGTERM); time.sleep(60)
        assert run(term) == -signal.SIGTERM
        assert run(lambda: ctypes.string_at(0)) == -signal.SIGSEGV
        """,
        start=FORK,
    )


def test_fork_before_the_first_use(run):
    run("""
        loader = small()
        pid = os.fork()
        n = sum(len(x) for (x,) in loader)
        loader.close()
        if pid == 0: os._exit(0 if n == 65536 else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0 and n == 65536
    """)


def test_fork_then_first_use_in_the_child(run):
    run("""
        pid = os.fork()
        if pid == 0: os._exit(0 if sum(len(x) for (x,) in small()) == 65536 else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    """)


# Exits.


def test_exit_with_everything_alive(run):
    run("""
        a = photos(); it = iter(a); x, y = next(it); z = x[:1]; b = small(); it2 = iter(b); k = next(it2)
        c = small("dlpack"); d = next(iter(c)); e = d[0].__dlpack__()
    """)


def test_exit_with_a_cycle(run):
    run("""
        class A: pass
        a = A(); a.a = a; a.loader = photos(); a.it = iter(a.loader); a.x = next(a.it); a.b = _lib.Batch
    """)


def test_exit_by_an_exception(run):
    assert "ValueError" in run("for batch in photos(): raise ValueError", want=1)


def test_exit_while_a_thread_waits(run):
    run("threading.Thread(target=forever, args=(photos(num_workers=1),), daemon=True).start(); time.sleep(.2)")


def test_exit_at_once(run):
    run("loader = photos(); next(iter(loader)); os._exit(0)")


def test_exit_from_atexit(run):
    run("""
        import atexit
        atexit.register(lambda: next(iter(small())))
        loader = small(); next(iter(loader))
    """)


# Lifetimes.


def test_capsules_that_nobody_takes(run):
    run("""
        loader = small("dlpack"); (a,) = next(iter(loader)); holds = _lib.load().pinion_holds
        c, v = a.__dlpack__(), a.__dlpack__(max_version=(1, 1))
        del a
        assert holds() == 1
        del c
        assert holds() == 1
        del v
        assert holds() == 0
        loader.close()
    """)


def test_iterators_that_are_dropped(run):
    run("""
        loader = small()
        for i in range(50): next(iter(loader))
        for i in range(50):
            for batch in loader: break
        del batch; gc.collect()
        assert _lib.load().pinion_holds() == 0
        assert sum(1 for _ in loader) == 1024
    """)


def test_loaders_that_are_dropped(run):
    run("""
        def threads(): return len(os.listdir("/proc/self/task"))
        def rss(): return int(open("/proc/self/statm").read().split()[1]) * 4096 >> 20
        for i in range(100):
            next(iter(pinion.DataLoader(ARRAY, 16384, device="host", output="numpy")))  # takes megabytes
            if i == 20: before = rss(), threads()
        gc.collect()
        assert rss() < before[0] + 100 and threads() < before[1] + 50, (before, rss(), threads())
        assert _lib.load().pinion_holds() == 0
    """)


def test_close_while_arrays_are_alive(run):
    run("""
        loader = photos(); it = iter(loader); x, y = next(it); s = float(x.sum()); loader.close()
        assert float(x.sum()) == s and not x.flags.owndata
        del x, y, it; gc.collect()
        assert _lib.load().pinion_holds() == 0
    """)


def test_close_while_a_thread_waits(run):
    run("""
        loader = photos(num_workers=1); ended = []
        def work():
            try: forever(loader)
            except pinion.ClosedError: ended.append(True)
        t = threading.Thread(target=work); t.start(); time.sleep(.2); loader.close(); t.join()
        assert ended
    """)


def test_exit_while_a_thread_waits_for_what_never_comes(run):
    run("""
        import socket
        server = socket.create_server(("127.0.0.1", 0)); ended = []
        loader = pinion.DataLoader(f"http://127.0.0.1:{server.getsockname()[1]}/train.tar", 8, device="host", output="numpy")
        def work():
            try: next(iter(loader))
            except Exception as e: ended.append(e)
        t = threading.Thread(target=work, daemon=True); t.start(); time.sleep(.3)
    """)


def test_two_threads_share_an_iterator(run):
    run("""
        it, n = iter(small()), []
        def work(): n.append(sum(len(x) for (x,) in it))
        threads = [threading.Thread(target=work) for _ in range(4)]
        [t.start() for t in threads]; [t.join() for t in threads]
        assert sum(n) == 65536, n
    """)


# Faults.


def test_a_fault_in_go_is_an_exception(run):
    assert "nil pointer" in run("""
        try: _lib.check(_lib.load().pinion_test_panic())
        except pinion.InternalError as e: print(e)
        next(iter(small()))
    """)


def test_a_fault_in_go_with_faulthandler(run):
    assert "nil pointer" in run("""
        import faulthandler; faulthandler.enable()
        try: _lib.check(_lib.load().pinion_test_panic())
        except pinion.InternalError as e: print(e)
        next(iter(small()))
    """)


def test_a_fault_of_another_extension_is_pythons(run):
    out = run(
        """
        import ctypes, faulthandler; faulthandler.enable()
        next(iter(small())); ctypes.string_at(0)
        """,
        want=-signal.SIGSEGV,
    )
    assert "Fatal Python error: Segmentation fault" in out


def test_faulthandler_that_comes_later_gets_faults_in_go(run):
    """A limit that is known: Python's handler then stands before Go's, and ends the process as for any fault."""
    run(
        """
        import faulthandler
        _lib.load(); faulthandler.enable(); _lib.load().pinion_test_panic()
        """,
        want=(-signal.SIGABRT, -signal.SIGSEGV),
    )


def test_subprocess_beside_the_loader(run):
    run("""
        import subprocess
        loader = photos(); it = iter(loader); next(it)
        for i in range(20): assert subprocess.run(["true"]).returncode == 0; next(it, None)
    """)


def test_subinterpreters(run):
    """They load it where they load ctypes; where not, they say so, and the main interpreter goes on."""
    pytest.importorskip("_xxsubinterpreters")
    out = run("""
        import _xxsubinterpreters as si
        loader = small(); next(iter(loader))
        i = si.create()
        try: si.run_string(i, "import pinion; print('samples:', sum(len(a) for (a,) in pinion.DataLoader(%r, 64, device='host', output='dlpack')))" % ARRAY)
        except si.RunFailedError as e: print(e)
        si.destroy(i)
        next(iter(loader))
    """)
    assert "samples: 65536" in out or "_ctypes does not support loading in subinterpreters" in out


OTHER = """
package main

import "C"
import "sync"

func main() {}

//export busy
func busy(n C.int) {
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			k := 0
			for range int(n) {
				k += len(make([]byte, 10000))
			}
		})
	}
	wg.Wait()
}

//export nilpanic
func nilpanic() (r C.int) {
	defer func() {
		if recover() != nil {
			r = 1
		}
	}()
	var p *int
	return C.int(*p)
}
"""


@pytest.fixture(scope="session")
def other(tmp_path_factory):
    """Another library in Go."""
    if not shutil.which("go") or not shutil.which("cc"):
        pytest.skip("needs Go and a C compiler")
    folder = tmp_path_factory.mktemp("other")
    (folder / "main.go").write_text(OTHER)
    (folder / "go.mod").write_text("module other\n\ngo 1.26\n")
    subprocess.run(["go", "build", "-buildmode=c-shared", "-o", "other.so", "."], cwd=folder, check=True, env={**os.environ, "CGO_ENABLED": "1"})
    return str(folder / "other.so")


@pytest.mark.parametrize("first", ["other", "pinion"])
def test_two_runtimes_of_go(run, other, first):
    load = "import ctypes, os; other = ctypes.CDLL(os.environ['OTHER']); other.busy(100)\n"
    run(
        """
        n = 0
        for x, y in loader: n += len(x); other.busy(1000)
        assert n == 96
        try: _lib.check(_lib.load().pinion_test_panic())
        except pinion.InternalError: pass
        assert other.nilpanic() == 1
        loader.close()
        """,
        start=load + START + "loader = photos()\n" if first == "other" else START + "loader = photos(); next(iter(loader))\n" + load,
        env={"OTHER": other},
    )


# Exceptions.


def test_an_exception_of_the_transform_has_its_traceback(run):
    out = run(
        """
        def halve(batch): return 1 / 0
        next(iter(photos(transform=halve)))
        """,
        want=1,
    )
    assert "in halve" in out and "ZeroDivisionError" in out


def test_a_sample_that_cannot_be_read(run, tmp_path):
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\nnothing")
    out = run(f"""
        try: next(iter(pinion.DataLoader({str(tmp_path)!r}, 1, device="host", output="numpy")))
        except pinion.SampleError as e: print(e.index, e.name, e.epoch, e.batch, e)
    """)
    assert "0 " in out and "broken.png" in out


def test_out_of_memory(run):
    out = run("""
        try: next(iter(pinion.DataLoader(ARRAY, 4096, device="host:16KiB", output="numpy")))
        except MemoryError as e: print("memory:", e)
    """)
    assert "memory:" in out


def test_out_of_memory_is_torchs(run):
    torch = pytest.importorskip("torch")
    if not hasattr(torch, "OutOfMemoryError") and not hasattr(torch.cuda, "OutOfMemoryError"):
        pytest.skip("this torch has no OutOfMemoryError")
    out = run("""
        import torch
        try: next(iter(pinion.DataLoader(ARRAY, 4096, device="host:16KiB")))
        except getattr(torch, "OutOfMemoryError", torch.cuda.OutOfMemoryError) as e: print("memory:", e)
    """)
    assert "memory:" in out
