#!/bin/bash
# Builds what bench/h200.sh runs, without cgo, into .build/: the command,
# bench/moves, bench/loop, bench/feeding, bench/weights and the test binaries of the packages
# that touch a device.
set -euo pipefail
cd "$(dirname "$0")/.."
export CGO_ENABLED=0
mkdir -p .build
rm -f .build/*.test
go build -buildvcs=true -ldflags='-s -w' -o .build/pinion ./cmd/pinion
go build -buildvcs=true -ldflags='-s -w' -o .build/moves ./bench/moves
go build -buildvcs=true -ldflags='-s -w' -o .build/loop ./bench/loop
go build -buildvcs=true -ldflags='-s -w' -o .build/feeding ./bench/feeding
go build -buildvcs=true -ldflags='-s -w' -o .build/weights ./bench/weights
for package in device/cuda imaging/nvjpeg kernels pinned transfer vram checkpoint loader cmd/pinion/internal/linkbench; do
	go test -c -o ".build/${package//\//.}.test" "./$package"
done
ls -l .build
