package outofcore

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/pinion-gpu/pinion/blas"
	"github.com/pinion-gpu/pinion/blas/auto"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/kernels"
	"github.com/pinion-gpu/pinion/transfer"
	"github.com/pinion-gpu/pinion/vram"
)

// Options configures a [Runner]. The zero value works.
type Options struct {
	// DeviceBytes is the most device memory that a call takes, in bytes, the
	// library's workspace included. Default: four fifths of what the device
	// has free at the call.
	DeviceBytes int64

	// Pool gives the device memory, and takes it back after the call. It is
	// asked once for each call. Default: the device itself.
	Pool *vram.Pool
}

// Runner computes on arrays that need not fit into a device's memory. Its
// methods are safe for concurrent use, but two calls at once share one link
// and one device.
type Runner struct {
	engine  *transfer.Engine
	dev     device.Device
	pinner  device.Pinner // nil: none
	options Options
	kernels *kernels.Set

	mu     sync.Mutex
	blas   blas.BLAS // opened by the first product
	speeds map[speedKey]Speed
	plans  map[Problem]*Plan
	rows   map[int64]RowShare // by the distance of rows, in bytes

	rowsWorth int64                        // [rowsWorth], but for tests
	makePlan  func(Problem) (*Plan, error) // [MakePlan], but for tests
}

type speedKey struct {
	t    dtype.DType
	tf32 bool
}

// New makes a runner on the engine's device. Close it before the engine.
func New(e *transfer.Engine, o Options) (*Runner, error) {
	if o.DeviceBytes < 0 {
		return nil, fmt.Errorf("outofcore: %w: %d bytes of device memory", device.ErrArgument, o.DeviceBytes)
	}
	set, err := kernels.Load(e.Device())
	if err != nil {
		return nil, fmt.Errorf("outofcore: %w", err)
	}
	pinner, _ := device.As[device.Pinner](e.Device())
	return &Runner{engine: e, dev: e.Device(), pinner: pinner, options: o, kernels: set,
		speeds: map[speedKey]Speed{}, plans: map[Problem]*Plan{},
		rows: map[int64]RowShare{}, rowsWorth: rowsWorth, makePlan: MakePlan}, nil
}

// Close gives back what the runner has from the device. No call may be under
// way.
func (r *Runner) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.kernels.Close()
	if r.blas != nil {
		err = errors.Join(err, r.blas.Close())
		r.blas = nil
	}
	return err
}

// multiplier opens the BLAS of the device, once.
func (r *Runner) multiplier() (blas.BLAS, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.blas == nil {
		b, err := auto.Open(r.dev)
		if err != nil {
			return nil, err
		}
		r.blas = b
	}
	return r.blas, nil
}

// budget is how much device memory a call may take.
func (r *Runner) budget() (int64, error) {
	if r.options.DeviceBytes > 0 {
		return r.options.DeviceBytes, nil
	}
	memory, err := r.dev.Memory()
	return memory.FreeBytes / 5 * 4, err
}

// alloc takes device memory until free is called, when no work uses it.
func (r *Runner) alloc(ctx context.Context, n int64) (p device.Ptr, free func() error, err error) {
	if r.options.Pool == nil {
		p, err = r.dev.Alloc(n)
		return p, func() error { return r.dev.Free(p) }, err
	}
	b, err := r.options.Pool.Alloc(ctx, n, vram.Use{Purpose: vram.Workspace, Name: "out-of-core"})
	if err != nil {
		return 0, nil, err
	}
	return b.Ptr(), b.Free, nil
}

// plan returns the plan of a problem.
func (r *Runner) plan(p Problem) (*Plan, error) {
	const kept = 64
	r.mu.Lock()
	plan := r.plans[p]
	r.mu.Unlock()
	if plan != nil {
		return plan, nil
	}
	plan, err := r.makePlan(p)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.plans) >= kept {
		clear(r.plans)
	}
	r.plans[p] = plan
	return plan, nil
}

// linkRate is what the engine's model expects of a large copy, in bytes a
// second; 0 where nothing was measured.
func (r *Runner) linkRate(pinned, toHost bool) float64 {
	const large = 64 << 20
	if t := r.engine.Estimate(large, pinned, toHost); t > 0 {
		return large / t.Seconds()
	}
	const share = 0.85 // of the wire that copies reach
	return r.dev.Info().Link.BytesPerSecond() * share
}
