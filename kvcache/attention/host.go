package attention

import (
	"math"
	"unsafe"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/float16"
)

// Kernels as Go functions.

// memory finds the operands of a call, until one cannot be had.
type memory struct {
	c   device.Caller
	err error
}

func at[T uint16 | int32](m *memory, p device.Ptr, n int) []T {
	if m.err != nil {
		return nil
	}
	var zero T
	b, err := m.c.Bytes(p, int64(n)*int64(unsafe.Sizeof(zero)))
	if err != nil {
		m.err = err
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), n)
}

// book is tables and rows, on the host.
type book struct {
	l                       Layout
	r                       Rows
	sequence, length, table []int32
	pages                   []uint16
}

func newBook(m *memory, l Layout, r Rows) *book {
	return &book{l, r, at[int32](m, r.Sequence, r.N), at[int32](m, r.Length, r.N), at[int32](m, r.Tables, r.Sequences*r.TableWidth),
		at[uint16](m, l.Pages, int(int64(l.Blocks)*l.BlockBytes/2))}
}

// rowLength is how many tokens a row can attend to.
func (b *book) rowLength(row int) int {
	if s := b.sequence[row]; s < 0 || int(s) >= b.r.Sequences {
		return 0
	}
	return min(max(0, int(b.length[row])), b.r.TableWidth*b.l.BlockTokens)
}

// find is where the keys and values of a token are; nil: nowhere.
func (b *book) find(row, token int) (keys, values []uint16) {
	n := b.table[int(b.sequence[row])*b.r.TableWidth+token/b.l.BlockTokens]
	if n < 0 || int(n) >= b.l.Blocks {
		return nil, nil
	}
	width := b.l.Heads * b.l.Width
	at := int64(n)*b.l.BlockBytes/2 + int64(token%b.l.BlockTokens)*int64(width)
	return b.pages[at+b.l.Keys/2:][:width], b.pages[at+b.l.Values/2:][:width]
}

func (j stored) call(c device.Caller, stream device.Stream) error {
	m := &memory{c: c}
	b, width := newBook(m, j.l, j.r), j.l.Heads*j.l.Width
	keys, values := at[uint16](m, j.keys, j.r.N*width), at[uint16](m, j.values, j.r.N*width)
	if m.err != nil {
		return m.err
	}
	return c.Call(stream, func() error {
		for row := range j.r.N {
			n := b.rowLength(row)
			if n == 0 || n < int(b.length[row]) {
				continue
			}
			if k, v := b.find(row, n-1); k != nil {
				copy(k, keys[row*width:])
				copy(v, values[row*width:])
			}
		}
		return nil
	})
}

func (p plan) call(c device.Caller, stream device.Stream) error {
	m := &memory{c: c}
	b, width := newBook(m, p.l, p.Rows), p.Heads*p.l.Width
	query, out := at[uint16](m, p.Query.Query, p.N*width), at[uint16](m, p.Out, p.N*width)
	if m.err != nil {
		return m.err
	}
	widen, narrow := float16.FromBF16, float16.ToBF16
	if p.l.Type == dtype.F16 {
		widen, narrow = float16.FromF16, float16.ToF16
	}
	return c.Call(stream, func() error {
		sum := make([]float32, p.l.Width)
		for row := range p.N {
			for head := range p.Heads {
				at := row*width + head*p.l.Width
				p.attend(b, row, head/p.group*p.l.Width, query[at:][:p.l.Width], sum, widen)
				for i, x := range sum {
					out[at+i] = narrow(x)
				}
			}
		}
		return nil
	})
}

// attend computes a head of a row, whose keys and values begin at element first of a token's.
func (p plan) attend(b *book, row, first int, query []uint16, sum []float32, widen func(uint16) float32) {
	clear(sum)
	most, total := float32(math.Inf(-1)), float32(0)
	n := b.rowLength(row)
	for token := range n {
		if p.Window > 0 && token < n-p.Window && token >= p.Sinks {
			continue
		}
		keys, values := b.find(row, token)
		if keys == nil {
			continue
		}
		score := float32(0)
		for i, q := range query {
			score += widen(q) * widen(keys[first+i])
		}
		score *= p.Scale
		if score > most {
			shrink := float32(math.Exp(float64(most - score)))
			total *= shrink
			for i := range sum {
				sum[i] *= shrink
			}
			most = score
		}
		weight := float32(math.Exp(float64(score - most)))
		total += weight
		for i := range sum {
			sum[i] += weight * widen(values[first+i])
		}
	}
	for i := range sum {
		if total != 0 {
			sum[i] /= total
		}
	}
}
