package checkpoint

import (
	"fmt"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/errs"
	"github.com/pinion-gpu/pinion/safetensors"
	"github.com/pinion-gpu/pinion/transfer"
	"github.com/pinion-gpu/pinion/vram"
)

// ErrArgument: an argument or option that cannot be right.
var ErrArgument = errs.ErrArgument

// Target is a device that weights are loaded to.
type Target struct {
	// Engine copies to the device. It is needed.
	Engine *transfer.Engine

	// Pool gives the memory, of purpose [vram.Weights]. Default: the device
	// itself.
	Pool *vram.Pool
}

// Options tune what is loaded and how. The zero value loads everything as it is
// stored.
type Options struct {
	// Keep says which tensors are loaded, by name. Default: all.
	Keep func(name string) bool

	// Floats is the type that F16, BF16, F32 and F64 tensors get, which are
	// cast on the device: one of these four. Floats of eight bits or fewer,
	// whose scales are tensors of their own, integers and complex numbers
	// stay as they are. Default: as stored.
	Floats dtype.DType

	// Place says to which of several targets a tensor goes, from 0 on; [Stream]
	// asks it for layers. It is called once for each. Default: whole layers, in
	// order, to each target about the same number of bytes, or where that does
	// not fit, in proportion to the memory that is free.
	Place func(name string) int

	// Align is what the address of each tensor is a multiple of, a power of
	// two from 16 to 256. Default: 256, as if each were allocated by itself.
	Align int64

	// Path forces a way from the file. Default: [transfer.FileAuto].
	Path transfer.FilePath

	// Progress, if set, is called with the bytes read so far, by one goroutine
	// at a time, the last time with done == total.
	Progress func(done, total int64)

	limits limits // for tests
}

// limits are sizes that the work is cut by.
type limits struct {
	step     int64 // largest part of a file that is read in one go
	small    int64 // below it, what is contiguous is read together with others
	gap      int64 // the most bytes between small parts that are read with them
	group    int64 // the most bytes of small parts that are read together
	staging  int64 // the most bytes of the file in device memory that are cast at once
	parallel int   // parts under way at once
}

var defaultLimits = limits{
	step:     1 << 30,
	small:    1 << 20,
	gap:      64 << 10,
	group:    8 << 20,
	staging:  256 << 20,
	parallel: 3,
}

// castable are the floats that kernels cast.
func castable(d dtype.DType) bool {
	switch d {
	case dtype.F16, dtype.BF16, dtype.F32, dtype.F64:
		return true
	}
	return false
}

// check checks the options and fills in their defaults.
func (o *Options) check() error {
	if o.Align == 0 {
		o.Align = 256
	}
	if o.Align < 16 || o.Align > 256 || o.Align&(o.Align-1) != 0 {
		return fmt.Errorf("%w: Align is %d, want a power of two from 16 to 256", ErrArgument, o.Align)
	}
	if o.Floats != 0 && !castable(o.Floats) {
		return fmt.Errorf("%w: Floats is %v, want f16, bf16, f32 or f64", ErrArgument, o.Floats)
	}
	if o.limits == (limits{}) {
		o.limits = defaultLimits
	}
	if o.Path != transfer.FileAuto {
		o.limits.small = 0 // all of it takes that way
	}
	return nil
}

func checkTargets(targets []Target) error {
	if len(targets) == 0 {
		return fmt.Errorf("%w: no target", ErrArgument)
	}
	for i, t := range targets {
		if t.Engine == nil {
			return fmt.Errorf("%w: target %d has no Engine", ErrArgument, i)
		}
	}
	return nil
}

// kept returns the tensors to load.
func (o *Options) kept(tensors []safetensors.Tensor) []safetensors.Tensor {
	var kept []safetensors.Tensor
	for _, t := range tensors {
		if o.Keep == nil || o.Keep(t.Name) {
			kept = append(kept, t)
		}
	}
	return kept
}

// Tensor is a tensor in device memory.
type Tensor struct {
	Name  string
	DType safetensors.DType // as it is on the device
	Shape []int64

	Ptr    device.Ptr // 0 for a tensor without elements
	Bytes  int64
	Target int // the target whose device it is on
}
