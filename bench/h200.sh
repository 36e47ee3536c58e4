#!/bin/bash
# Measures Pinion and its peers on a GPU host, side by side:
#
#   bench/build.sh && bench/h200.sh OUT
#
# bench/build.sh makes .build/ on any machine with Go; this script needs no Go,
# only the CUDA toolkit and PyTorch for the peers. It checks correctness first
# (the conformance and kernel suites), then measures, and writes one JSON file
# for each measurement to the folder OUT.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:?usage: bench/h200.sh OUT}
mkdir -p "$out"
pinion=$PWD/.build/pinion
out=$(realpath "$out")
[ -d .deps ] && export LD_LIBRARY_PATH="$PWD/.deps:${LD_LIBRARY_PATH:-}"
photos=$(mktemp -d)
trap 'rm -rf "$photos"' EXIT

step() { echo "== $*"; }

step correctness
shopt -s nullglob
for test in .build/*.test; do
	name=$(basename "$test" .test)
	(cd "${name//.//}" && PINION_DEVICE=cuda:0 "$OLDPWD/$test" >"/tmp/$name.log" 2>&1) && echo "ok   $name" || {
		echo "FAIL $name"
		tail -40 "/tmp/$name.log"
		exit 1
	}
done

step link
$pinion devices --json >"$out/devices.json"
nvcc -O2 -o /tmp/cuda_link bench/peers/cuda_link.cu
/tmp/cuda_link >"$out/cpp-link.json"
$pinion bench link --device cuda:0 --copiers 12 --repeats 9 --json >"$out/link.json"
PYTHONPATH=bench/peers python3 bench/peers/torch_link.py >"$out/torch-link.json"
/tmp/cuda_link >"$out/cpp-link-again.json"

step photos
# The sample photos, eight times over: enough for a loader to reach its pace.
XDG_CACHE_HOME=$photos $pinion feed --device cuda:0 --json >/dev/null 2>&1
sample=$(ls -d "$photos"/pinion/sample-photos-*)
for i in 1 2 3 4 5 6 7; do
	for class in "$sample"/*/; do
		for f in "$class"*.jpg; do
			case $f in */copy*) continue ;; esac
			ln "$f" "$class/copy$i-$(basename "$f")"
		done
	done
done

step feed
feed() { # NAME FLAGS…
	local name=$1
	shift
	(cd "$sample/.." && $pinion feed "$(basename "$sample")" --device cuda:0 --json "$@") >"$out/feed-$name.json"
}
feed f32 --workers 16 --epochs 4
feed f16 --workers 16 --epochs 4 --dtype f16
feed f32-no-pin --workers 16 --epochs 4 --no-pin
PINION_LIB_TURBOJPEG=off feed f32-go-decoder --workers 16 --epochs 2
feed 50-epochs --workers 16 --epochs 50 --dtype f16
feed checksum-1 --workers 16 --shuffle --seed 5 --checksum
feed checksum-2 --workers 3 --prefetch 1 --no-pin --shuffle --seed 5 --checksum
feed checksum-host --device host --workers 16 --shuffle --seed 5 --checksum
PYTHONPATH=bench/peers python3 bench/peers/torch_loader.py "$sample" 16 >"$out/torch-loader.json"

step summary
python3 bench/summary.py "$out"
