// What GoMLX's tests take of go-xla, which needs cgo: nothing. Instead it brings in
// Pinion, so that those tests run on it with GOMLX_BACKEND=pinion:host.
module github.com/gomlx/go-xla

go 1.26.0

require github.com/pinion-gpu/pinion/gomlx v0.0.0
