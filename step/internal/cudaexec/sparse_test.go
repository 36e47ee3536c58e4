package cudaexec

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/blas"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/graph"
)

// sparser is a BLAS whose sparse products are dense ones by a copy of B, for devices
// without the library.
type sparser struct {
	blas.BLAS
	lacks    error
	plans    []blas.Gemm
	launched int
	packed   int
}

func (s *sparser) Sparse(g blas.Gemm) (blas.SparseGemm, error) {
	if s.lacks != nil {
		return nil, s.lacks
	}
	s.plans = append(s.plans, g)
	return &copied{s, g}, nil
}

// copied is a product by a copy of B, as large as B, behind which nothing may be written.
type copied struct {
	*sparser
	g blas.Gemm
}

func (c *copied) CompressedBytes() int64 {
	_, b, _ := c.g.Shapes()
	return b.Bytes
}
func (c *copied) ScratchBytes() int64                               { return 100 }
func (c *copied) WorkspaceBytes() int64                             { return 300 }
func (c *copied) Check(device.Stream, device.Ptr, device.Ptr) error { return nil }

func (c *copied) Compress(s device.Stream, b, compressed, scratch device.Ptr) error {
	c.packed++
	return errors.Join(s.Memset(scratch, 0xff, c.ScratchBytes()), s.CopyD2D(compressed, b, c.CompressedBytes()))
}

func (c *copied) Gemm(s device.Stream, a, compressed, out, workspace device.Ptr) error {
	c.launched++
	g := c.g
	g.A.Ptr, g.B.Ptr, g.C.Ptr = a, compressed, out
	return errors.Join(s.Memset(workspace, 0xff, c.WorkspaceBytes()), c.BLAS.Gemm(s, g))
}

// pairs is a 2:4 sparse matrix of type d, along an axis.
func (b *builder) pairs(d dtype.DType, dims [2]int, axis int) graph.Value {
	b.t.Helper()
	x := make([]float64, dims[0]*dims[1])
	for i := range x {
		x[i] = float64(b.rng.IntN(9)-4) / 2
	}
	strides := [2]int{dims[1], 1}
	for line := range dims[1-axis] {
		for k := 0; k < dims[axis]; k += 4 {
			first := b.rng.IntN(4)
			for _, i := range []int{first, (first + 1 + b.rng.IntN(3)) % 4} {
				x[line*strides[1-axis]+(k+i)*strides[axis]] = 0
			}
		}
	}
	return b.put(d, x, dims[:]...)
}

// A product that is said to have a 2:4 sparse factor leaves zeros out where it has many
// rows, and gives the host's results.
func TestSparseProduct(t *testing.T) {
	for _, test := range []struct {
		name   string
		rows   []int
		axis   int // of the factor, that is contracted
		turned bool
		flag   bool
		want   int // sparse products
	}{
		{"columns", []int{sparseRows}, 0, false, true, 1},
		{"rows", []int{sparseRows}, 1, false, true, 1},
		{"two axes of rows", []int{2, sparseRows / 2}, 0, false, true, 1},
		{"a transposed factor", []int{sparseRows}, 0, true, true, 1},
		{"not said", []int{sparseRows}, 0, false, false, 0},
		{"few rows", []int{sparseRows - 8}, 0, false, true, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := openTest(t)
			double, isDouble := (*sparser)(nil), false
			if _, ok := e.blas.(blas.Sparser); !ok {
				double, isDouble = &sparser{BLAS: e.blas}, true
				e.blas = double
			}
			b := newBuilder(t)
			const k, n = 64, 48
			x := b.random(dtype.BF16, append(test.rows, k)...)
			dims := [2]int{k, n}
			if test.axis == 1 {
				dims = [2]int{n, k}
			}
			w := b.pairs(dtype.BF16, dims, test.axis)
			axis := test.axis
			if test.turned {
				w, axis = b.ok(b.Transpose(w, 1, 0)), 1-axis
			}
			y := b.ok(b.DotGeneral(x, w, graph.DotAxes{Contracted: [2][]int{{len(test.rows)}, {axis}}, TwoOfFour: test.flag}))
			y = b.unary(graph.Neg, y)
			testkit.OK(t, b.SetOutputs(y))
			want, _ := b.execute(reference(t), step.Options{})
			got, _ := b.execute(e, step.Options{})
			for j := range y.Shape().Size() {
				g, _ := element(dtype.BF16, got[0], j)
				if w, _ := element(dtype.BF16, want[0], j); !near(dtype.BF16, g, w, 1) {
					t.Fatalf("element %d is %v, want %v", j, g, w)
				}
			}
			again, _ := b.execute(e, step.Options{})
			if string(again[0]) != string(got[0]) {
				t.Error("another run gives other bits")
			}
			switch notes := strings.Join(e.Notes(), "\n"); {
			case isDouble && (double.launched != 2*test.want || double.packed != 2*test.want || len(double.plans) != 2*test.want):
				t.Errorf("%d products, %d compressed, %d planned; want %d of each", double.launched, double.packed, len(double.plans), 2*test.want)
			case !isDouble && notes != "":
				t.Skip(notes)
			}
		})
	}
}

// Where there is no library for it, the dense product does it, and the reason is told,
// once.
func TestSparseMissing(t *testing.T) {
	e := openTest(t)
	e.blas = &sparser{BLAS: e.blas, lacks: fmt.Errorf("%w: no such library", device.ErrNotSupported)}
	b := newBuilder(t)
	x, w := b.random(dtype.BF16, sparseRows, 64), b.pairs(dtype.BF16, [2]int{64, 16}, 0)
	var products []graph.Value
	for range 2 {
		products = append(products, b.ok(b.DotGeneral(x, w, graph.DotAxes{Contracted: [2][]int{{1}, {0}}, TwoOfFour: true})))
		x = b.unary(graph.Neg, x)
	}
	b.compare(e, 1, products...)
	if notes := e.Notes(); len(notes) != 1 || !strings.Contains(notes[0], "no such library; the dense product does it") {
		t.Errorf("%q", notes)
	}
}
