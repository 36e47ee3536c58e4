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
		return fmt.Errorf("sharded: %s: %w: %.80q is %s of shape %d in the checkpoint, and %s of shape %d here", ck.folder, ErrArgument, p.Name, v.Type, v.Shape, p.Type, p.Shape)
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

// What is gathered at once: bytes of files from the first to the last run of each piece that
// has several, and runs. One run alone takes no memory. Variable for tests.
var atOnce = int64(8 << 20)

const mostRuns = 1 << 16

// gatherer reads runs: those of a piece that has one straight to where it belongs, others by
// way of what lies from the first to the last of them.
type gatherer struct {
	ctx    context.Context
	v      *value
	data   []byte
	runs   []run
	spans  []span // of pieces
	total  int64  // elements of the spans of several runs, which take memory
	buffer []byte
}

type span struct {
	runs     int
	from, to int64
	memory   []byte
}

// gather reads what p is of each of n rows. What a piece has of one row lies behind what it has
// of the row before.
func (v *value) gather(ctx context.Context, p Piece, n int64, data []byte) error {
	whole, _ := elements(v.Shape)
	_, wanted, _ := rows(whole, p.Row)
	_, each, _ := rows(whole, v.row)
	g := &gatherer{ctx: ctx, v: v, data: data, spans: make([]span, len(v.pieces))}
	to := int64(0)
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
			if err := g.add(r); err != nil {
				return err
			}
			at, to = at+r.n, to+r.n
		}
	}
	return g.fetch()
}

// add adds a run, behind all others of its piece and of the memory.
func (g *gatherer) add(r run) error {
	s := &g.spans[r.piece]
	follows := s.runs > 0 && g.runs[len(g.runs)-1].piece == r.piece && s.to == r.at
	if follows && s.runs == 1 {
		g.runs[len(g.runs)-1].n += r.n
		s.to += r.n
		return nil
	}
	more := int64(0)
	switch s.runs {
	case 0:
	case 1:
		more = r.at + r.n - s.from
	default:
		more = r.at + r.n - s.to
	}
	if more > 0 && (g.total+more)*g.v.size() > atOnce || len(g.runs) == mostRuns {
		if err := g.fetch(); err != nil {
			return err
		}
		follows, more = false, 0
	}
	if s.runs == 0 {
		s.from = r.at
	}
	s.to, g.total = r.at+r.n, g.total+more
	if follows {
		g.runs[len(g.runs)-1].n += r.n
		return nil
	}
	s.runs++
	g.runs = append(g.runs, r)
	return nil
}

// fetch reads all runs, and forgets them.
func (g *gatherer) fetch() error {
	size := g.v.size()
	var parts []safetensors.Into
	g.buffer = g.buffer[:0]
	for _, r := range g.runs {
		s := &g.spans[r.piece]
		if s.memory != nil {
			continue
		}
		bytes := (s.to - s.from) * size
		if s.runs == 1 {
			s.memory = g.data[r.to*size:][:bytes]
		} else {
			if n := int64(len(g.buffer)) + bytes; n > int64(cap(g.buffer)) {
				g.buffer = make([]byte, 0, max(n, min(atOnce, g.total*size))) // spans before keep theirs
			}
			s.memory = g.buffer[len(g.buffer):][:bytes]
			g.buffer = g.buffer[:int64(len(g.buffer))+bytes]
		}
		t := g.v.pieces[r.piece].tensor
		t.Shape, t.Offset, t.Bytes = []int64{s.to - s.from}, t.Offset+s.from*size, bytes
		parts = append(parts, safetensors.Into{Tensor: t, Memory: s.memory})
	}
	if err := safetensors.Read(g.ctx, parts...); err != nil {
		return err
	}
	for _, r := range g.runs {
		if s := &g.spans[r.piece]; s.runs > 1 {
			copy(g.data[r.to*size:(r.to+r.n)*size], s.memory[(r.at-s.from)*size:])
		}
	}
	clear(g.spans)
	g.runs, g.total = g.runs[:0], 0
	return nil
}
