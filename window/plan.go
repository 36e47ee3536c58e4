package window

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/pinion-gpu/pinion/internal/errs"
)

// Errors that callers can tell apart with errors.Is.
var (
	// ErrArgument: sizes or options that cannot be right, or a prediction of another size.
	ErrArgument = errs.ErrArgument
	// ErrNotFinite: a voxel of the volume is NaN or infinite.
	ErrNotFinite = errors.New("not finite")
)

// Blend is how much predictions count that overlap.
type Blend uint8

const (
	// Constant: all of a window's predictions count the same.
	Constant Blend = iota
	// Gaussian: those in the middle of a window count more than those at its edges.
	Gaussian
)

// Padding is what lies beyond a volume that is smaller than a window.
type Padding uint8

const (
	// Fill: Options.Fill.
	Fill Padding = iota
	// Reflect: the volume mirrored at its first and last element, which are not repeated.
	Reflect
	// Replicate: the nearest element.
	Replicate
	// Circular: the volume again.
	Circular
)

// Options are those of MONAI's function, with its defaults.
type Options struct {
	// Window is the size of a window along each axis. 0 or less: the volume's.
	Window []int

	// Overlap is which part of a window its neighbour covers, from 0 to below 1: of all
	// axes, or of each. Default: 0.25.
	Overlap []float64

	Blend Blend
	// Sigma is the deviation of the Gaussian as a part of the window's size: of all axes, or
	// of each. Default: 0.125.
	Sigma []float64

	Padding Padding
	Fill    float32

	// Batch is how many windows are predicted at once. Default: 1.
	Batch int

	// AllowNotFinite gives the model voxels that are NaN or infinite, and whatever comes of
	// them. Default: false, they are an [ErrNotFinite], since one of them spoils whole
	// windows.
	AllowNotFinite bool
}

// Plan is where windows lie, and how they are put together. It is safe for concurrent use.
type Plan struct {
	size   []int   // of the volume
	before []int   // elements of padding before it, along each axis
	padded []int   // of the volume with padding
	window []int   // of a window
	starts [][]int // of windows, along each axis of the padded volume
	weight []float32
	o      Options
}

// NewPlan plans windows over a volume of that size. It fails with [ErrArgument].
func NewPlan(size []int, o Options) (*Plan, error) {
	p := &Plan{size: slices.Clone(size), o: o}
	bad := func(format string, args ...any) (*Plan, error) {
		return nil, fmt.Errorf("window: %w: %s", ErrArgument, fmt.Sprintf(format, args...))
	}
	n := len(size)
	switch {
	case n == 0 || slices.Min(size) < 1:
		return bad("a volume of %v", size)
	case len(o.Window) != n:
		return bad("a window of %v for a volume of %v", o.Window, size)
	case o.Batch < 0:
		return bad("a batch of %d", o.Batch)
	case o.Blend > Gaussian || o.Padding > Circular:
		return bad("blend %d, padding %d", o.Blend, o.Padding)
	}
	p.o.Batch = max(o.Batch, 1)
	overlap, ok1 := each(o.Overlap, n, 0.25)
	sigma, ok2 := each(o.Sigma, n, 0.125)
	if !ok1 || !ok2 {
		return bad("overlap %v, sigma %v, for %d axes", o.Overlap, o.Sigma, n)
	}
	for i, s := range size {
		w := o.Window[i]
		if w < 1 {
			w = s
		}
		if !(overlap[i] >= 0 && overlap[i] < 1) || !(sigma[i] > 0) {
			return bad("overlap %v must be from 0 to below 1, and sigma %v above 0", overlap[i], sigma[i])
		}
		missing := max(w-s, 0)
		if most := max(missing-missing/2, missing/2); o.Padding == Reflect && most >= s || o.Padding == Circular && most > s {
			return bad("axis %d has %d elements, too few for %d of padding", i, s, most)
		}
		p.window, p.before, p.padded = append(p.window, w), append(p.before, missing/2), append(p.padded, s+missing)
		p.starts = append(p.starts, starts(s+missing, w, overlap[i]))
	}
	p.weight = weights(p.window, o.Blend, sigma)
	return p, nil
}

// each is a number for each axis; false if there are neither one nor as many.
func each(list []float64, n int, usual float64) ([]float64, bool) {
	switch len(list) {
	case n:
		return list, true
	case 0:
		list = []float64{usual}
	case 1:
	default:
		return nil, false
	}
	return slices.Repeat(list, n), true
}

// starts are those of windows along an axis.
func starts(size, window int, overlap float64) (list []int) {
	interval := window
	if window != size {
		interval = max(int(float64(window)*(1-overlap)), 1)
	}
	for at := 0; ; at += interval {
		list = append(list, min(at, size-window))
		if at+window >= size {
			return list
		}
	}
}

// weights are those of the elements of a window.
func weights(window []int, blend Blend, sigma []float64) []float32 {
	list := []float32{1}
	for i, n := range window {
		axis := make([]float32, n)
		for k := range axis {
			axis[k] = 1
			if blend == Gaussian {
				x, s := float32(k)-float32(n-1)/2, float64(n)*sigma[i]
				axis[k] = float32(math.Exp(float64(x * x / float32(-2*s*s))))
			}
		}
		longer := make([]float32, 0, len(list)*n)
		for _, a := range list {
			for _, b := range axis {
				longer = append(longer, a*b)
			}
		}
		list = longer
	}
	least := max(slices.Min(list), 1e-3)
	for i := range list {
		list[i] = max(list[i], least)
	}
	return list
}

// Windows is how many windows there are.
func (p *Plan) Windows() int {
	n := 1
	for _, s := range p.starts {
		n *= len(s)
	}
	return n
}

// Size is that of the volume along each axis, and Window that of a window.
func (p *Plan) Size() []int { return slices.Clone(p.size) }

// Window is the size of a window along each axis.
func (p *Plan) Window() []int { return slices.Clone(p.window) }

// Bytes is the host memory that [Plan.Run] takes: rows of the volume, what is added up of
// predictions, and three batches of windows. The model's own is not in it.
func (p *Plan) Bytes(channels, classes int) int64 {
	rows, rest, inside := int64(p.window[0]), int64(product(p.padded[1:])), int64(product(p.window))
	fresh := 0
	in := int64(channels) * min(rows, int64(p.size[0])) * int64(product(p.size[1:]))
	for i, s := range p.starts[0][1:] { // rows that are read beside those that stay
		if n := s - p.starts[0][i]; n < p.window[0] {
			fresh = max(fresh, n)
		}
	}
	in += int64(channels) * int64(fresh) * int64(product(p.size[1:]))
	out := int64(classes+1) * rows * rest
	return 4 * (in + out + int64(classes)*rows*int64(product(p.size[1:])) + 3*int64(p.o.Batch*channels)*inside)
}

// String says how many windows of which size there are.
func (p *Plan) String() string {
	return fmt.Sprintf("%d windows of %v over %v", p.Windows(), p.window, p.size)
}

func product(list []int) int {
	n := 1
	for _, v := range list {
		n *= v
	}
	return n
}

// source is the element of the volume that lies at a place of the padded one, along an axis;
// -1: none does.
func (p *Plan) source(axis, at int) int {
	n := p.size[axis]
	at -= p.before[axis]
	if at >= 0 && at < n {
		return at
	}
	switch p.o.Padding {
	case Reflect:
		if at < 0 {
			return -at
		}
		return 2*(n-1) - at
	case Replicate:
		return min(max(at, 0), n-1)
	case Circular:
		return (at + n) % n
	}
	return -1
}
