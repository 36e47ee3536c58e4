package outofcore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/pinion-gpu/pinion/blas"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/tier"
)

// Tiled is a matrix in a [tier.Store], cut into tiles of which each is an array.
// What is on the device is used where it lies, and the store decides what stays
// there from one operation to the next.
type Tiled struct {
	Type                  dtype.DType // F32 or BF16
	Rows, Columns         int64
	TileRows, TileColumns int64         // of a tile; those at the edges are smaller
	Tiles                 []*tier.Array // row by row, each row-major without gaps
}

// NewTiled makes a matrix of zeros in s. Name is for reports. It fails as
// [tier.Store.NewArray] does, and then leaves nothing behind.
func NewTiled(s *tier.Store, name string, t dtype.DType, rows, columns, tileRows, tileColumns int64) (*Tiled, error) {
	if rows < 1 || columns < 1 || tileRows < 1 || tileColumns < 1 || t != dtype.F32 && t != dtype.BF16 ||
		float64(rows)*float64(columns) > math.MaxInt64/16 {
		return nil, fmt.Errorf("outofcore: %w: %d x %d elements of %v in tiles of %d x %d", device.ErrArgument, rows, columns, t, tileRows, tileColumns)
	}
	m := &Tiled{Type: t, Rows: rows, Columns: columns, TileRows: min(tileRows, rows), TileColumns: min(tileColumns, columns)}
	down, across := m.count()
	for i := range down {
		for j := range across {
			_, _, rows, columns := m.extent(i, j)
			a, err := s.NewArray(fmt.Sprintf("%s %d,%d", name, i, j), rows*columns*int64(t.Size()))
			if err != nil {
				return nil, errors.Join(err, m.Free())
			}
			m.Tiles = append(m.Tiles, a)
		}
	}
	return m, nil
}

// Free frees all tiles. None may be in use.
func (m *Tiled) Free() error {
	var errs []error
	for _, a := range m.Tiles {
		errs = append(errs, a.Free())
	}
	m.Tiles = nil
	return errors.Join(errs...)
}

// check finds what is wrong with a matrix by itself.
func (m *Tiled) check(name string) error {
	if m == nil || m.TileRows < 1 || m.TileColumns < 1 {
		return fmt.Errorf("%w: %s is no matrix", device.ErrArgument, name)
	}
	down, across := m.count()
	if len(m.Tiles) != down*across {
		return fmt.Errorf("%w: %s has %d tiles, want %d: it was freed", device.ErrArgument, name, len(m.Tiles), down*across)
	}
	for k, a := range m.Tiles {
		_, _, rows, columns := m.extent(k/across, k%across)
		if a == nil || a.Bytes() != rows*columns*int64(m.Type.Size()) {
			return fmt.Errorf("%w: %s: tile %d is no array of %d x %d elements of %v", device.ErrArgument, name, k, rows, columns, m.Type)
		}
	}
	return nil
}

// count is how many tiles lie below and beside each other.
func (m *Tiled) count() (down, across int) {
	return int(ceil(m.Rows, m.TileRows)), int(ceil(m.Columns, m.TileColumns))
}

// extent is where a tile is, in elements.
func (m *Tiled) extent(i, j int) (row, column, rows, columns int64) {
	row, column = int64(i)*m.TileRows, int64(j)*m.TileColumns
	return row, column, min(m.TileRows, m.Rows-row), min(m.TileColumns, m.Columns-column)
}

// Write takes all elements from a matrix in host memory of the same shape and
// type.
func (m *Tiled) Write(ctx context.Context, from Matrix) error {
	return m.each(from, func(a *tier.Array, w window, b []byte) error {
		for i := range w.rows {
			copy(b[i*w.rowBytes:], w.bytes[i*w.stride:][:w.rowBytes])
		}
		return a.WriteAt(ctx, b, 0)
	})
}

// Read copies all elements to a matrix in host memory of the same shape and
// type. It waits for work that writes them.
func (m *Tiled) Read(ctx context.Context, to Matrix) error {
	return m.each(to, func(a *tier.Array, w window, b []byte) error {
		if err := a.ReadAt(ctx, b, 0); err != nil {
			return err
		}
		for i := range w.rows {
			copy(w.bytes[i*w.stride:][:w.rowBytes], b[i*w.rowBytes:])
		}
		return nil
	})
}

// each calls move for each tile, its place in a host matrix, and a buffer of its
// size.
func (m *Tiled) each(host Matrix, move func(a *tier.Array, w window, b []byte) error) error {
	err := m.check("the matrix in the store")
	if err == nil {
		err = host.check("the matrix in host memory", m.Rows, m.Columns, m.Type)
	}
	if err != nil {
		return fmt.Errorf("outofcore: %w", err)
	}
	buffer := make([]byte, m.TileRows*m.TileColumns*int64(m.Type.Size()))
	_, across := m.count()
	for k, a := range m.Tiles {
		w := host.window(m.extent(k/across, k%across))
		if err := move(a, w, buffer[:w.rows*w.rowBytes]); err != nil {
			return err
		}
	}
	return nil
}

// TiledProduct is a product of matrices in a [tier.Store]:
//
//	C = Alpha op(A) op(B) + Beta C
//
// as [Product] is one of matrices in host memory. The tiles go together: those
// of op(A) are as high as those of C, those of op(B) as wide, and those of op(A)
// as wide as those of op(B) are high.
type TiledProduct struct {
	A, B           *Tiled // of one type; they may be the same
	TransA, TransB bool

	// C has the type of A and B, or is F32. A sum in BF16 would be rounded at
	// each tile of k, so then the tiles of op(A) have to be as wide as k.
	C *Tiled

	Alpha, Beta float32 // as in [Product]
	TF32        bool
}

// MatMulTiled computes p. The store brings in what is not on the device, ahead
// of its use, and keeps what it will need; see [tier.Stream]. Beside the store's
// memory the product takes the library's workspace.
//
// It returns when C is complete, or when it failed or ctx ended, and then C holds
// a mixture of old and new. It fails with [device.ErrArgument] for matrices that
// do not go together, and as [tier.Store.Use] does: three tiles have to fit on
// the device.
func (r *Runner) MatMulTiled(ctx context.Context, s *tier.Store, p TiledProduct) (report tier.StreamReport, err error) {
	if err := p.check(); err != nil {
		return report, fmt.Errorf("outofcore: matmul: %w", err)
	}
	report, err = r.matMulTiled(ctx, s, &p)
	return report, wrapped(ctx, "matmul", err)
}

func (r *Runner) matMulTiled(ctx context.Context, s *tier.Store, p *TiledProduct) (report tier.StreamReport, err error) {
	b, err := r.multiplier()
	if err != nil {
		return report, err
	}
	var workspace device.Ptr
	if n := b.WorkspaceBytes(); n > 0 {
		at, free, err := r.alloc(ctx, n)
		if err != nil {
			return report, err
		}
		workspace = at
		defer func() { err = errors.Join(err, free()) }()
	}
	var steps []tier.Step
	begun := map[[2]int]bool{}
	for _, c := range p.order(s.Stats().DeviceLimit) {
		steps = append(steps, p.step(c, !begun[[2]int{c.i, c.j}], b, workspace))
		begun[[2]int{c.i, c.j}] = true
	}
	return r.runSteps(ctx, s, steps)
}

// runSteps runs steps on arrays of a store, once, and waits for them: also for
// those that are queued when one fails or ctx ends.
func (r *Runner) runSteps(ctx context.Context, s *tier.Store, steps []tier.Step) (report tier.StreamReport, err error) {
	stream, err := r.dev.NewStream()
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, stream.Close()) }()
	network, err := s.NewStream(steps...)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, stream.Synchronize(), network.Close()) }()
	return network.Run(ctx, stream, 1)
}

// op is the shape of a matrix as it is used, and of its tiles.
func (m *Tiled) op(transposed bool) (rows, columns, tileRows, tileColumns int64) {
	if transposed {
		return m.Columns, m.Rows, m.TileColumns, m.TileRows
	}
	return m.Rows, m.Columns, m.TileRows, m.TileColumns
}

// at is the tile of op(m) in a row and column of tiles.
func (m *Tiled) at(row, column int, transposed bool) *tier.Array {
	if transposed {
		row, column = column, row
	}
	_, across := m.count()
	return m.Tiles[row*across+column]
}

// check finds what is wrong with p.
func (p *TiledProduct) check() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{device.ErrArgument}, args...)...)
	}
	for _, x := range []struct {
		name string
		m    *Tiled
	}{{"A", p.A}, {"B", p.B}, {"C", p.C}} {
		if err := x.m.check(x.name); err != nil {
			return err
		}
	}
	m, k, high, deep := p.A.op(p.TransA)
	k2, n, deep2, wide := p.B.op(p.TransB)
	switch c := p.C; {
	case k != k2 || c.Rows != m || c.Columns != n:
		return bad("op(A) is %d x %d, op(B) %d x %d, C %d x %d", m, k, k2, n, c.Rows, c.Columns)
	case deep != deep2 || c.TileRows != high || c.TileColumns != wide:
		return bad("the tiles of op(A) are %d x %d, of op(B) %d x %d, of C %d x %d", high, deep, deep2, wide, c.TileRows, c.TileColumns)
	case p.A.Type != p.B.Type || c.Type != p.A.Type && c.Type != dtype.F32:
		return bad("A has elements of type %v, B of %v, C of %v", p.A.Type, p.B.Type, c.Type)
	case c.Type == dtype.BF16 && deep < k:
		return bad("C of bf16 would be rounded %d times: the tiles of op(A) are %d wide and k is %d", ceil(k, deep), deep, k)
	case slices.ContainsFunc(c.Tiles, func(a *tier.Array) bool { return slices.Contains(p.A.Tiles, a) || slices.Contains(p.B.Tiles, a) }):
		return bad("C shares tiles with A or B")
	case float64(ceil(m, high))*float64(ceil(n, wide))*float64(ceil(k, deep)) > mostSteps:
		return bad("%d x %d x %d in tiles of %d x %d x %d are more than %d products", m, n, k, high, wide, deep, mostSteps)
	}
	return nil
}

// order lists the products of tiles: a block of C stays, as large as that much
// device memory has room for, while A and B go by.
func (p *TiledProduct) order(deviceBytes int64) []cell {
	mt, nt := p.C.count()
	_, k, high, deep := p.A.op(p.TransA)
	kt := int(ceil(k, deep))
	size := int64(p.A.Type.Size())
	factor, sum := max(high, p.C.TileColumns)*deep*size, high*p.C.TileColumns*int64(p.C.Type.Size())
	const ahead = 2 // tiles that the store brings in before they are used
	best, least := kind{rows: 1, columns: 1}, math.Inf(1)
	for rows := 1; rows <= mt; rows++ {
		left := deviceBytes - int64(rows+1+ahead)*factor - sum
		columns := min(int(left/(factor+int64(rows)*sum)), nt)
		if columns < 1 {
			break
		}
		if loads := float64(mt)*float64((nt-1)/columns+1) + float64(nt)*float64((mt-1)/rows+1); loads < least {
			best, least = kind{rows: rows, columns: columns}, loads
		}
	}
	return best.blocks(make([]cell, 0, mt*nt*kt), mt, nt, kt)
}

// step multiplies two tiles.
func (p *TiledProduct) step(at cell, first bool, b blas.BLAS, workspace device.Ptr) tier.Step {
	x, y, c := p.A.at(at.i, at.l, p.TransA), p.B.at(at.l, at.j, p.TransB), p.C.at(at.i, at.j, false)
	_, _, m, n := p.C.extent(at.i, at.j)
	_, k, _, deep := p.A.op(p.TransA)
	g := blas.Gemm{M: m, N: n, K: min(deep, k-int64(at.l)*deep), TransA: p.TransA, TransB: p.TransB,
		Alpha: cmp.Or(p.Alpha, 1), Beta: 1, Type: p.A.Type, TypeC: p.C.Type, TF32: p.TF32, Workspace: workspace, WorkspaceBytes: b.WorkspaceBytes()}
	result := tier.Write
	if first {
		if g.Beta = p.Beta; g.Beta == 0 {
			result = tier.Overwrite
		}
	}
	use := []tier.Access{tier.Read(x), result(c)}
	if y != x {
		use = append(use, tier.Read(y))
	}
	return tier.Step{Name: c.Name(), Use: use, Run: func(s device.Stream, l *tier.Lease) error {
		g := g
		g.A.Ptr, g.B.Ptr, g.C.Ptr = l.Ptr(x), l.Ptr(y), l.Ptr(c)
		return b.Gemm(s, g)
	}}
}
