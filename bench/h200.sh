#!/bin/bash
# Measures Pinion and its peers on a GPU host, side by side:
#
#   bench/build.sh [PART …] && bench/h200.sh OUT [PART …]
#
# Parts, in the order they are named: check (the conformance and kernel suites),
# link, moves, peers (for two GPUs), parallel (ranks, on several), outofcore, shares (its products in little
# memory and arrays in a store, alone: a minute), tier, weights, hold, processes,
# photos, feed, step (training steps beside PyTorch's), gomlx (the suites of GoMLX's
# backend), kvcache (blocks that leave and come back, and attention over them: a minute and a half), timeline, cupti (PyTorch's kernels on a timeline: half a minute), tune, top
# (half a minute), doctor (pinion doctor, and its advice: a minute), python-tests,
# python. By default check, link, moves, processes and photos.
# Each can run alone, into the same folder. Work with more than the device has:
#
#   bench/h200.sh OUT outofcore tier weights hold check
#
# which takes some 2, 3, 3, 3 and 5 minutes, 40 GiB of device memory, 60 GiB of
# host memory and 20 GiB of disk, and ends with what was wanted and measured.
#
# bench/build.sh makes .build/ on any machine with Go; this script needs no Go,
# only the CUDA toolkit, a C compiler and PyTorch for the peers. A part ends at
# the first program of Pinion's that fails; the others run all the same. So does
# what comes behind a test or a peer that fails, and the script fails in the end.
# It writes one JSON file for each measurement to the
# folder OUT. Peers are measured before Pinion, with as many repeats, and again
# after it into files whose names end in -again. DISK is a folder, on the disk to
# be measured, with 9 GiB of room (default: .build). DEVICE is what to measure
# (default: cuda:0); with QUICK=1 everything that knows small sizes takes them,
# to try the script out: QUICK=1 DEVICE=host bench/h200.sh /tmp/out tier.
set -euo pipefail
cd "$(dirname "$0")/.."
all="check link moves peers parallel outofcore shares tier weights hold processes photos feed step gomlx kvcache timeline cupti tune top doctor python-tests python"
usage="usage: bench/h200.sh OUT [PART …], of $all"
out=${1:?$usage}
shift
parts=("$@")
[ $# -gt 0 ] || parts=(check link moves processes photos)
for part in "${parts[@]}"; do
	[[ " $all " == *" $part "* ]] || { echo "$usage" >&2 && exit 2; }
done
mkdir -p "$out"
out=$(realpath "$out")
build=$PWD/.build
# What was packed by bench/build.sh --pack, on a host that has no Go.
[ ! -e "$build/pack/h200.tar.xz" ] || tar -C "$build" -xJf "$build/pack/h200.tar.xz"
pinion=$build/pinion
disk=${DISK:-$build}
device=${DEVICE:-cuda:0}
quick=()
[ -z "${QUICK:-}" ] || quick=(--quick)
[ -d .deps ] && export LD_LIBRARY_PATH="$PWD/.deps:${LD_LIBRARY_PATH:-}"
export PYTHONPATH=bench/peers
tmp=$(mktemp -d)
photos=$tmp/photos
random=$disk/random.bin
images=$disk/images.raw
model=$disk/model
cold=$disk/cold
arrays=/dev/shm/pinion-$$ # in memory, so that no disk is still writing
trap 'rm -rf "$tmp" "$random" "$images" "$model" "$cold" "$arrays"' EXIT

step() { echo "== $* (${SECONDS} s)"; }

check() { # NAME of a test binary; once. What fails is told in the end.
	[ ! -e "$tmp/$1.log" ] || return 0
	if (cd "${1//.//}" && PINION_DEVICE=$device "$build/$1.test" -test.v -test.timeout 150s >"$tmp/$1.log" 2>&1); then
		# How many tests and their parts passed, and what was skipped, and why.
		echo "ok   $1: $(grep -c '^ *--- PASS' "$tmp/$1.log") passed, $(grep -c '^ *--- SKIP' "$tmp/$1.log" || true) skipped (${SECONDS} s)"
		{
			echo "$1 on $device: $(grep -c '^ *--- PASS' "$tmp/$1.log") passed"
			# The reason is said before.
			grep -B1 '^ *--- SKIP' "$tmp/$1.log" | grep -E -e '--- SKIP|\.go:[0-9]+: ' | cut -c -200 || true
		} >>"$out/tests.txt"
	else
		echo "FAIL $1 (${SECONDS} s)"
		# What failed, before what a compiler or a stack says at length.
		grep -E '^ *--- FAIL|^panic|_test\.go:[0-9]+: |error:' "$tmp/$1.log" | cut -c -300 | head -30 || true
		tail -15 "$tmp/$1.log" | cut -c -300
		cp "$tmp/$1.log" "$out/$1.log"
		{
			echo "$1 on $device: failed"
			grep -E '^ *--- FAIL|^panic' "$tmp/$1.log" | cut -c -200 || true
		} >>"$out/tests.txt"
		echo "$1" >>"$tmp/failed"
	fi
}

peer() { # NAME of the result, SCRIPT and its arguments: a peer that fails ends nothing
	if python3 "bench/peers/$2.py" "${@:3}" >"$out/$1.json"; then
		return
	fi
	echo "FAIL $1"
	rm "$out/$1.json"
}

cuda_moves() { [ -x "$tmp/cuda_moves" ] || nvcc -O2 -o "$tmp/cuda_moves" bench/peers/cuda_moves.cu -lcuda; }

# What the bindings rely on, compared with the vendor's headers.
abi() { # FILE.c, or .cc
	local cuda=${CUDA_HOME:-/usr/local/cuda} compiler=cc wheels
	[[ $1 == *.c ]] || compiler=c++
	wheels=$(python3 -c 'import nvidia; print(list(nvidia.__path__)[0])' 2>/dev/null) || true
	if $compiler -I"$cuda/include" -I"$cuda/extras/CUPTI/include" -I"$wheels/cusparselt/include" -I"$wheels/nccl/include" -o "$tmp/abi" "$1" 2>"$tmp/abi.log"; then
		if [ ! -e "${1%.c*}.txt" ]; then # it has not been seen yet
			mkdir -p "$out/abi"
			"$tmp/abi" >"$out/abi/$(tr / . <<<"${1%.c*}").txt"
			echo "NEW  $1"
		elif diff <(sort "${1%.c*}.txt") <("$tmp/abi" | sort); then
			echo "ok   $1"
		else
			echo "FAIL $1"
			echo "$1" >>"$tmp/failed"
		fi
	else
		echo "SKIP $1: $(head -1 "$tmp/abi.log")"
	fi
}

part_check() {
	local file
	for file in {device/cuda,internal/{nvml,cupti,nvtx},imaging/nvjpeg,blas/{cublaslt,cusparselt},step/internal/cudnn,parallel/nccl}/testdata/abi/*.c*; do
		abi "$file"
	done
	# First what is hardest on a device.
	for file in tier vram outofcore checkpoint managed $(cd "$build" && ls ./*.test | sed 's|^./||; s|.test$||'); do
		check "$file"
	done
}

# Ranks on all GPUs of the host, one each, as torchrun starts them, beside NCCL in C++ and
# PyTorch's DistributedDataParallel: four to five minutes.
part_parallel() {
	local ctas gpus wheels sizes=() most=1GiB launch
	gpus=$(nvidia-smi -L | wc -l)
	wheels=$(python3 -c 'import nvidia; print(list(nvidia.__path__)[0])')
	[ -z "${QUICK:-}" ] || sizes=(--layers 2 --width 64 --heads 2 --batch 2 --length 32 --vocabulary 100) most=1MiB
	launch="torchrun --nproc-per-node $gpus"
	abi parallel/nccl/testdata/abi/abi.c
	check parallel.nccl
	check parallel.copies
	mkdir -p "$out/parallel"
	(cd parallel/nccl && PINION_DEVICE=$device "$build/parallel.nccl.test" -test.run '^$' -test.bench . -test.benchtime 200x) | tee "$out/parallel/nccl.txt"
	ln -sf "$wheels/nccl/lib/libnccl.so.2" "$tmp/libnccl.so"
	step "parallel: NCCL in C++"
	nvcc -O2 -std=c++17 -I"$wheels/nccl/include" -o "$tmp/nccl_collectives" bench/peers/nccl_collectives.cu -L"$tmp" -lnccl -Xlinker -rpath="$wheels/nccl/lib"
	"$tmp/nccl_collectives" >"$out/parallel/cpp-collectives.json"
	step "parallel: collectives"
	$launch --no-python "$pinion" bench collectives --to $most --factor 8 --json >"$out/parallel/collectives.json"
	"$tmp/nccl_collectives" >"$out/parallel/cpp-collectives-again.json"
	step "parallel: what ranks share, and stages"
	"$build/ranks" --device "${device%%:*}" ${QUICK:+--quick} >"$out/ranks.json"
	step "parallel: a step"
	$launch --no-python "$pinion" bench step "${sizes[@]}" --steps 20 --json >"$out/parallel/step-gpt.json"
	$launch --no-python "$pinion" bench step "${sizes[@]}" --steps 20 --no-link --no-copies --json >"$out/parallel/step-gpt-nccl.json"
	step "parallel: PyTorch"
	$launch bench/peers/torch_step.py "${sizes[@]}" --only eager,ddp,ddp-compile --repeats 20 >"$out/parallel/torch-step.json"
	cat docs/*.md >"$tmp/book.txt"
	step "parallel: ranks that are killed and stopped"
	timeout 240 python3 bench/faults.py "$pinion" "$build/pinion-train" "$tmp/book.txt" >"$out/parallel/faults.json" || echo "parallel: faults" >>"$tmp/failed"
	step "parallel: training"
	$build/pinion-train "$tmp/book.txt" --device "$device" --batch $((8 * gpus)) --steps 20 --json >"$out/parallel/train-one.json"
	$launch --no-python "$build/pinion-train" "$tmp/book.txt" --batch 8 --steps 20 --json >"$out/parallel/train-ranks.json"
}

part_gomlx() {
	local file
	for file in step.train gomlx gomlx.batches gomlx.tests cmd.pinion.pinion-train; do
		check "$file"
	done
}

part_kvcache() {
	check kvcache
	(cd kvcache && PINION_DEVICE=$device "$build/kvcache.test" -test.run '^$' -test.bench . -test.benchtime "$([ -z "${QUICK:-}" ] && echo 50x || echo 2x)") | tee "$out/kvcache.txt"
	check kvcache.attention
	peer torch-attention torch_attention
	(cd kvcache/attention && PINION_DEVICE=$device "$build/kvcache.attention.test" -test.run '^$' -test.bench . -test.benchtime "$([ -z "${QUICK:-}" ] && echo 40x || echo 2x)") | tee "$out/attention.txt"
}

part_link() {
	$pinion devices --json >"$out/devices.json"
	nvcc -O2 -o "$tmp/cuda_link" bench/peers/cuda_link.cu
	"$tmp/cuda_link" >"$out/cpp-link.json"
	python3 bench/peers/torch_link.py >"$out/torch-link.json"
	XDG_CACHE_HOME=$tmp $pinion bench link --device "$device" --curves --repeats 9 --copiers 12 --json >"$out/link-curves.json"
	python3 bench/peers/torch_link.py >"$out/torch-link-again.json"
	"$tmp/cuda_link" >"$out/cpp-link-again.json"
}

part_moves() {
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
	XDG_CACHE_HOME=$tmp "$build/moves" --device "$device" --copiers 16 --file "$random" >"$out/moves.json"
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
		XDG_CACHE_HOME=$tmp "$build/moves" --device "$device" --only disk --file "$random" >"$out/disk-$i.json"
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
		"$build/moves" --device "$device" --only queued --core $core >"$out/queued-$i.json"
	done
}

part_peers() {
	check device.cuda
	check transfer
	check loader
	cuda_moves
	"$tmp/cuda_moves" --peer >"$out/cpp-peer.json"
	"$build/moves" --device "$device" --only peer >"$out/peer.json"
	"$tmp/cuda_moves" --peer >"$out/cpp-peer-again.json"
	step "peers: feeding"
	"$build/feeding" --device "$device" --only devices --photos "$tmp/photos" --images "$images" --json >"$out/feeding-devices.json"
}

part_outofcore() {
	check blas.cublaslt
	check outofcore
	# Plans are made by the model of the link.
	export XDG_CACHE_HOME=$tmp
	[ -n "${QUICK:-}" ] || $pinion bench link --device "$device" --calibrate
	# What has a target first.
	step "outofcore: Pinion"
	"$build/outofcore" --device "$device" "${quick[@]}" --repeats 3 --only f32,bf16 >"$out/outofcore.json"
	step "outofcore: PyTorch"
	peer torch-outofcore torch_outofcore --repeats 2
	step "outofcore: the rest"
	"$build/outofcore" --device "$device" "${quick[@]}" --repeats 3 --only tf32,shares,turned,pageable,arrays,stored >"$out/outofcore-more.json"
}

part_shares() {
	check outofcore
	export XDG_CACHE_HOME=$tmp
	[ -n "${QUICK:-}" ] || $pinion bench link --device "$device" --calibrate
	"$build/outofcore" --device "$device" "${quick[@]}" --repeats 3 --only shares,turned,stored >"$out/outofcore-shares.json"
}

part_tier() {
	check tier
	local size=(--budget 2GiB --array 32MiB --seconds 0.3) large=(--budget 4GiB --array 64MiB --seconds 0.05)
	[ -z "${QUICK:-}" ] || size=(--budget 4MiB --array 64KiB --seconds 0.01) large=(--budget 8MiB --array 256KiB --seconds 0.01)
	step "tier: working sets"
	$pinion bench tier --device "$device" "${size[@]}" --json >"$out/tier.json"
	step "tier: a pool under pressure"
	$pinion bench tier --device "$device" "${large[@]}" --ratios 0.5 --json >"$out/tier-large-arrays.json"
	step "tier: files"
	mkdir -p "$disk/tier"
	$pinion bench tier --device "$device" "${size[@]}" --ratios 2 --folder "$disk/tier" --json >"$out/tier-files.json"
	rmdir "$disk/tier"
	step "tier: managed memory"
	$pinion bench managed --device "$device" --json >"$out/managed.json"
	step "tier: layers"
	local layers=(-layers 128 -width 4096 -batch 64 -budget 2GiB)
	[ -z "${QUICK:-}" ] || layers=()
	"$build/layers" -device "$device" "${layers[@]}"
}

part_weights() {
	check checkpoint
	step "weights: Pinion"
	"$build/weights" ${QUICK:+--bytes 67108864} --generate "$model"
	"$build/weights" --device "$device" "${quick[@]}" --model "$model" >"$out/weights.json"
	step "weights: disk"
	cc -O2 -pthread -o "$tmp/direct_read" bench/peers/direct_read.c
	if "$tmp/direct_read" "$model/model.safetensors" 8 >"$tmp/disk.json"; then
		# What the disk reads in two seconds, so that a slow one takes no longer.
		local bytes
		bytes=$(python3 -c 'import json, sys; print(min(8 << 30, max(1 << 30, int(2e9 * json.load(sys.stdin)["rows"][0]["value"]))))' <"$tmp/disk.json")
		[ -z "${QUICK:-}" ] || bytes=67108864
		"$build/weights" --bytes "$bytes" --generate "$cold"
		for i in 1 2 3; do
			"$tmp/direct_read" "$cold/model.safetensors" 8,16 >"$out/disk-c-weights-$i.json"
			"$build/weights" --device "$device" "${quick[@]}" --only disk --model "$cold" >"$out/disk-weights-$i.json"
		done
		step "weights: disk, PyTorch"
		peer torch-weights-cold torch_weights --cold "$cold"
		"$build/weights" --device "$device" "${quick[@]}" --only cold --model "$cold" >"$out/weights-cold.json"
		rm -r "$cold"
	else
		echo "$disk has no O_DIRECT"
	fi
	step "weights: PyTorch"
	cat "$model"/*.safetensors >/dev/null # into the page cache again
	peer torch-weights torch_weights "$model"
	step "weights: Pinion again"
	"$build/weights" --device "$device" "${quick[@]}" --model "$model" >"$out/weights-again.json"
	rm -r "$model"
}

part_hold() {
	check vram
	step "hold: loops, PyTorch"
	peer torch-loop torch_loop
	step "hold: loops, Pinion"
	"$build/loop" --device "$device" "${quick[@]}" >"$out/loop.json"
	step "hold: loops, PyTorch again"
	peer torch-loop-again torch_loop

	step "hold: traces are made"
	generate() { $pinion replay --generate "${@:2}" --seed 1 >"$tmp/$1.jsonl"; } # NAME GENERATOR FLAGS…
	generate random-1000 random --count 1000 --max 4GiB --live 16GiB
	generate random-10000 random --count 10000 --max 1GiB --live 16GiB
	generate growing growing
	generate cycles cycles
	for most in 6 16 20; do
		generate blocks-$most random --count 40000 --max ${most}MiB --live 16GiB
	done
	torch_replay() { peer "$1" torch_alloc "$tmp"/{random-1000,random-10000,growing,cycles}.jsonl; }
	step "hold: traces, PyTorch"
	torch_replay torch-replay
	step "hold: traces, Pinion"
	for trace in random-1000 random-10000 growing cycles blocks-6 blocks-16 blocks-20; do
		for allocator in pinion plain driver; do
			[[ $trace != blocks-* || $allocator == pinion ]] || continue
			$pinion replay "$tmp/$trace.jsonl" --device "$device" --allocator $allocator --json >"$out/replay-$trace-$allocator.json"
		done
		# Once more with so little that 97 % of it is live at the peak.
		capacity=$(python3 -c 'import json, sys; print(int(json.load(sys.stdin)["peak_trace_bytes"] / 0.97))' <"$out/replay-$trace-pinion.json")
		$pinion replay "$tmp/$trace.jsonl" --device "$device" --capacity "$capacity" --json >"$out/replay-$trace-pinion-full.json"
	done
	step "hold: traces, PyTorch again"
	torch_replay torch-replay-again
}

part_processes() {
	python3 bench/peers/torch_processes.py >"$out/torch-processes.json"
	$pinion bench processes --device "$device" --procs 2 --json >"$out/processes.json"
	python3 bench/peers/torch_processes.py >"$out/torch-processes-again.json"
}

part_photos() {
	# The sample photos, eight times over: enough for a loader to reach its pace.
	XDG_CACHE_HOME=$tmp $pinion feed --device "$device" --json >/dev/null 2>&1
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
		(cd "$sample/.." && $pinion feed "$(basename "$sample")" --device "$device" --json "$@") >"$out/feed-$name.json"
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
}

part_feed() {
	feeding() { "$build/feeding" --device "$device" --copiers 16 --photos "$photos" --images "$images" --json "$@"; }
	torch_feeding() { # ENDING of the names
		python3 bench/peers/torch_loader.py "$photos" 0 4 8 16 >"$out/torch-loader$1.json"
		python3 bench/peers/torch_decode.py "$photos" 16 >"$out/torch-decode$1.json"
		"$tmp/nvjpeg_decode" "$photos" 64 >"$out/nvjpeg-decode$1.json"
		python3 bench/peers/torch_arrays.py "$images" 0 8 16 >"$out/torch-arrays$1.json"
	}
	feeding --only core >/dev/null # makes the photos
	head -c $((12 * 1024 * 256 * 256 * 3)) /dev/urandom >"$images"
	nvcc -O2 -std=c++17 -o "$tmp/nvjpeg_decode" bench/peers/nvjpeg_decode.cpp -lnvjpeg
	step "feed: PyTorch"
	torch_feeding ""
	step "feed: Pinion"
	feeding >"$out/feeding.json"
	step "feed: PyTorch again"
	torch_feeding -again
}

# Kernels of a training step, and whole steps of a GPT beside PyTorch's. STEP_PEERS is
# what of torch_step.py runs, STEP_MORE=1 measures the other models, too. STEP_ATTENTION
# (values of PINION_ATTENTION) measures ways that are not the default.
part_step() {
	local file sizes=() images=() more=()
	if [ -n "${QUICK:-}" ]; then
		sizes=(--layers 2 --width 64 --heads 2 --batch 2 --length 32 --vocabulary 100)
		images=(--batch 1 --image 32)
	fi
	for file in step.internal.nvrtc step.internal.cudnn step.internal.cudaexec step.auto step internal.models; do
		check $file
	done
	bench_step() { # NAME FLAGS…: one that fails ends nothing
		XDG_CACHE_HOME=$tmp $pinion bench step --device "$device" "${@:2}" --json >"$out/$1.json" && return
		rm "$out/$1.json"
		echo "bench $1" >>"$tmp/failed"
	}
	# Ways that are not the default, and tasks' times, with which plans can be made elsewhere.
	mkdir -p "$out/ways" "$out/times"
	step "step: Pinion"
	local budgets=13.7GiB,12GiB
	[ -z "${QUICK:-}" ] || budgets=1MiB,970KiB
	bench_step step-gpt "${sizes[@]}" --steps 20 --tasks --budget $budgets --plan "$out/step-gpt.svg" --times "$out/times/gpt.json"
	local way
	for way in ${STEP_ATTENTION:-}; do
		step "step: Pinion, attention by $way"
		PINION_ATTENTION=$way bench_step "ways/step-gpt-$way" "${sizes[@]}" --steps 20 --tasks --budget $budgets
	done
	step "step: Pinion, latency"
	[ -z "${QUICK:-}" ] || more=(--layers 2 --width 64 --heads 2 --length 32 --vocabulary 100)
	bench_step step-gpt2 --model gpt2 --latency "${more[@]}"
	if [ -n "${STEP_MORE:-}" ]; then
		step "step: Pinion, other models"
		bench_step step-llama --model llama "${sizes[@]}" --steps 5 --budget 8GiB
		bench_step step-resnet50 --model resnet50 "${images[@]}" --steps 20 --times "$out/times/resnet50.json"
		local half
		half=$(python3 -c 'import json, sys; print(json.load(sys.stdin)["steps"][0]["peak_bytes"] // 2)' <"$out/step-resnet50.json") &&
			bench_step step-resnet50-half --model resnet50 "${images[@]}" --steps 20 --budget "$half" --times "$out/times/resnet50.json"
	fi
	if [ -z "${QUICK:-}" ]; then
		step "step: PyTorch"
		peer torch-step torch_step --only "${STEP_PEERS:-eager,compile-0.1,checkpoint,gpt2}"
		peer ways/torch-residual torch_residual
		step "step: a block"
		(cd step/internal/cudaexec && PINION_DEVICE=$device XDG_CACHE_HOME=$tmp "$build/step.internal.cudaexec.test" -test.run '^$' -test.bench 'Block|Residual|Attention' -test.benchtime 10x) | tee "$out/step.txt"
	fi
}

# What --trace costs, in nine rounds of runs with and without and in one process (about
# four minutes), and whether what it writes is a trace. Runs of photos are long: their pace
# changes within seconds.
part_timeline() {
	local i v order flags rounds=9 samples=12288 arrays=16 photos=240 long=190 pairs=150
	check timeline
	mkdir -p "$out/timeline"
	[ -z "${QUICK:-}" ] || rounds=2 samples=256 arrays=4 photos=3 long=4 pairs=2
	head -c $((samples * 256 * 256 * 3)) /dev/urandom >"$images"
	feed_photos() { XDG_CACHE_HOME=$tmp $pinion feed --device "$device" --json "$@"; }
	feed_arrays() (
		cd "$(dirname "$images")"
		$pinion feed "$(basename "$images")" --raw 256x256x3,u8 --device "$device" --json "$@"
	)
	feed_photos --epochs 1 >"$tmp/first.json" # makes the photos
	step "timeline: cost"
	for ((i = 1; i <= rounds; i++)); do
		order="off on"
		[ $((i % 2)) = 1 ] || order="on off"
		for v in $order; do
			flags=()
			[ $v = off ] || flags=(--trace "$tmp/trace.json")
			feed_arrays --epochs $arrays "${flags[@]}" >"$out/timeline/arrays-$v-$i.json"
			[ $v = off ] || flags=(--trace "$tmp/photos-trace.json")
			feed_photos --epochs $photos "${flags[@]}" >"$out/timeline/photos-$v-$i.json"
		done
	done
	(cd timeline && PINION_DEVICE=$device PINION_PHOTOS=$(ls -d "$tmp"/pinion/sample-photos-*) \
		"$build/timeline.test" -test.run '^$' -test.bench Feed -test.benchtime ${pairs}x) | tee "$out/timeline/feed.txt"
	python3 bench/trace_cost.py "$out"
	step "timeline: files"
	$pinion bench link --device "$device" --size 256MiB --repeats 3 --trace "$tmp/link-trace.json" >"$out/timeline/link.txt"
	# The longest trace that is asked for: 10 s, nothing dropped.
	feed_arrays --epochs $long --trace "$tmp/long-trace.json" >"$out/timeline/long.json"
	for i in photos-trace trace link-trace long-trace; do
		(cd timeline && PINION_TRACE=$tmp/$i.json "$build/timeline.test" -test.run '^TestFile$') && echo "ok   $i"
	done
	python3 - "$out" "$tmp/trace.json" <<-'PY'
		import json, sys
		with open(sys.argv[2]) as f:
		    overlap = json.load(f)["otherData"]["overlap"]
		json.dump(overlap, open(f"{sys.argv[1]}/timeline/overlap.json", "w"), indent=1)
	PY
}

# Whether PyTorch's work is on a timeline with the times that events tell, and what
# recording it costs.
part_cupti() {
	abi internal/cupti/testdata/abi/cupti.c
	check internal.cupti
	check timeline
	python_package
	local device_name=${device/#host/cpu} small=()
	[ -z "${QUICK:-}" ] || small=(--steps 20 --rounds 1)
	python3 python/bench/timeline.py --device "${device_name%%:*}" "${small[@]}" --trace "$tmp/cupti-trace.json" --out "$out/python/timeline.json"
	(cd timeline && PINION_TRACE=$tmp/cupti-trace.json "$build/timeline.test" -test.run '^TestFile$') && echo "ok   cupti-trace"
}

part_tune() {
	mkdir "$arrays"
	[ -d "$photos" ] || "$build/feeding" --device "$device" --only core --photos "$photos" >/dev/null
	head -c $((8192 * 256 * 256 * 3)) /dev/urandom >"$arrays/images.raw"
	head -c $((200000 * 256 * 4)) /dev/urandom >"$arrays/rows.raw"
	tune() { # NAME DATASET FLAGS…
		step "tune: $1"
		(cd "$(dirname "$2")" && XDG_CACHE_HOME=$tmp $pinion tune "$(basename "$2")" --device "$device" --fresh --json "${@:3}") >"$out/tune-$1.json"
	}
	tune photos-all "$photos"
	# Of a grid that can be measured in minutes.
	tune photos "$photos" --exhaustive --workers 2,4,8,16 --prefetch 2,8 --copiers 4,16
	tune images "$arrays/images.raw" --raw 256x256x3,u8 --exhaustive --workers 4,8,16 --prefetch 2,4 --copiers 4,16
	tune images-no-pin "$arrays/images.raw" --raw 256x256x3,u8 --exhaustive --workers 4,8,16 --prefetch 2,4 --copiers 2,4,8,16 --no-pin
	tune rows "$arrays/rows.raw" --raw 256,f32 --exhaustive
}

# What pinion top shows of a GPU and of a process that feeds it.
part_top() {
	local feeding
	mkdir -p "$out/top"
	$pinion feed --device "$device" --epochs 100000 --dtype f16 >/dev/null 2>"$tmp/top-feed.log" &
	feeding=$!
	sleep 10
	$pinion top --once --interval 2s >"$out/top/top.txt"
	$pinion top --once --interval 2s --json >"$out/top/top.json"
	cat "$out/top/top.txt"
	kill -INT $feeding
	wait $feeding || true
	grep -q "\"pid\":$feeding,.*\"samples_per_s\"" "$out/top/top.json"
	[[ $device != cuda* ]] || grep -q '"memory_used_bytes"' "$out/top/top.json"
}

# What the machine is like, and whether doctor's advice helps on it.
part_doctor() {
	abi internal/nvml/testdata/abi/nvml.c
	check internal.nvml
	REPEATS=1 DEVICE=$device PINION=$pinion bench/doctor.sh "$out"
}

# The Python package, from its wheel, in the PyTorch that is here.
python_package() {
	mkdir -p "$tmp/python" "$out/python"
	[ -d "$tmp/python/pinion" ] || python3 -m zipfile -e "$build"/python/pinion-*"_$(uname -m).whl" "$tmp/python"
	chmod +x "$tmp"/python/pinion-*.data/scripts/pinion
	export PYTHONPATH=$tmp/python:$PWD/bench/peers PINION_COMMAND PYTHONDONTWRITEBYTECODE=1
	PINION_COMMAND=$(ls "$tmp"/python/pinion-*.data/scripts/pinion)
}

# About three minutes. First what only a GPU shows.
part_python-tests() {
	python_package
	if ! python3 -c 'import pytest'; then
		echo "SKIP python tests: there is no pytest"
		return
	fi
	local marker
	for marker in gpu "not gpu"; do
		python3 -m pytest -c python/pytest.ini -vv -rs --disable-warnings -m "$marker" python/tests 2>&1 | sed "s|$PWD/||" | tee "$out/python/tests-${marker/ /-}.txt" ||
			echo "python tests" >>"$tmp/failed"
	done
}

part_python() {
	python_package
	local device_name=${device/#host/cpu}
	measure() { # NAME ARGUMENTS…
		step "python: $1"
		python3 "python/bench/$1.py" --device "${device_name%%:*}" --out "$out/python/$1.json" "${@:2}" || echo "python $1" >>"$tmp/failed"
	}
	local small=()
	[ -z "${QUICK:-}" ] || small=(--mib 2)
	measure copies --rounds 5 "${small[@]}"
	[ -z "${QUICK:-}" ] || small=(--workers 2 --batch 4 --shape 3,8,8 --batches 4)
	measure collate --rounds 3 "${small[@]}"
	[ -z "${QUICK:-}" ] || small=(--layers 1 --width 32 --batch 1 --length 8 --vocabulary 50)
	measure offload --rounds 3 "${small[@]}"
	[ -z "${QUICK:-}" ] || small=(--size 24 --window 8 --classes 5)
	measure windows "${small[@]}"
	step "python: overhead"
	python3 python/bench/overhead.py 3 | tee "$out/python/overhead.txt"
	step "python: photos"
	[ -d "$photos" ] || "$build/feeding" --device "$device" --only core --photos "$photos" >/dev/null
	peer python/torch-loader torch_loader "$photos" 16
	python3 python/bench/photos.py "$photos" "$device_name" >"$out/python/photos.json"
	peer python/torch-loader-again torch_loader "$photos" 16
}

failed=()
for part in "${parts[@]}"; do
	step "$part"
	set +e
	(
		set -e
		"part_$part"
	)
	code=$?
	set -e
	[ $code -eq 0 ] || failed+=("$part")
done

step summary
python3 bench/summary.py "$out" || true
"$build/benchdoc" -targets "$out" || failed+=(targets)
[ ! -e "$tmp/failed" ] || failed+=($(sort -u "$tmp/failed"))
[ ${#failed[@]} -eq 0 ] || { echo "failed: ${failed[*]}" && exit 1; }
