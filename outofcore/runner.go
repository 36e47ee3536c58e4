package outofcore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

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

	mu    sync.Mutex
	blas  blas.BLAS // opened by the first product
	rates map[rateKey]float64
	plans map[Problem]*Plan
}

type rateKey struct {
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
		rates: map[rateKey]float64{}, plans: map[Problem]*Plan{}}, nil
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
	plan, err := MakePlan(p)
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

// flopRate measures how fast the device multiplies matrices of a type, once,
// with at most so much memory: matrices that grow until a product takes a few
// milliseconds. It is the rate of a product that keeps all multiprocessors
// busy, and 0 where not even small ones have room.
func (r *Runner) flopRate(ctx context.Context, b blas.BLAS, t dtype.DType, tf32 bool, budget int64) (rate float64, err error) {
	key := rateKey{t, tf32}
	r.mu.Lock()
	rate = r.rates[key]
	r.mu.Unlock()
	if rate > 0 {
		return rate, nil
	}
	const (
		least, most = 128, 4096
		several     = 4
		enough      = several * 3 * time.Millisecond
	)
	workspace, size := b.WorkspaceBytes(), int64(t.Size())
	side := int64(most)
	for side >= least && 3*side*side*size+workspace > budget {
		side /= 2
	}
	if side < least {
		return 0, nil
	}
	n := side * side * size
	at, free, err := r.alloc(ctx, 3*n+workspace)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, free()) }()
	s, err := r.dev.NewStream()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.Close()) }() // waits, before the memory goes
	if err := s.Memset(at, 0, 2*n); err != nil {
		return 0, err
	}
	var took time.Duration
	for now := int64(least); now <= side && took < enough; now *= 2 {
		g := blas.Gemm{M: now, N: now, K: now, Alpha: 1, Type: t, TF32: tf32,
			A: blas.Matrix{Ptr: at}, B: blas.Matrix{Ptr: at.Add(n)}, C: blas.Matrix{Ptr: at.Add(2 * n)},
			Workspace: at.Add(3 * n), WorkspaceBytes: workspace}
		for _, products := range []int{1, several} { // the first one warms up
			began := time.Now()
			for range products {
				if err := errors.Join(b.Gemm(s, g), ctx.Err()); err != nil {
					return 0, err
				}
			}
			if err := s.Synchronize(); err != nil {
				return 0, err
			}
			took = time.Since(began)
		}
		shape := Problem{M: now, N: now, Multiprocessors: r.dev.Info().Multiprocessors}
		rate = several * 2 * float64(now*now*now) / took.Seconds() / shape.efficiency(now)
	}
	r.mu.Lock()
	r.rates[key] = rate
	r.mu.Unlock()
	return rate, nil
}
