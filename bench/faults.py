"""Says how long the other rank lives when one of two is killed or stopped, and what is left
in use on the GPUs then.

    python3 bench/faults.py PINION PINION_TRAIN BOOK > faults.json

Ranks are started without a launcher, which would end the other by itself. A rank that is
stopped is missed after 10 s without a sign of life.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

pinion, program, book = sys.argv[1:4]
rows, problems = [], []


def in_use():
    """MiB on each of the two GPUs."""
    out = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"], capture_output=True, text=True, check=True)
    return [int(line) for line in out.stdout.split()][:2]


def row(name, unit, value, **more):
    rows.append({"name": name, "by": "Pinion", "unit": unit, "value": value, "min": value, "max": value} | more)
    print(f"{name}: {value:.4g} {unit}", file=sys.stderr)


def start(rank, port, folder):
    environment = os.environ | {
        "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
    }
    with open(folder / f"{rank}.txt", "w") as f:
        return subprocess.Popen([program, book, "--batch", "8", "--steps", "1000000", "--checkpoint", folder / "run"], env=environment, stdout=f, stderr=f)


port, before = 29600, in_use()
for name, what, limit in (("killed", signal.SIGKILL, 0), ("stopped", signal.SIGSTOP, 10)):
    for victim in (1, 0):
        port += 11
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            ranks = [start(rank, port, folder) for rank in (0, 1)]
            try:
                deadline = time.monotonic() + 60
                while min(in_use()) < max(before) + 1000 and time.monotonic() < deadline:
                    if any(r.poll() is not None for r in ranks):
                        sys.exit("a rank has ended by itself:\n" + "".join((folder / f"{r}.txt").read_text() for r in (0, 1)))
                    time.sleep(0.5)
                else:
                    if min(in_use()) < max(before) + 1000:
                        sys.exit("ranks have not begun to train in 60 s:\n" + "".join((folder / f"{r}.txt").read_text() for r in (0, 1)))
                time.sleep(4)  # they train
                began = time.monotonic()
                ranks[victim].send_signal(what)
                try:
                    ranks[1 - victim].wait(limit + 30)
                    row(f"rank {victim} is {name}: the other ends after", "s", time.monotonic() - began, at_most=limit + 10)
                except subprocess.TimeoutExpired:
                    problems.append(f"rank {victim} is {name}: the other lives on")
            finally:
                for r in ranks:
                    r.kill()
                    r.wait()
            said = (folder / f"{1 - victim}.txt").read_text().replace("\r", "\n").split("\n")
            print("   " + "\n   ".join(line for line in said if "pinion" in line), file=sys.stderr)
            if not any(f"rank {victim} " in line for line in said):
                problems.append(f"rank {victim} is {name}: the other does not say which rank it was")
            time.sleep(1)
            row(f"rank {victim} is {name}: in use on the GPUs then", "MiB more", max(a - b for a, b in zip(in_use(), before)), at_most=0)
devices = json.loads(subprocess.run([pinion, "devices", "--json"], capture_output=True, check=True).stdout)
document = {k: devices[k] for k in ("measured_at", "version", "commit", "platform", "cpu", "cpus") if k in devices}
print(json.dumps({"peer": "Pinion", "what": "ranks"} | document | {"repeats": 1, "rows": rows, "not_available": []}, indent=1))
print("\n".join(problems), file=sys.stderr)
sys.exit(bool(problems))
