package kernels

import (
	_ "embed"
	"errors"
	"fmt"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
)

// The PTX says ISA 7.0, not what nvcc of CUDA 13.0 stamps on it: see ptx.sh.
//
//go:generate sh ptx.sh nvcc
//go:embed kernels.ptx
var ptx []byte

// names lists the kernels of the module, as launch functions ask for them.
func names() []string {
	list := []string{fillKernel, weightsKernel, resampleKernel, pairsKernel}
	for _, from := range sampleTypes {
		list = append(list, kernelFrom(sumsKernel, from))
		for _, t := range normalizeTypes(from) {
			list = append(list, kernelFrom("normalize_"+t.String(), from), kernelFrom("augment_"+t.String(), from))
		}
	}
	for _, t := range normalizeTypes(dtype.U8) {
		list = append(list, "normalize3_"+t.String())
	}
	for _, t := range castTypes {
		list = append(list, "cast_"+t.String())
	}
	for _, unit := range moveUnits {
		list = append(list, fmt.Sprintf("gather_%d", unit), fmt.Sprintf("scatter_%d", unit))
	}
	for _, t := range arithmeticTypes {
		list = append(list, "combine_"+t.String(), "reduce_"+t.String())
	}
	for _, unit := range spanUnits {
		list = append(list, spansKernel(unit))
	}
	return list
}

// loadModule finds every kernel now, so that none is missing in the middle of
// a job.
func loadModule(dev device.Device, l device.Launcher) (*Set, error) {
	if len(ptx) == 0 {
		return nil, fmt.Errorf("kernels: %w: this build has no device code (kernels.ptx is empty; go generate ./kernels makes it, with nvcc)",
			device.ErrNotSupported)
	}
	if f := l.ImageFormat(); f != device.PTX {
		return nil, fmt.Errorf("kernels: %w: the device code is %s, %s takes %s", device.ErrNotSupported, device.PTX, dev.Info().ID, f)
	}
	module, err := l.LoadModule(ptx)
	if err != nil {
		return nil, fmt.Errorf("kernels: load device code: %w", err)
	}
	set := &Set{dev: dev, module: module, kernels: map[string]device.Kernel{}, multiprocessors: dev.Info().Multiprocessors}
	for _, name := range names() {
		kernel, err := module.Kernel(name)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("kernels: find %s: %w", name, err), module.Close())
		}
		set.kernels[name] = kernel
	}
	return set, nil
}

const (
	threads     = 256   // of every thread block
	mostBlocksY = 65535 // CUDA's limit; images stride by it
)

// blocksFor gives the thread blocks that n units of work need, perBlock each.
// Kernels stride by the whole grid, so a huge n may get fewer.
func blocksFor(n, perBlock int64) int {
	const most = 1 << 30 // CUDA allows 2^31-1
	return int(min((n-1)/perBlock+1, most))
}

// start launches a kernel on a one-dimensional grid.
func (k *Set) start(s device.Stream, name string, blocks int, args *device.Args) error {
	return k.kernels[name].Launch(s, device.Grid{BlocksX: blocks, Threads: threads}, args)
}
