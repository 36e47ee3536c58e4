#!/bin/bash
# Runs pinion doctor, and tries advice that it gives: makes a machine that is worse
# on purpose, follows the advice, and keeps the documents of before and after:
#
#   bench/doctor.sh OUT
#
# It writes to OUT/doctor: report.txt, report.json, and a file for each trial with
# three documents of before and three of after (REPEATS is another number), taken in
# turn. It takes two minutes, on a GPU and with one repeat about one. DEVICE is what
# to check (default: auto), PINION the command (default: .build/pinion). What needs root, or a control group, is left out where it cannot
# be had; nothing that other processes notice is changed, but with SYSTEM=1, which
# switches huge pages off for some seconds.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:?usage: bench/doctor.sh OUT}/doctor
mkdir -p "$out"
out=$(realpath "$out")
pinion=${PINION:-$PWD/.build/pinion}
device=${DEVICE:-auto}
export REPEATS=${REPEATS:-3}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" # the disk that is read, and no path of this machine in a report

doctor() { "$pinion" doctor --device "$device" "$@"; }

# inturn BEFORE AFTER COMMAND…: BEFORE and AFTER are programs that start a command.
inturn() {
	for i in $(seq "$REPEATS"); do
		"$1" "${@:3}" >"$tmp/before-$i.json" 2>/dev/null || true # a check may fail
		"$2" "${@:3}" >"$tmp/after-$i.json" 2>/dev/null || true
	done
}

# keep NAME: prints what was measured, and writes one file.
keep() {
	python3 - "$out/$1.json" <<-'PY'
		import json, os, sys
		runs = {when: [json.load(open(f"{when}-{i}.json")) for i in range(1, int(os.environ["REPEATS"]) + 1)] for when in ("before", "after")}
		for when, documents in runs.items():
		    if "checks" not in documents[0]:
		        for d in documents: # its folder is of no interest
		            d["dataset"] = os.path.basename(d["dataset"])
		        rates = sorted(d["samples_per_s"] for d in documents)
		        print(f"  {when:6}  {rates[len(rates) // 2]:.0f} photos a second ({rates[0]:.0f} to {rates[-1]:.0f})")
		        continue
		    for checks in zip(*(d["checks"] for d in documents)):
		        said = dict.fromkeys(c.get("measured") or c.get("reason") for c in checks)
		        print(f"  {when:6}  {checks[0]['status']:7}  {checks[0]['name']:14}  {' | '.join(said)}")
		with open(sys.argv[1], "w") as f:
		    json.dump(runs, f, indent=1, ensure_ascii=False)
		    f.write("\n")
	PY
}

# trial NAME CHECKS BEFORE AFTER
trial() { inturn "$3" "$4" "$pinion" doctor --device "$device" --only "$2" --json && keep "$1"; }

# feed NAME BEFORE AFTER: photos on the host, where decoding is the work.
feed() { inturn "$2" "$3" "$pinion" feed --device host --epochs 1 --json && keep "$1-feed"; }

plain() { "$@"; }

doctor | tee "$out/report.txt" || true
doctor --json >"$out/report.json" || true
export XDG_CACHE_HOME=$tmp/cache
"$pinion" feed --device host --epochs 1 >/dev/null 2>&1 # makes the photos

echo "== cpu-quota: unset GOMAXPROCS"
one() { GOMAXPROCS=1 "$@"; }
trial processors cpu-quota,copy-threads one plain
feed processors one plain

echo "== libraries: install libturbojpeg"
without() { PINION_LIB_TURBOJPEG=off "$@"; }
trial libraries libraries without plain
feed libraries without plain

echo "== open-files: ulimit -n"
few() { sh -c 'ulimit -S -n 1024; "$@"; exit' sh "$@"; } # it looks at its parent's limit
many() { sh -c 'ulimit -S -n "$(ulimit -H -n)"; "$@"; exit' sh "$@"; }
trial files open-files few many

echo "== cache-folder: XDG_CACHE_HOME"
nowhere() { XDG_CACHE_HOME=/proc "$@"; }
trial cache cache-folder nowhere plain

if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
	echo "== memlock: the capability IPC_LOCK"
	bounded() { (ulimit -S -l 8192 && setpriv --bounding-set -ipc_lock --inh-caps -ipc_lock "$@"); }
	trial memlock memlock,pin-cost bounded plain
fi
if unshare -m true 2>/dev/null; then
	echo "== shared-memory: mount -o remount,size=8G"
	small() { unshare -m sh -c 'mount -t tmpfs -o size=64m none /dev/shm && "$@"' sh "$@"; }
	grown() { unshare -m sh -c 'mount -t tmpfs -o size=64m none /dev/shm && mount -o remount,size=8G /dev/shm && "$@"' sh "$@"; }
	trial shm shared-memory small grown
fi
group=/sys/fs/cgroup/cpu/pinion-doctor-$$
if mkdir "$group" 2>/dev/null; then
	echo "== cpu-quota: raise the quota"
	inside() { sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$group" "$@"; }
	limited() { echo 50000 >"$group/cpu.cfs_quota_us" && inside "$@"; }
	raised() { echo -1 >"$group/cpu.cfs_quota_us" && inside "$@"; }
	limited "$pinion" doctor --only copy-threads >/dev/null # and is stopped meanwhile
	trial quota cpu-quota limited raised
	feed quota limited raised
	rmdir "$group" || true
fi
if [ -n "${SYSTEM:-}" ]; then
	echo "== huge-pages: madvise"
	file=/sys/kernel/mm/transparent_hugepage/enabled
	was=$(sed 's/.*\[\(.*\)\].*/\1/' $file)
	trap 'echo "$was" >$file; rm -rf "$tmp"' EXIT
	with() { # MODE COMMAND…
		echo "$1" >$file
		"${@:2}"
		echo "$was" >$file
	}
	never() { with never "$@"; }
	madvise() { with madvise "$@"; }
	trial huge-pages huge-pages,pin-cost never madvise
fi
if doctor --only calibration --json | grep -q '"warn"'; then
	echo "== calibration: pinion bench link --calibrate"
	model() { # yes or no, COMMAND…; measured once
		[ "$1" = no ] || [ -d model ] || XDG_CACHE_HOME=$tmp/model "$pinion" bench link --device "$device" --calibrate >/dev/null
		XDG_CACHE_HOME=$tmp/$([ "$1" = yes ] && echo model || echo none) "${@:2}"
	}
	before() { model no "$@"; }
	after() { model yes "$@"; }
	trial calibration calibration,staged-copies before after
fi
