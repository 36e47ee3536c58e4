// Package auto opens the BLAS of a device, whichever it is.
//
//	b, err := auto.Open(dev)
//	defer b.Close()
package auto

import (
	"errors"
	"fmt"

	"github.com/pinion-gpu/pinion/blas"
	"github.com/pinion-gpu/pinion/blas/cublaslt"
	"github.com/pinion-gpu/pinion/blas/host"
	"github.com/pinion-gpu/pinion/device"
)

// Open returns cuBLASLt for a device whose vendor's libraries are CUDA's, and
// OpenBLAS or the routine in Go for one that runs Go functions. It fails with
// [device.ErrNotSupported] and the reasons when neither works.
func Open(dev device.Device) (blas.BLAS, error) {
	var errs []error
	for _, open := range []func(device.Device) (blas.BLAS, error){cublaslt.Open, host.Open} {
		b, err := open(dev)
		if err == nil {
			return b, nil
		}
		if !errors.Is(err, device.ErrNotSupported) {
			return nil, err
		}
		errs = append(errs, err)
	}
	return nil, fmt.Errorf("blas: nothing multiplies on %s: %w", dev.Info().ID, errors.Join(errs...))
}
