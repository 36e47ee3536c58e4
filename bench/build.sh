#!/bin/bash
# Builds what bench/h200.sh runs, without cgo, into .build/: the command, the
# programs that measure, and the test binaries of the packages that touch a
# device; and the wheel of the Python package, where there is a C compiler.
#
#   bench/build.sh [--pack] [PART …]
#
# PARTs are those of bench/h200.sh: without any it builds what all of them need.
# With --pack the files are packed into .build/pack/h200.tar.xz, too, from which
# bench/h200.sh takes them on a host without Go. The folder .build/base, for a
# build to compare with, is left as it is, and packed.
set -euo pipefail
cd "$(dirname "$0")/.."
export CGO_ENABLED=0
pack=
[ "${1:-}" != --pack ] || { pack=1 && shift; }
[ $# -gt 0 ] || set -- check moves outofcore tier weights hold feed python

steps=(step step/{auto,train,internal/{nvrtc,cudnn,cudaexec}} internal/models)
programs=(cmd/pinion bench/benchdoc) tests=() gomlx= wheel=
for part in "$@"; do
	case $part in
	check)
		tests+=(device/cuda internal/{nvml,cupti,striped} imaging/nvjpeg kernels blas/{cublaslt,cusparselt} pinned transfer managed vram tier
			checkpoint outofcore loader timeline kvcache{,/attention} parallel/{nccl,copies} "${steps[@]}" cmd/pinion/internal/{linkbench,managedbench})
		gomlx=1
		;;
	link | processes | photos | top) ;;
	parallel) programs+=(bench/ranks) tests+=(device/cuda parallel/{nccl,copies}) gomlx=1 ;;
	moves) programs+=(bench/moves) ;;
	peers) programs+=(bench/moves bench/feeding) tests+=(device/cuda transfer loader) ;;
	outofcore | shares) programs+=(bench/outofcore) tests+=(blas/cublaslt outofcore) ;;
	tier) programs+=(examples/layers) tests+=(tier) ;;
	weights) programs+=(bench/weights) tests+=(checkpoint) ;;
	hold) programs+=(bench/loop) tests+=(vram) ;;
	feed | tune) programs+=(bench/feeding) ;;
	step) tests+=("${steps[@]}") ;;
	gomlx) tests+=(step/train) gomlx=1 ;;
	timeline) tests+=(timeline) ;;
	kvcache) tests+=(kvcache{,/attention}) ;;
	cupti) tests+=(internal/cupti timeline) wheel=1 ;;
	doctor) tests+=(internal/nvml) ;;
	python-tests) wheel=1 ;;
	python) programs+=(bench/feeding) wheel=1 ;;
	*) echo "bench/h200.sh has no part $part" >&2 && exit 2 ;;
	esac
done

mkdir -p .build
find .build -mindepth 1 -maxdepth 1 ! -name base -exec rm -rf {} +
commit=$(git rev-parse HEAD)
[ -z "$(git status --porcelain)" ] || commit+=" with changes"
strip="-s -w -X 'github.com/pinion-gpu/pinion/internal/provenance.commit=$commit'"
for program in $(printf '%s\n' "${programs[@]}" | sort -u); do
	go build -buildvcs=auto -ldflags="$strip" -o ".build/${program##*/}" "./$program"
done
for package in $(printf '%s\n' "${tests[@]}" | sort -u); do
	go test -c -ldflags="$strip" -o ".build/${package//\//.}.test" "./$package"
done
train=cmd/pinion/pinion-train # modules of their own, where GoMLX can be had
if [ -n "$gomlx" ] && go -C $train mod download github.com/gomlx/compute github.com/gomlx/gomlx; then
	go -C $train build -ldflags="$strip" -o "$PWD/.build/" .
	for package in $train gomlx{,/batches,/tests}; do
		go -C "$package" test -c -ldflags="$strip" -o "$PWD/.build/${package//\//.}.test" .
	done
	# GoMLX's own tests of graphs, with the files that they read: gomlx/tests runs them.
	graph=github.com/gomlx/gomlx/core/graph
	mkdir -p .build/gomlx-graph
	go -C gomlx/tests test -c -ldflags="$strip" -o "$PWD/.build/gomlx-graph/graph.test" $graph
	cp -f "$(go -C gomlx/tests list -f '{{.Dir}}' $graph)"/*.bin .build/gomlx-graph/
fi
[ -z "$wheel" ] || ! command -v cc >/dev/null || bash python/build.sh .build/python x86_64
if [ -n "$pack" ]; then
	mkdir .build/pack
	# They have much in common: the window holds them all.
	tar -C .build -cf - --exclude=./pack . | xz -T1 --lzma2=preset=2,dict=192MiB >.build/pack/h200.tar.xz
fi
ls -l .build
