package outofcore

import (
	"context"
	"errors"
	"fmt"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/kernels"
	"github.com/pinion-gpu/pinion/tier"
)

// TiledMap is an operation on each element of one or two matrices in a
// [tier.Store], as [Map] is one on arrays in host memory. All have one shape, one
// type and tiles of one size. An array is a matrix of one row.
type TiledMap struct {
	Op   kernels.CombineOp // what is done, with A and B; default: Func
	A, B float32           // have no default

	// Func queues work of the caller's own, tile by tile; see [Map.Func].
	Func func(s device.Stream, out, x, y device.Ptr, n int64) error

	X, Y *Tiled // Y: default none
	Out  *Tiled // it may be X or Y
}

// MapTiled carries out m. The store brings in what is not on the device, ahead of
// its use, and keeps what it will need.
//
// It returns when the results are there, or when it failed or ctx ended, and then
// Out holds a mixture of old and new. It fails with [device.ErrArgument] for
// matrices that do not go together, and as [tier.Store.Use] does: a tile of each
// has to fit on the device.
func (r *Runner) MapTiled(ctx context.Context, s *tier.Store, m TiledMap) (report tier.StreamReport, err error) {
	if err = m.check(); err == nil {
		report, err = r.runSteps(ctx, s, r.mapSteps(m))
	}
	return report, wrapped(ctx, "map", err)
}

func (m *TiledMap) check() error {
	if m.Func != nil && m.Op != 0 {
		return fmt.Errorf("%w: an operation and a function", device.ErrArgument)
	}
	return checkTiles(m.X, operand{"Out", m.Out}, operand{"Y", m.Y})
}

// operand is a matrix and its name.
type operand struct {
	name string
	m    *Tiled
}

// checkTiles finds what is wrong with X, and with others that should have its
// shape, type and size of tiles. There may be no Y.
func checkTiles(x *Tiled, others ...operand) error {
	if err := x.check("X"); err != nil {
		return err
	}
	for _, o := range others {
		if o.m == nil && o.name == "Y" {
			continue
		}
		if err := o.m.check(o.name); err != nil {
			return err
		}
		if o.m.layout() != x.layout() {
			return fmt.Errorf("%w: X is %v, %s %v", device.ErrArgument, x.layout(), o.name, o.m.layout())
		}
	}
	return nil
}

// layout is a matrix without its tiles.
type layout struct {
	t                     dtype.DType
	rows, columns         int64
	tileRows, tileColumns int64
}

func (m *Tiled) layout() layout { return layout{m.Type, m.Rows, m.Columns, m.TileRows, m.TileColumns} }

func (l layout) String() string {
	return fmt.Sprintf("%d x %d of %v in tiles of %d x %d", l.rows, l.columns, l.t, l.tileRows, l.tileColumns)
}

// mapSteps are the steps of a map, one for each tile.
func (r *Runner) mapSteps(m TiledMap) (steps []tier.Step) {
	queue := m.Func
	if queue == nil {
		queue = r.combine(kernels.Combine{Op: m.Op, A: m.A, B: m.B, Type: m.X.Type})
	}
	for i, x := range m.X.Tiles {
		out, y := m.Out.Tiles[i], (*tier.Array)(nil)
		if m.Y != nil {
			y = m.Y.Tiles[i]
		}
		use := []tier.Access{tier.Overwrite(out)}
		if out == x || out == y {
			use[0] = tier.Write(out)
		}
		if x != out {
			use = append(use, tier.Read(x))
		}
		if y != nil && y != out && y != x {
			use = append(use, tier.Read(y))
		}
		steps = append(steps, tier.Step{Name: out.Name(), Use: use, Run: func(s device.Stream, l *tier.Lease) error {
			at := device.Ptr(0)
			if y != nil {
				at = l.Ptr(y)
			}
			return queue(s, l.Ptr(out), l.Ptr(x), at, m.X.elements(x))
		}})
	}
	return steps
}

// elements is how many a tile has.
func (m *Tiled) elements(a *tier.Array) int64 { return a.Bytes() / int64(m.Type.Size()) }

// TiledReduction makes one number of all elements of a matrix in a [tier.Store],
// or of two of one shape, type and size of tiles ([kernels.Dot]).
type TiledReduction struct {
	Op   kernels.ReduceOp
	X, Y *Tiled // Y for [kernels.Dot] alone
}

// ReduceTiled carries out a reduction, as [Runner.Reduce] does, tile by tile. The
// result is the same bit for bit on every device and with any memory, but not
// with tiles of another size. Where those have a multiple of
// [kernels.ReduceLanes] elements, all but the last, it is that of Reduce for their
// elements one tile behind the other: for a matrix of one row, its own.
func (r *Runner) ReduceTiled(ctx context.Context, s *tier.Store, f TiledReduction) (value float64, report tier.StreamReport, err error) {
	if err = f.check(); err == nil {
		value, report, err = r.reduceTiled(ctx, s, &f)
	}
	return value, report, wrapped(ctx, "reduce", err)
}

func (f *TiledReduction) check() error {
	if f.Op < kernels.Sum || f.Op > kernels.Largest || (f.Op == kernels.Dot) != (f.Y != nil) {
		return fmt.Errorf("%w: reduction %d, with a Y: %t", device.ErrArgument, f.Op, f.Y != nil)
	}
	return checkTiles(f.X, operand{"Y", f.Y})
}

func (r *Runner) reduceTiled(ctx context.Context, s *tier.Store, f *TiledReduction) (value float64, report tier.StreamReport, err error) {
	stream, err := r.dev.NewStream()
	if err != nil {
		return 0, report, err
	}
	defer func() { err = errors.Join(err, stream.Close()) }()
	lanes, free, err := r.lanes(ctx, stream, f.Op)
	if err != nil {
		return 0, report, err
	}
	defer func() { err = errors.Join(err, free()) }()
	var steps []tier.Step
	for i, x := range f.X.Tiles {
		use, y := []tier.Access{tier.Read(x)}, (*tier.Array)(nil)
		if f.Y != nil {
			if y = f.Y.Tiles[i]; y != x {
				use = append(use, tier.Read(y))
			}
		}
		steps = append(steps, tier.Step{Name: x.Name(), Use: use, Run: func(s device.Stream, l *tier.Lease) error {
			at := kernels.Reduce{Op: f.Op, Type: f.X.Type, Lanes: lanes, X: l.Ptr(x), N: f.X.elements(x)}
			if y != nil {
				at.Y = l.Ptr(y)
			}
			return r.kernels.Reduce(s, at)
		}})
	}
	if report, err = r.runSteps(ctx, s, steps); err != nil {
		return 0, report, err
	}
	value, err = r.finish(ctx, f.Op, lanes)
	return value, report, err
}
