#!/bin/bash
# Builds what bench/h200.sh runs, without cgo, into .build/: the command, the
# programs that measure, and the test binaries of the packages that touch a
# device.
set -euo pipefail
cd "$(dirname "$0")/.."
export CGO_ENABLED=0
mkdir -p .build
rm -f .build/*.test
for program in cmd/pinion bench/{moves,loop,feeding,weights,outofcore} examples/layers; do
	go build -buildvcs=true -ldflags='-s -w' -o ".build/${program##*/}" "./$program"
done
for package in device/cuda imaging/nvjpeg kernels blas/cublaslt pinned transfer managed vram tier checkpoint outofcore loader cmd/pinion/internal/{linkbench,managedbench}; do
	go test -c -o ".build/${package//\//.}.test" "./$package"
done
ls -l .build
