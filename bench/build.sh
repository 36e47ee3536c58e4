#!/bin/bash
# Builds what bench/h200.sh runs, without cgo, into .build/: the command, the
# programs that measure, and the test binaries of the packages that touch a
# device; and the wheel of the Python package, where there is a C compiler. With
# --pack they are packed into .build/pack/h200.tar.xz, too, from which
# bench/h200.sh takes them on a host without Go.
set -euo pipefail
cd "$(dirname "$0")/.."
export CGO_ENABLED=0
mkdir -p .build
commit=$(git rev-parse HEAD)
[ -z "$(git status --porcelain)" ] || commit+=" with changes"
strip="-s -w -X 'github.com/pinion-gpu/pinion/internal/provenance.commit=$commit'"
rm -f .build/*.test
for program in cmd/pinion bench/{moves,loop,feeding,weights,outofcore,benchdoc} examples/layers; do
	go build -buildvcs=auto -ldflags="$strip" -o ".build/${program##*/}" "./$program"
done
for package in device/cuda internal/{nvml,cupti,striped} imaging/nvjpeg kernels blas/cublaslt pinned transfer managed vram tier checkpoint outofcore loader timeline step step/{auto,train,internal/{nvrtc,cudnn,cudaexec}} internal/models cmd/pinion/internal/{linkbench,managedbench}; do
	go test -c -ldflags="$strip" -o ".build/${package//\//.}.test" "./$package"
done
train=cmd/pinion/pinion-train # modules of their own, where GoMLX can be had
if go -C $train mod download github.com/gomlx/compute github.com/gomlx/gomlx; then
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
rm -rf .build/python
! command -v cc >/dev/null || bash python/build.sh .build/python x86_64
rm -rf .build/pack
if [ "${1:-}" = --pack ]; then
	mkdir .build/pack
	# They have much in common: the window holds them all.
	tar -C .build -cf - --exclude=./pack . | xz -T1 --lzma2=preset=2,dict=192MiB >.build/pack/h200.tar.xz
fi
ls -l .build
