package tests

import (
	"fmt"
	"math"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/gobackend"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/layers/attention"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/pinion-gpu/pinion/gomlx"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/graph"
)

const (
	maskBatch, maskHeads, maskLength, maskEach = 3, 2, 11, 8
)

// lengths are how much of each row is no padding; one row is nothing else.
func lengths(g *Graph) *Node { return Const(g, []int32{maskLength, 5, 0}) }

// behind is a mask of the first elements of each row; before, of the last ones.
func behind(g *Graph) *Node {
	at := Iota(g, shapes.Make(dtypes.Int32, maskBatch, maskLength), 1)
	return LessThan(at, ExpandAxes(lengths(g), -1))
}

func before(g *Graph) *Node { return Reverse(behind(g), 1) }

// maskCases are ways to mask an attention of GoMLX's. Those that are fused are one
// operation; the others are computed by parts.
var maskCases = []struct {
	name  string
	fused bool
	build func(b *attention.MultiHeadAttentionBuilder, g *Graph) *attention.MultiHeadAttentionBuilder
}{
	{"causal", true, func(b *attention.MultiHeadAttentionBuilder, g *Graph) *attention.MultiHeadAttentionBuilder {
		return b.WithCausalMask(true)
	}},
	{"keys", true, func(b *attention.MultiHeadAttentionBuilder, g *Graph) *attention.MultiHeadAttentionBuilder {
		return b.WithKeyMask(behind(g))
	}},
	{"queries", true, func(b *attention.MultiHeadAttentionBuilder, g *Graph) *attention.MultiHeadAttentionBuilder {
		return b.WithQueryMask(behind(g))
	}},
	{"padding", true, func(b *attention.MultiHeadAttentionBuilder, g *Graph) *attention.MultiHeadAttentionBuilder {
		return b.WithMask(behind(g))
	}},
	{"causal, padding", true, func(b *attention.MultiHeadAttentionBuilder, g *Graph) *attention.MultiHeadAttentionBuilder {
		return b.WithMask(behind(g)).WithCausalMask(true)
	}},
	{"causal, padding before", true, func(b *attention.MultiHeadAttentionBuilder, g *Graph) *attention.MultiHeadAttentionBuilder {
		return b.WithKeyMask(before(g)).WithCausalMask(true)
	}},
	{"lengths", true, func(b *attention.MultiHeadAttentionBuilder, g *Graph) *attention.MultiHeadAttentionBuilder {
		return b.WithSeqLens(lengths(g), lengths(g))
	}},
	{"causal, lengths", true, func(b *attention.MultiHeadAttentionBuilder, g *Graph) *attention.MultiHeadAttentionBuilder {
		return b.WithSeqLens(lengths(g), lengths(g)).WithCausalMask(true)
	}},
	{"lengths, fewer heads of keys", true, func(b *attention.MultiHeadAttentionBuilder, g *Graph) *attention.MultiHeadAttentionBuilder {
		return b.WithNumKVHeads(1).WithSeqLens(lengths(g), lengths(g))
	}},
	{"padding, another scale", true, func(b *attention.MultiHeadAttentionBuilder, g *Graph) *attention.MultiHeadAttentionBuilder {
		return b.WithKeyMask(behind(g)).WithQueryKeyScale(-0.2)
	}},
	{"padding for each head", false, func(b *attention.MultiHeadAttentionBuilder, g *Graph) *attention.MultiHeadAttentionBuilder {
		at := Iota(g, shapes.Make(dtypes.Int32, maskBatch, maskHeads, maskLength), 1)
		return b.WithKeyMask(LogicalOr(ExpandAxes(behind(g), 1), LessThan(at, Const(g, int32(1)))))
	}},
	{"a window", false, func(b *attention.MultiHeadAttentionBuilder, g *Graph) *attention.MultiHeadAttentionBuilder {
		return b.WithKeyMask(behind(g)).WithCausalMask(true).WithSlidingWindow(3)
	}},
	{"any mask", false, func(b *attention.MultiHeadAttentionBuilder, g *Graph) *attention.MultiHeadAttentionBuilder {
		at := IotaFull(g, shapes.Make(dtypes.Int32, maskBatch, maskLength, maskLength))
		return b.WithQueryKeyMatrixMask(NotEqual(Mod(at, Const(g, int32(3))), Const(g, int32(1))))
	}},
	{"a bias", false, func(b *attention.MultiHeadAttentionBuilder, g *Graph) *attention.MultiHeadAttentionBuilder {
		return b.WithAttentionBias(Sin(IotaFull(g, shapes.Make(dtypes.Float32, maskBatch, maskHeads, maskLength, maskLength))))
	}},
}

// Masked attention of GoMLX's layer, and its gradients, are what its own backend computes
// by parts, whether they are one operation here or not.
func TestAttentionMasks(t *testing.T) {
	golang, err := gobackend.New("")
	if err != nil {
		t.Fatal(err)
	}
	defer golang.Finalize()
	for _, c := range maskCases {
		t.Run(c.name, func(t *testing.T) {
			ops := map[graph.Op]int{}
			backend, err := gomlx.Open(gomlx.Options{Device: testDevice(), Compile: func(g *graph.Graph, exec step.Executor, o step.Options) (*step.Executable, error) {
				x, err := step.Compile(g, exec, o)
				if err == nil {
					for _, n := range x.Graph().Nodes() {
						ops[n.Op]++
					}
				}
				return x, err
			}})
			if err != nil {
				t.Fatal(err)
			}
			defer backend.Finalize()
			layer := func(backend compute.Backend, fuse bool) [][]float32 {
				store := model.NewStore()
				out, err := model.CallOnceN(backend, store, func(scope *model.Scope, g *Graph) []*Node {
					x := Sin(MulScalar(IotaFull(g, shapes.Make(dtypes.Float32, maskBatch, maskLength, 12)), 0.7))
					b := attention.SelfAttention(scope.WithInitializer(waves), x, maskHeads, maskEach).WithFusion(fuse)
					y := c.build(b, g).Done()
					weight := Cos(MulScalar(IotaFull(g, y.Shape()), 0.37))
					return append([]*Node{y}, Gradient(ReduceAllSum(Mul(y, weight)), x)...)
				})
				if err != nil {
					t.Fatalf("%s: %+v", backend.Name(), err)
				}
				var all [][]float32
				for _, x := range out {
					all = append(all, tensors.MustCopyFlatData[float32](x))
				}
				return all
			}
			got, want := layer(backend, true), layer(golang, false)
			for i := range want {
				for j, w := range want[i] {
					if !(math.Abs(float64(got[i][j]-w)) <= 1e-4*(1+math.Abs(float64(w)))) {
						t.Fatalf("output %d, element %d: %v, want %v", i, j, got[i][j], w)
					}
				}
			}
			if fused := ops[graph.Attention] == 1 && ops[graph.AttentionBackward] == 1; fused != c.fused {
				t.Errorf("%d operations and %d for their gradients; fused is to be %t", ops[graph.Attention], ops[graph.AttentionBackward], c.fused)
			}
		})
	}
}

// A long masked attention takes memory for its rows, and none for its scores or its mask.
func TestAttentionMaskMemory(t *testing.T) {
	const batch, heads, length, each = 2, 4, 512, 24
	bytes := map[bool]int64{}
	for _, fuse := range []bool{false, true} {
		backend, err := gomlx.Open(gomlx.Options{Device: testDevice(), Compile: func(g *graph.Graph, exec step.Executor, o step.Options) (*step.Executable, error) {
			p, err := step.Plan(g, exec, o)
			if err == nil {
				bytes[fuse], err = p.Bytes, errPlanned
			}
			return nil, err
		}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = model.CallOnceN(backend, model.NewStore(), func(scope *model.Scope, g *Graph) []*Node {
			x := Sin(IotaFull(g, shapes.Make(dtypes.Float32, batch, length, heads*each)))
			mask := LessThan(Iota(g, shapes.Make(dtypes.Int32, batch, length), 1), Const(g, int32(length/2)))
			y := attention.SelfAttention(scope, x, heads, each).WithFusion(fuse).WithMask(mask).WithCausalMask(true).Done()
			return append([]*Node{y}, Gradient(ReduceAllSum(Mul(y, x)), x)...)
		})
		backend.Finalize()
		if bytes[fuse] == 0 {
			t.Fatal(err)
		}
	}
	const scores, row = 4 * batch * heads * length * length, 4 * batch * length * heads * each
	workspace := int64(0)
	if testDevice() != "host" {
		workspace = 64 << 20 // of products
	}
	t.Logf("%d bytes by parts, %d as one operation; scores take %d, rows %d", bytes[false], bytes[true], scores, row)
	if bytes[false] < scores || bytes[true]-workspace > 24*row {
		t.Errorf("%d bytes by parts, %d as one operation; scores take %d, rows %d", bytes[false], bytes[true], scores, row)
	}
}

// In 16 bits a mask is a mask, too.
func TestAttentionMaskAutocast(t *testing.T) {
	for _, amp := range []string{"bf16", "f16"} {
		var all [][]float32
		for _, fuse := range []bool{true, false} {
			backend, err := gomlx.New(fmt.Sprintf("%s,amp=%s", testDevice(), amp))
			if err != nil {
				t.Fatal(err)
			}
			out, err := model.CallOnceN(backend, model.NewStore(), func(scope *model.Scope, g *Graph) []*Node {
				x := Sin(MulScalar(IotaFull(g, shapes.Make(dtypes.Float32, maskBatch, maskLength, 12)), 0.7))
				y := attention.SelfAttention(scope.WithInitializer(waves), x, maskHeads, maskEach).WithFusion(fuse).WithMask(behind(g)).Done()
				return append([]*Node{y}, Gradient(ReduceAllSum(Mul(y, y)), x)...)
			})
			if err != nil {
				t.Fatalf("%+v", err)
			}
			var flat []float32
			for _, x := range out {
				flat = append(flat, tensors.MustCopyFlatData[float32](x)...)
			}
			all = append(all, flat)
			backend.Finalize()
		}
		most := 0.0
		for _, v := range all[1] {
			most = max(most, math.Abs(float64(v)))
		}
		for i, want := range all[1] {
			if !(math.Abs(float64(all[0][i]-want)) <= 0.03*most) {
				t.Fatalf("%s: element %d is %g, and %g by parts", amp, i, all[0][i], want)
			}
		}
	}
}

// BenchmarkAttentionMask is an attention layer that masks padding, forward and backward, as
// one operation and by parts.
func BenchmarkAttentionMask(b *testing.B) {
	batch, heads, length, each := 8, 12, 1024, 64
	if testDevice() == "host" {
		batch, heads, length = 2, 2, 256
	}
	for _, amp := range []string{"", ",amp=bf16"} {
		for _, fuse := range []bool{true, false} {
			b.Run(fmt.Sprintf("float32%s,fused=%t", amp, fuse), func(b *testing.B) {
				backend, err := gomlx.New(testDevice() + amp)
				if err != nil {
					b.Fatal(err)
				}
				defer backend.Finalize()
				layer, err := model.NewExec(backend, model.NewStore(), func(scope *model.Scope, x *Node) *Node {
					g := x.Graph()
					mask := LessThan(Iota(g, shapes.Make(dtypes.Int32, batch, length), 1), Const(g, int32(length*3/4)))
					y := attention.SelfAttention(scope, x, heads, each).WithFusion(fuse).WithMask(mask).WithCausalMask(true).Done()
					return ReduceAllSum(Gradient(ReduceAllSum(Mul(y, x)), x)[0])
				})
				if err != nil {
					b.Fatal(err)
				}
				x := tensors.FromShape(shapes.Make(dtypes.Float32, batch, length, heads*each))
				run := func() {
					out, err := layer.Exec(x)
					if err != nil {
						b.Fatal(err)
					}
					out[0].FinalizeAll()
				}
				for range 3 { // compiled, queued, recorded
					run()
				}
				for b.Loop() {
					run()
				}
				b.ReportMetric(float64(backend.Stats().Allocated.Peak)/1e6, "MB")
			})
		}
	}
}
