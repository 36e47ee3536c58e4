package sharded

import (
	"context"
	"fmt"
	"slices"

	"github.com/pinion-gpu/pinion/safetensors"
)

// Read reads the elements of a value from one on, as many as data holds.
func (ck *Checkpoint) Read(ctx context.Context, name string, from int64, data []byte) error {
	v := ck.values[name]
	if v == nil {
		return fmt.Errorf("sharded: %s: %w: it has no %.80q", ck.folder, ErrArgument, name)
	}
	whole, _ := elements(v.Shape)
	n := int64(len(data)) / v.size()
	if int64(len(data))%v.size() != 0 || from < 0 || from > whole-n {
		return fmt.Errorf("sharded: %s: %w: %d bytes from element %d on of %.80q, which has %d of %d bytes", ck.folder, ErrArgument, len(data), from, name, whole, v.size())
	}
	return ck.read(ctx, v, Piece{From: from, N: n}, 1, data)
}

// ReadPiece reads what p is of a value, however that was saved: row by row, as much as data
// holds. The value has to have the type and the shape of p.
func (ck *Checkpoint) ReadPiece(ctx context.Context, p Piece, data []byte) error {
	v := ck.values[p.Name]
	switch {
	case v == nil:
		return fmt.Errorf("sharded: %s: %w: it has no %.80q", ck.folder, ErrArgument, p.Name)
	case v.Type != p.Type || !slices.Equal(v.Shape, p.Shape):
		return fmt.Errorf("sharded: %s: %w: %.80q is %s of shape %d there, and not %s of shape %d", ck.folder, ErrArgument, p.Name, v.Type, v.Shape, p.Type, p.Shape)
	}
	n, ok := p.rows()
	if !ok || int64(len(data)) != n*p.N*v.size() {
		return fmt.Errorf("sharded: %s: %d bytes for elements of %d: %w", ck.folder, len(data), v.size(), p.wrong())
	}
	return ck.read(ctx, v, p, n, data)
}

// size of an element.
func (v *value) size() int64 { return v.Type.Bits() / 8 }

// read reads what p is of each of n rows.
func (ck *Checkpoint) read(ctx context.Context, v *value, p Piece, n int64, data []byte) error {
	if err := v.gather(ctx, p, n, data); err != nil {
		return fmt.Errorf("sharded: %s: %.80q: %w", ck.folder, v.Name, err)
	}
	return nil
}

// run is what lies in one go in a piece's file, and in the memory that is read to.
type run struct {
	piece     int
	at, n, to int64 // elements: of the piece, how many, and of the memory
}

// atOnce is about how many bytes are gathered at once. Variable for tests.
var atOnce = int64(8 << 20)

// gather finds the runs. What a piece has of one row lies behind what it has of the row before.
func (v *value) gather(ctx context.Context, p Piece, n int64, data []byte) error {
	whole, _ := elements(v.Shape)
	_, wanted, _ := rows(whole, p.Row)
	_, each, _ := rows(whole, v.row)
	var runs []run
	to, since := int64(0), int64(0) // elements, and behind those that are read
	for row := range n {
		for at, end := row*wanted+p.From, row*wanted+p.From+p.N; at < end; {
			column := at % each
			k, _ := slices.BinarySearchFunc(v.pieces, column+1, func(x piece, c int64) int {
				if x.from+x.n < c {
					return -1
				}
				return 1
			})
			x := v.pieces[k]
			r := run{k, at/each*x.n + column - x.from, min(end-at, x.from+x.n-column), to}
			if last := len(runs) - 1; last >= 0 && runs[last].piece == k && runs[last].at+runs[last].n == r.at {
				runs[last].n += r.n
			} else {
				runs = append(runs, r)
			}
			at, to = at+r.n, to+r.n
			if (to-since)*v.size() >= atOnce {
				if err := v.fetch(ctx, runs, data); err != nil {
					return err
				}
				runs, since = runs[:0], to
			}
		}
	}
	return v.fetch(ctx, runs, data)
}

// fetch reads runs: those of a piece that has one straight to where it belongs, others by way
// of what lies from the first to the last of them.
func (v *value) fetch(ctx context.Context, runs []run, data []byte) error {
	size := v.size()
	type span struct {
		runs     int
		from, to int64
		memory   []byte
	}
	spans := make([]span, len(v.pieces))
	for _, r := range runs {
		s := &spans[r.piece]
		if s.runs++; s.runs == 1 {
			s.from, s.memory = r.at, data[r.to*size:(r.to+r.n)*size]
		}
		s.to = r.at + r.n // rows, and with them what is read of a piece, come in order
	}
	var parts []safetensors.Into
	for k := range spans {
		s := &spans[k]
		if s.runs == 0 {
			continue
		}
		if s.runs > 1 {
			s.memory = make([]byte, (s.to-s.from)*size)
		}
		t := v.pieces[k].tensor
		t.Shape, t.Offset, t.Bytes = []int64{s.to - s.from}, t.Offset+s.from*size, (s.to-s.from)*size
		parts = append(parts, safetensors.Into{Tensor: t, Memory: s.memory})
	}
	if err := safetensors.Read(ctx, parts...); err != nil {
		return err
	}
	for _, r := range runs {
		if s := spans[r.piece]; s.runs > 1 {
			copy(data[r.to*size:(r.to+r.n)*size], s.memory[(r.at-s.from)*size:])
		}
	}
	return nil
}
