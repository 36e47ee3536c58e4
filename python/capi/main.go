// Package main is libpinion: Pinion as a C library, for the Python package. It
// is the only package that needs cgo; python/build.sh builds it with
// -buildmode=c-shared.
//
// It is thin: what it does, packages of Go do. pinion.h is its C ABI, with one
// file of Go here for each theme. Functions that may be called often, or where
// Go must not be entered, have a part in C.
package main

import (
	_ "github.com/pinion-gpu/pinion/dataset/all"
	_ "github.com/pinion-gpu/pinion/device/all"
	"github.com/pinion-gpu/pinion/device/cuda"
)

func init() { cuda.BesideCaptures() } // PyTorch's

func main() {}
