package cudaexec

import (
	"errors"
	"fmt"
	"slices"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/step/internal/cudnn"
)

// library computes what kernels of our own do more slowly: a [*cudnn.Library].
type library interface {
	Plan(p cudnn.Problem) (*cudnn.Plan, error)
	Run(s device.Stream, p *cudnn.Plan, workspace device.Ptr, operands ...device.Ptr) error
	Close() error
}

// openLibrary opens cuDNN; it fails with [device.ErrNotSupported] where there is none.
func openLibrary(dev device.Device) (library, error) { return cudnn.Open(dev) }

// planned is how the library computes a problem; nil where there is none, or none that
// takes it. Kernels of our own do then, and the reason is among [executor.Notes].
func (e *executor) planned(problem cudnn.Problem) (library, *cudnn.Plan, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, nil, fmt.Errorf("step: the executor: %w", device.ErrClosed)
	}
	l, err := e.library()
	e.opened = err == nil
	if errors.Is(err, device.ErrNotSupported) {
		e.note(err)
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	p, err := l.Plan(problem)
	if err != nil {
		e.note(err)
		return nil, nil, nil
	}
	return l, p, nil
}

// note keeps why the library does not compute something.
func (e *executor) note(err error) {
	if text := fmt.Sprintf("%v; kernels of our own do it", err); !slices.Contains(e.notes, text) {
		e.notes = append(e.notes, text)
	}
}

// Notes implements [step.Noter].
func (e *executor) Notes() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.notes)
}
