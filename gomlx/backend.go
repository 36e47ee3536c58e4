package gomlx

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/gomlx/compute"
	"github.com/pinion-gpu/pinion/device"
	_ "github.com/pinion-gpu/pinion/device/all"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/parallel"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/auto"
	"github.com/pinion-gpu/pinion/step/plan"
	"github.com/pinion-gpu/pinion/vram"
	pkgerrors "github.com/pkg/errors"
)

// Name is the backend's in configurations of GoMLX: "pinion:host".
const Name = "pinion"

// What ranks do together begins the names of functions: with [Options].Ranks, a call of one
// is that, and not what the function does. Package ranks makes them, since GoMLX's own
// operations are for devices of one process.
const (
	MeanOfRanks     = "pinion: mean of ranks"              // of what they give it
	MeanOfGradients = "pinion: mean of gradients of ranks" // the same in [Options].Average
	ShareOfMean     = "pinion: share of the mean of ranks" // of gradients, too: this rank's, of the first axis
	GatherFromRanks = "pinion: gather from ranks"          // the first operand, one behind the other, in the place of the second, with its shape
)

// What may go wrong with what was there once.
var (
	ErrGone      = errors.New("the buffer is gone")       // it was finalized or donated
	ErrFinalized = errors.New("the backend is finalized") // and with it all buffers
)

func init() {
	compute.Register(Name, func(config string) (compute.Backend, error) {
		b, err := New(config)
		if err != nil {
			return nil, err
		}
		return b, nil
	})
}

// Backend runs GoMLX's graphs as steps of Pinion. It implements [compute.Backend], and
// is safe for concurrent use.
type Backend struct {
	opts      Options
	device    device.Device
	executor  step.Executor
	memory    *step.Memory
	block     *step.Block   // of all steps, which take turns
	stream    device.Stream // copies inside the device
	pool      *vram.Pool
	onPlan    func(*plan.Plan) // not nil: steps are planned, and neither run nor have memory
	finalized atomic.Bool

	mu    sync.Mutex
	steps map[*step.Executable]struct{} // that are open; nil when finalized
}

var _ compute.Backend = (*Backend)(nil)

// New makes a backend by what follows "pinion:" in a configuration; see [ParseConfig] and
// [Open].
func New(config string) (*Backend, error) {
	opts, err := ParseConfig(config)
	if err != nil {
		return nil, pkgerrors.WithStack(err)
	}
	return Open(opts)
}

// Open makes a backend. It fails with [device.ErrUnavailable] if the
// device is not there, with [device.ErrNotSupported] if no steps run on it, and with
// [ErrArgument] if the options cannot be right.
func Open(opts Options) (*Backend, error) {
	if opts.Device == "" {
		opts.Device = "auto"
	}
	if opts.On == nil && opts.Ranks != nil {
		opts.On = opts.Ranks.Device()
	}
	if opts.Compile == nil {
		opts.Compile = step.Compile
	}
	if opts.Budget < 0 {
		return nil, pkgerrors.WithStack(fmt.Errorf("%s: %w: a budget of %d bytes", Name, ErrArgument, opts.Budget))
	}
	switch opts.Average {
	case 0, dtype.BF16, dtype.F16, dtype.F32:
	default:
		return nil, pkgerrors.WithStack(fmt.Errorf("%s: %w: ranks cannot average gradients in %v", Name, ErrArgument, opts.Average))
	}
	b := &Backend{opts: opts, steps: make(map[*step.Executable]struct{})}
	if err := b.open(); err != nil {
		return nil, pkgerrors.WithStack(errors.Join(err, b.close()))
	}
	return b, nil
}

func (b *Backend) open() (err error) {
	if b.device = b.opts.On; b.device == nil {
		dev, err := device.Open(b.opts.Device)
		if err != nil {
			return err
		}
		b.device = dev
	}
	if b.executor, err = auto.Open(b.device); err != nil {
		return fmt.Errorf("%s: %w", Name, err)
	}
	if b.stream, err = b.device.NewStream(); err != nil {
		return err
	}
	if b.pool, err = vram.New(b.device, vram.Options{}); err != nil {
		return err
	}
	if b.memory, err = step.OpenMemory(b.device, &allocator{pool: b.pool, blocks: make(map[device.Ptr]vram.Block)}); err != nil {
		return err
	}
	b.block = step.NewBlock(b.memory)
	return nil
}

func (b *Backend) close() error {
	var errs []error
	if b.memory != nil {
		errs = append(errs, b.memory.Close())
	}
	if b.pool != nil {
		err := b.pool.Close()
		if !errors.As(err, new(*vram.LeakError)) { // buffers that GoMLX left to the collector
			errs = append(errs, err)
		}
	}
	if b.stream != nil {
		errs = append(errs, b.stream.Close())
	}
	if b.executor != nil {
		errs = append(errs, b.executor.Close())
	}
	if b.device != nil && b.opts.On == nil {
		errs = append(errs, b.device.Close())
	}
	return errors.Join(errs...)
}

// Device is where the backend's buffers are and its steps run. A loader that feeds it is
// made on it. [Backend.Finalize] closes it, unless it is [Options].On.
func (b *Backend) Device() device.Device { return b.device }

// Ranks are [Options].Ranks.
func (b *Backend) Ranks() parallel.Comm { return b.opts.Ranks }

// Stats reports the device memory of buffers and steps. What [Backend.Wrap] made a buffer
// of is not in it.
func (b *Backend) Stats() vram.Stats { return b.pool.Stats() }

// Notes are sentences on what the steps compiled so far do in a slower way than they could,
// such as convolutions without cuDNN; each once.
func (b *Backend) Notes() []string {
	if n, ok := b.executor.(step.Noter); ok {
		return n.Notes()
	}
	return nil
}

// DeviceDescription implements [compute.Backend].
func (b *Backend) DeviceDescription(compute.DeviceNum) string {
	info := b.device.Info()
	return info.ID + ", " + info.Name
}

// Name implements [compute.Backend].
func (b *Backend) Name() string { return Name }

// String implements [compute.Backend].
func (b *Backend) String() string { return Name }

// Description implements [compute.Backend].
func (b *Backend) Description() string {
	return fmt.Sprintf("Pinion (%s)", b.DeviceDescription(0))
}

// NumDevices implements [compute.Backend].
func (b *Backend) NumDevices() int { return 1 }

// Builder implements [compute.Backend].
func (b *Backend) Builder(name string) compute.Builder { return newBuilder(b, name) }

// Finalize implements [compute.Backend]. It waits for what runs, closes all executables, and
// frees all buffers.
func (b *Backend) Finalize() {
	if b.finalized.Swap(true) {
		return
	}
	b.mu.Lock()
	steps := b.steps
	b.steps = nil
	b.mu.Unlock()
	// What other ranks wait for, a communicator's end, waits for the graphs of these.
	for x := range steps {
		x.Close()
	}
	b.close()
}

// IsFinalized implements [compute.Backend].
func (b *Backend) IsFinalized() bool { return b.finalized.Load() }
