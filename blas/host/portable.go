package host

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// The routine in Go makes C in tiles of side x side, each by one goroutine. Of
// both factors it packs depth columns, or rows, at a time into panels that stay
// in the first two caches (Goto and van de Geijn, "Anatomy of high-performance
// matrix multiplication", 2008), and multiplies them in squares of 4 x 4, whose
// 16 sums stay in registers. The sums of an element are taken in the order of
// k, so the result depends neither on the goroutines nor on the tile.
const (
	side  = 64
	depth = 256
	unit  = 4
)

// panels are the scratch memory of a goroutine. Packed rows of op(A), and
// columns of op(B), lie in groups of unit: element k of all four, then k+1.
type panels struct {
	a, b [side * depth]float32
	sums [side * side]float32
	row  [max(side, depth)]float32
}

// scratches are panels between products: clearing new ones would take longer than a small
// product.
var scratches = sync.Pool{New: func() any { return new(panels) }}

func (p *product) inGo() {
	rows, columns := (p.M+side-1)/side, (p.N+side-1)/side
	each := rows * columns
	tiles := p.Count() * each
	var next atomic.Int64
	var all sync.WaitGroup
	for range min(int64(runtime.GOMAXPROCS(0)), tiles) {
		all.Go(func() {
			scratch := scratches.Get().(*panels)
			defer scratches.Put(scratch)
			for t := next.Add(1) - 1; t < tiles; t = next.Add(1) - 1 {
				one := p
				if tiles > each {
					n := p.nth(t / each)
					one = &n
				}
				one.tile(scratch, t%each/columns*side, t%columns*side)
			}
		})
	}
	all.Wait()
}

// tile makes the tile of C at a row and a column.
func (p *product) tile(s *panels, row, column int64) {
	m, n := min(side, p.M-row), min(side, p.N-column)
	clear(s.sums[:])
	for k := int64(0); k < p.K; k += depth {
		d := min(depth, p.K-k)
		// A row of op(A) is a row of A, or a column; packed, both are rows of four.
		s.pack(s.a[:], &p.a, row, m, k, d, p.TransA)
		s.pack(s.b[:], &p.b, column, n, k, d, !p.TransB)
		for i := int64(0); i < m; i += unit {
			for j := int64(0); j < n; j += unit {
				multiply(s.sums[i*side+j:], s.a[i*d:][:unit*d], s.b[j*d:][:unit*d])
			}
		}
	}
	for i := range m {
		p.put(s.sums[i*side:][:n], row+i, column)
	}
}

// pack copies count lines from first on, and depth elements of each from k on,
// into groups of unit lines. A line is a row of o, or with byColumn a column.
// Missing lines of the last group are zero.
func (s *panels) pack(dst []float32, o *operand, first, count, k, depth int64, byColumn bool) {
	if rest := count % unit; rest != 0 {
		clear(dst[(count-rest)*depth : (count-rest+unit)*depth])
	}
	if byColumn {
		for e := range depth {
			line := s.row[:count]
			o.row(line, k+e, first)
			for i, v := range line {
				dst[int64(i)/unit*unit*depth+e*unit+int64(i)%unit] = v
			}
		}
		return
	}
	for i := range count {
		line := s.row[:depth]
		o.row(line, first+i, k)
		to := dst[i/unit*unit*depth+i%unit:]
		for e, v := range line {
			to[e*unit] = v
		}
	}
}

// multiply adds the products of four packed lines of each side to a square of
// sums.
func multiply(sums, a, b []float32) {
	var (
		c00, c01, c02, c03 float32
		c10, c11, c12, c13 float32
		c20, c21, c22, c23 float32
		c30, c31, c32, c33 float32
	)
	for len(a) >= unit && len(b) >= unit {
		a0, a1, a2, a3 := a[0], a[1], a[2], a[3]
		b0, b1, b2, b3 := b[0], b[1], b[2], b[3]
		c00 += a0 * b0
		c01 += a0 * b1
		c02 += a0 * b2
		c03 += a0 * b3
		c10 += a1 * b0
		c11 += a1 * b1
		c12 += a1 * b2
		c13 += a1 * b3
		c20 += a2 * b0
		c21 += a2 * b1
		c22 += a2 * b2
		c23 += a2 * b3
		c30 += a3 * b0
		c31 += a3 * b1
		c32 += a3 * b2
		c33 += a3 * b3
		a, b = a[unit:], b[unit:]
	}
	for i, row := range [unit][unit]float32{
		{c00, c01, c02, c03}, {c10, c11, c12, c13}, {c20, c21, c22, c23}, {c30, c31, c32, c33},
	} {
		to := sums[i*side:][:unit]
		for j, v := range row {
			to[j] += v
		}
	}
}
