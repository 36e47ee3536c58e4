#!/bin/bash
# Measures the photo pipeline on the host backend against a plain Go program
# (bench/peers/plaingo), with as many workers as there are processors:
#
#   bench/host.sh OUT
#
# The three are run in turn, twice, and the peer once more at the end; the first
# turn warms the machine up, and the second overwrites its results.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:?usage: bench/host.sh OUT}
mkdir -p "$out" .build
CGO_ENABLED=0 go build -buildvcs=true -o .build/pinion ./cmd/pinion
CGO_ENABLED=0 go build -o .build/plaingo ./bench/peers/plaingo
workers=$(nproc)
.build/pinion feed --device host --json >/dev/null # makes the sample photos
photos=$(ls -d "${XDG_CACHE_HOME:-$HOME/.cache}"/pinion/sample-photos-* | head -1)
pinion=$PWD/.build/pinion
feed=("$pinion" feed "$(basename "$photos")" --device host --workers "$workers" --epochs 6 --json)
for turn in 1 2; do
	.build/plaingo "$photos" "$workers" >"$out/host-plaingo.json"
	(cd "$photos/.." && "${feed[@]}") >"$out/host-feed.json"
	(cd "$photos/.." && PINION_LIB_TURBOJPEG=off "${feed[@]}") >"$out/host-feed-go-decoder.json"
done
.build/plaingo "$photos" "$workers" >"$out/host-plaingo-again.json"
.build/pinion bench link --device host --size 256MiB --json >"$out/host-link.json"
python3 - "$out" <<'PY'
import json, statistics, sys
load = lambda name: json.load(open(f"{sys.argv[1]}/{name}.json"))
plain = statistics.median(load(name)["rows"][0]["value"] for name in ("host-plaingo", "host-plaingo-again"))
print(f"plain Go {plain:.0f} images/s")
for name in "host-feed", "host-feed-go-decoder":
    # Like the peer, without the first epoch.
    rate = statistics.median(e["samples_per_s"] for e in load(name)["epochs"][1:])
    print(f"{name} {rate:.0f} images/s, {rate / plain:.2f} x")
PY
