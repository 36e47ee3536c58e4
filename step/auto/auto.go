// Package auto opens the executor of a device, whichever it is.
//
//	exec, err := auto.Open(dev)
//	defer exec.Close()
package auto

import (
	"errors"
	"fmt"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/host"
	"github.com/pinion-gpu/pinion/step/internal/cudaexec"
)

// Open returns an executor of generated kernels for a device that runs compiled ones,
// and one in Go for a device that runs Go functions. It fails with
// [device.ErrNotSupported] and the reasons when neither works. On CUDA, PINION_ATTENTION
// says what computes attention: docs/step.md has its values.
func Open(dev device.Device) (step.Executor, error) {
	var errs []error
	for _, open := range []func(device.Device) (step.Executor, error){cudaexec.Open, host.Open} {
		e, err := open(dev)
		if err == nil {
			return e, nil
		}
		if !errors.Is(err, device.ErrNotSupported) {
			return nil, err
		}
		errs = append(errs, err)
	}
	return nil, fmt.Errorf("step: nothing runs on %s: %w", dev.Info().ID, errors.Join(errs...))
}
