#!/bin/bash
# Measures Pinion and its peers on a GPU host, side by side:
#
#   bench/build.sh && bench/h200.sh OUT [PART …]
#
# Parts, in this order: check (the conformance and kernel suites), link, moves,
# peers (for two GPUs), hold, tier, outofcore, weights, processes, photos, feed,
# tune. By default check, link, moves, processes and photos. Each can run alone,
# into the same folder.
#
# bench/build.sh makes .build/ on any machine with Go; this script needs no Go,
# only the CUDA toolkit, a C compiler and PyTorch for the peers. It stops at the
# first thing that fails, and writes one JSON file for each measurement to the
# folder OUT. Peers are measured before Pinion, with as many repeats, and again
# after it into files whose names end in -again. DISK is a folder, on the disk to
# be measured, with 9 GiB of room (default: .build).
set -euo pipefail
cd "$(dirname "$0")/.."
usage="usage: bench/h200.sh OUT [check] [link] [moves] [peers] [hold] [tier] [outofcore] [weights] [processes] [photos] [feed] [tune]"
out=${1:?$usage}
shift
parts=" ${*:-check link moves processes photos} "
for part in $parts; do
	case $part in check | link | moves | peers | hold | tier | outofcore | weights | processes | photos | feed | tune) ;; *) echo "$usage" >&2 && exit 2 ;; esac
done
mkdir -p "$out"
out=$(realpath "$out")
build=$PWD/.build
pinion=$build/pinion
disk=${DISK:-$build}
[ -d .deps ] && export LD_LIBRARY_PATH="$PWD/.deps:${LD_LIBRARY_PATH:-}"
export PYTHONPATH=bench/peers
tmp=$(mktemp -d)
photos=$tmp/photos
random=$disk/random.bin
images=$disk/images.raw
trap 'rm -rf "$tmp" "$random" "$images"' EXIT

part() { [[ $parts == *" $1 "* ]]; }
step() { echo "== $* (${SECONDS} s)"; }

check() { # NAME of the test binary
	(cd "${1//.//}" && PINION_DEVICE=cuda:0 "$build/$1.test" >"$tmp/$1.log" 2>&1) && echo "ok   $1" || {
		echo "FAIL $1"
		tail -40 "$tmp/$1.log"
		exit 1
	}
}

cuda_moves() { [ -x "$tmp/cuda_moves" ] || nvcc -O2 -o "$tmp/cuda_moves" bench/peers/cuda_moves.cu -lcuda; }

# What the bindings rely on, compared with the vendor's headers.
abi() { # FILE.c
	if cc -I"${CUDA_HOME:-/usr/local/cuda}/include" -o "$tmp/abi" "$1" 2>"$tmp/abi.log"; then
		"$tmp/abi" | diff "${1%.c}.txt" - || exit 1
		echo "ok   $1"
	else
		echo "SKIP $1: $(head -1 "$tmp/abi.log")"
	fi
}

if part check; then
	step check
	for file in {device/cuda,imaging/nvjpeg,blas/cublaslt}/testdata/abi/*.c; do
		abi "$file"
	done
	shopt -s nullglob
	for test in "$build"/*.test; do
		check "$(basename "$test" .test)"
	done
fi

if part link; then
	step link
	$pinion devices --json >"$out/devices.json"
	nvcc -O2 -o "$tmp/cuda_link" bench/peers/cuda_link.cu
	"$tmp/cuda_link" >"$out/cpp-link.json"
	python3 bench/peers/torch_link.py >"$out/torch-link.json"
	XDG_CACHE_HOME=$tmp $pinion bench link --device cuda:0 --curves --repeats 9 --copiers 12 --json >"$out/link-curves.json"
	python3 bench/peers/torch_link.py >"$out/torch-link-again.json"
	"$tmp/cuda_link" >"$out/cpp-link-again.json"
fi

if part moves; then
	step moves
	cuda_moves
	cc -O2 -pthread -o "$tmp/direct_read" bench/peers/direct_read.c
	# 4 GiB that no disk can compress and no copy gets right by accident.
	python3 - "$random" <<-'PY'
		import os, sys
		import numpy
		source = numpy.random.Generator(numpy.random.SFC64(7))
		with open(sys.argv[1], "wb") as f:
		    for _ in range(64):
		        source.integers(0, 1 << 64, 8 << 20, dtype=numpy.uint64).tofile(f)
		    f.flush()
		    os.fsync(f.fileno())
	PY
	step "moves: peers"
	"$tmp/cuda_moves" "$random" >"$out/cpp-moves.json"
	python3 bench/peers/torch_moves.py "$random" >"$out/torch-moves.json"
	step "moves: Pinion"
	XDG_CACHE_HOME=$tmp "$build/moves" --device cuda:0 --copiers 16 --file "$random" >"$out/moves.json"
	step "moves: peers again"
	"$tmp/cuda_moves" "$random" >"$out/cpp-moves-again.json"
	python3 bench/peers/torch_moves.py "$random" >"$out/torch-moves-again.json"

	step "moves: disk"
	for i in 1 2 3; do
		"$tmp/direct_read" "$random" 4,8,16 >"$out/disk-c-$i.json" || {
			echo "$disk has no O_DIRECT"
			rm "$out/disk-c-$i.json"
			break
		}
		XDG_CACHE_HOME=$tmp "$build/moves" --device cuda:0 --only disk --file "$random" >"$out/disk-$i.json"
	done
	rm "$random"

	step "moves: queued"
	# The time of the call depends on the core: both on the same one, in turn.
	last=$(($(nproc) - 1))
	core=$((last < 3 ? last : 3))
	pin=()
	command -v taskset >/dev/null && pin=(taskset -c $core)
	for i in 1 2 3 4 5 6 7; do
		"${pin[@]}" "$tmp/cuda_moves" --queued >"$out/queued-cpp-$i.json"
		"$build/moves" --device cuda:0 --only queued --core $core >"$out/queued-$i.json"
	done
fi

if part peers; then
	step peers
	check device.cuda
	check transfer
	check loader
	cuda_moves
	"$tmp/cuda_moves" --peer >"$out/cpp-peer.json"
	"$build/moves" --device cuda:0 --only peer >"$out/peer.json"
	"$tmp/cuda_moves" --peer >"$out/cpp-peer-again.json"
	step "peers: feeding"
	"$build/feeding" --device cuda:0 --only devices --photos "$tmp/photos" --images "$images" --json >"$out/feeding-devices.json"
fi

if part hold; then
	step hold
	check vram
	step "hold: loops, PyTorch"
	python3 bench/peers/torch_loop.py >"$out/torch-loop.json"
	step "hold: loops, Pinion"
	"$build/loop" --device cuda:0 >"$out/loop.json"
	step "hold: loops, PyTorch again"
	python3 bench/peers/torch_loop.py >"$out/torch-loop-again.json"

	step "hold: traces are made"
	generate() { $pinion replay --generate "${@:2}" --seed 1 >"$tmp/$1.jsonl"; } # NAME GENERATOR FLAGS…
	generate random-1000 random --count 1000 --max 4GiB --live 16GiB
	generate random-10000 random --count 10000 --max 1GiB --live 16GiB
	generate growing growing
	generate cycles cycles
	torch_replay() { python3 bench/peers/torch_alloc.py "$tmp"/{random-1000,random-10000,growing,cycles}.jsonl >"$out/$1.json"; }
	step "hold: traces, PyTorch"
	torch_replay torch-replay
	step "hold: traces, Pinion"
	for trace in random-1000 random-10000 growing cycles; do
		for allocator in pinion plain driver; do
			$pinion replay "$tmp/$trace.jsonl" --device cuda:0 --allocator $allocator --json >"$out/replay-$trace-$allocator.json"
		done
		# Once more with so little that 97 % of it is live at the peak.
		capacity=$(python3 -c 'import json, sys; print(int(json.load(sys.stdin)["peak_trace_bytes"] / 0.97))' <"$out/replay-$trace-pinion.json")
		$pinion replay "$tmp/$trace.jsonl" --device cuda:0 --capacity "$capacity" --json >"$out/replay-$trace-pinion-full.json"
	done
	step "hold: traces, PyTorch again"
	torch_replay torch-replay-again
fi

if part tier; then
	step tier
	check tier
	mkdir -p "$disk/tier"
	$pinion bench tier --device cuda:0 --budget 2GiB --array 32MiB --seconds 0.3 --folder "$disk/tier" --json >"$out/tier.json"
	rmdir "$disk/tier"
	step "tier: managed memory"
	$pinion bench managed --device cuda:0 --json >"$out/managed.json"
	step "tier: layers"
	"$build/layers" -device cuda:0 -layers 256 -width 4096 -batch 64 -budget 4GiB
fi

if part outofcore; then
	step outofcore
	check blas.cublaslt
	check outofcore
	step "outofcore: PyTorch"
	python3 bench/peers/torch_outofcore.py --repeats 2 >"$out/torch-outofcore.json"
	step "outofcore: Pinion"
	XDG_CACHE_HOME=$tmp "$build/outofcore" --device cuda:0 --calibrate --repeats 3 >"$out/outofcore.json"
fi

if part weights; then
	step weights
	check checkpoint
	model=$disk/model
	trap 'rm -rf "$tmp" "$random" "$images" "$model"' EXIT
	"$build/weights" --generate "$model"
	step "weights: PyTorch"
	python3 bench/peers/torch_weights.py "$model" >"$out/torch-weights.json"
	step "weights: Pinion"
	"$build/weights" --device cuda:0 --model "$model" >"$out/weights.json"
	step "weights: PyTorch again"
	python3 bench/peers/torch_weights.py "$model" >"$out/torch-weights-again.json"
	step "weights: disk"
	cc -O2 -pthread -o "$tmp/direct_read" bench/peers/direct_read.c
	for i in 1 2 3; do
		"$tmp/direct_read" "$model/model.safetensors" 4,8,16 >"$out/disk-c-weights-$i.json" || {
			echo "$disk has no O_DIRECT"
			rm "$out/disk-c-weights-$i.json"
			break
		}
		"$build/weights" --device cuda:0 --only disk --model "$model" >"$out/disk-weights-$i.json"
	done
	rm -r "$model"
fi

if part processes; then
	step processes
	python3 bench/peers/torch_processes.py >"$out/torch-processes.json"
	$pinion bench processes --device cuda:0 --procs 2 --json >"$out/processes.json"
	python3 bench/peers/torch_processes.py >"$out/torch-processes-again.json"
fi

if part photos; then
	step photos
	# The sample photos, eight times over: enough for a loader to reach its pace.
	XDG_CACHE_HOME=$tmp $pinion feed --device cuda:0 --json >/dev/null 2>&1
	sample=$(ls -d "$tmp"/pinion/sample-photos-*)
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
	python3 bench/peers/torch_loader.py "$sample" 16 >"$out/torch-loader.json"
	feed f32 --workers 16 --epochs 6
	feed f16 --workers 16 --epochs 6 --dtype f16
	feed f32-no-pin --workers 16 --epochs 6 --no-pin
	PINION_LIB_TURBOJPEG=off feed f32-go-decoder --workers 16 --epochs 2
	feed 50-epochs --workers 16 --epochs 50 --dtype f16
	feed checksum-1 --workers 16 --shuffle --seed 5 --checksum
	feed checksum-2 --workers 3 --prefetch 1 --no-pin --shuffle --seed 5 --checksum
	feed checksum-host --device host --workers 16 --shuffle --seed 5 --checksum
	python3 bench/peers/torch_loader.py "$sample" 16 >"$out/torch-loader-again.json"
fi

if part feed; then
	step feed
	feeding() { "$build/feeding" --device cuda:0 --copiers 16 --photos "$photos" --images "$images" --json "$@"; }
	torch_feeding() { # ENDING of the names
		python3 bench/peers/torch_loader.py "$photos" 0 4 8 16 >"$out/torch-loader$1.json"
		python3 bench/peers/torch_decode.py "$photos" 16 >"$out/torch-decode$1.json"
		python3 bench/peers/torch_arrays.py "$images" 0 8 16 >"$out/torch-arrays$1.json"
	}
	feeding --only core >/dev/null # makes the photos
	head -c $((12 * 1024 * 256 * 256 * 3)) /dev/urandom >"$images"
	step "feed: PyTorch"
	torch_feeding ""
	step "feed: Pinion"
	feeding >"$out/feeding.json"
	step "feed: PyTorch again"
	torch_feeding -again
fi

if part tune; then
	step tune
	# In memory, so that no disk is still writing.
	arrays=$(mktemp -d -p /dev/shm)
	trap 'rm -rf "$tmp" "$random" "$images" "$arrays"' EXIT
	[ -d "$photos" ] || "$build/feeding" --device cuda:0 --only core --photos "$photos" >/dev/null
	head -c $((8192 * 256 * 256 * 3)) /dev/urandom >"$arrays/images.raw"
	head -c $((200000 * 256 * 4)) /dev/urandom >"$arrays/rows.raw"
	tune() { # NAME DATASET FLAGS…
		step "tune: $1"
		(cd "$(dirname "$2")" && XDG_CACHE_HOME=$tmp $pinion tune "$(basename "$2")" --device cuda:0 --fresh --json "${@:3}") >"$out/tune-$1.json"
	}
	tune photos-all "$photos"
	# Of a grid that can be measured in minutes.
	tune photos "$photos" --exhaustive --workers 2,4,8,16 --prefetch 2,8 --copiers 4,16
	tune images "$arrays/images.raw" --raw 256x256x3,u8 --exhaustive --workers 4,8,16 --prefetch 2,4 --copiers 4,16
	tune images-no-pin "$arrays/images.raw" --raw 256x256x3,u8 --exhaustive --workers 4,8,16 --prefetch 2,4 --copiers 2,4,8,16 --no-pin
	tune rows "$arrays/rows.raw" --raw 256,f32 --exhaustive
fi

step summary
python3 bench/summary.py "$out"
