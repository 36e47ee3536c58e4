package cudnn_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/float16"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/step/internal/cudnn"
	"github.com/pinion-gpu/pinion/step/internal/cudnn/cudnntest"
)

// normal is an array of normally distributed numbers.
func normal(rng *rand.Rand, t dtype.DType, n int) (data []byte) {
	for range n {
		x := float32(rng.NormFloat64())
		if t == dtype.F16 {
			data = binary.LittleEndian.AppendUint16(data, float16.ToF16(x))
		} else {
			data = binary.LittleEndian.AppendUint16(data, float16.ToBF16(x))
		}
	}
	return data
}

// numbers are those of an array.
func numbers(t dtype.DType, data []byte) (list []float64) {
	for i := 0; i < len(data); i += t.Size() {
		switch t {
		case dtype.F16:
			list = append(list, float64(float16.FromF16(binary.LittleEndian.Uint16(data[i:]))))
		case dtype.BF16:
			list = append(list, float64(float16.FromBF16(binary.LittleEndian.Uint16(data[i:]))))
		default:
			list = append(list, float64(math.Float32frombits(binary.LittleEndian.Uint32(data[i:]))))
		}
	}
	return list
}

// far is how far apart arrays are, in units of the larger of one and the largest number's
// magnitude.
func far(t dtype.DType, got, want []byte) (most float64) {
	x, y := numbers(t, got), numbers(t, want)
	largest := 1.0
	for _, v := range y {
		largest = max(largest, math.Abs(v))
	}
	for i := range x {
		off := math.Abs(x[i]-y[i]) / largest
		if !(off <= most) { // NaN is far
			most = off
		}
	}
	return most
}

// attend computes an attention, twice, and compares what it writes with the host's.
// operands are the host's, and become the device's results.
func (r *rig) attend(t *testing.T, a cudnn.Attention, operands [][]byte) {
	t.Helper()
	p, err := r.lib.Plan(a)
	if standIns.File == "" && errors.Is(err, device.ErrNotSupported) {
		t.Logf("%+v: %v", a, err)
		cudnntest.Attend(a, operands...)
		return
	}
	testkit.OK(t, err)
	written := []int{3, 4}
	if a.Backward {
		written = []int{6, 7, 8}
	}
	var at []device.Ptr
	for i, data := range operands {
		at = append(at, testkit.Must(r.dev.Alloc(int64(len(data))))(t))
		testkit.OK(t, r.stream.CopyH2D(at[i], data))
	}
	workspace := testkit.Must(r.dev.Alloc(max(p.WorkspaceBytes(), 256)))(t)
	got := [2][][]byte{}
	for i := range got {
		testkit.OK(t, r.lib.Run(r.stream, p, workspace, at...))
		for _, j := range written {
			data := make([]byte, len(operands[j]))
			testkit.OK(t, r.stream.CopyD2H(data, at[j]))
			got[i] = append(got[i], data)
		}
		testkit.OK(t, r.stream.Synchronize())
	}
	cudnntest.Attend(a, operands...)
	for i, j := range written {
		kind, slack := a.Type, map[dtype.DType]float64{dtype.F16: 0.004, dtype.BF16: 0.03}[a.Type]
		if j == 4 {
			kind, slack = dtype.F32, 1e-4
			if !a.Sums {
				continue
			}
		}
		if off := far(kind, got[0][i], operands[j]); off > slack {
			t.Errorf("%+v: operand %d differs from the host's by %.3g", a, j, off)
		}
		if !bytes.Equal(got[0][i], got[1][i]) {
			t.Errorf("%+v: operand %d differs from one time to the next", a, j)
		}
		operands[j] = got[0][i]
	}
	for _, p := range append(at, workspace) {
		testkit.OK(t, r.dev.Free(p))
	}
}

// both runs an attention forward, and back with what that left.
func (r *rig) both(t *testing.T, a cudnn.Attention) {
	t.Helper()
	rng := rand.New(rand.NewPCG(3, 4))
	q, k := a.Batch*a.Heads*a.Queries*a.Each, a.Batch*a.KeyHeads*a.Keys*a.Each
	var operands [][]byte
	for _, n := range []int{q, k, k, q} {
		operands = append(operands, normal(rng, a.Type, n))
	}
	operands = append(operands, make([]byte, 4*a.Batch*a.Heads*a.Queries))
	a.Sums = true
	r.attend(t, a, operands)
	for _, n := range []int{q, q, k, k} {
		operands = append(operands, normal(rng, a.Type, n))
	}
	a.Backward, a.Sums = true, false
	r.attend(t, a, operands)
}

func TestAttentions(t *testing.T) {
	r := open(t)
	list := []cudnn.Attention{
		{Batch: 1, Heads: 1, KeyHeads: 1, Queries: 2, Keys: 128, Each: 8, Scale: 1},
		{Batch: 2, Heads: 2, KeyHeads: 2, Queries: 16, Keys: 128, Each: 16, Scale: 0.25},
		{Batch: 2, Heads: 4, KeyHeads: 2, Queries: 40, Keys: 128, Each: 8, Scale: 0.3},
		{Batch: 1, Heads: 3, KeyHeads: 1, Queries: 66, Keys: 128, Each: 8, Scale: 0.2},
	}
	if standIns.File == "" {
		for _, each := range []int{64, 128} {
			list = append(list,
				cudnn.Attention{Batch: 2, Heads: 2, KeyHeads: 2, Queries: 128, Keys: 128, Each: each, Scale: 0.1},
				cudnn.Attention{Batch: 1, Heads: 4, KeyHeads: 2, Queries: 128, Keys: 192, Each: each, Scale: 0.1},
				cudnn.Attention{Batch: 1, Heads: 2, KeyHeads: 2, Queries: 200, Keys: 200, Each: each, Scale: 0.1})
		}
	}
	for _, d := range []dtype.DType{dtype.BF16, dtype.F16} {
		for _, causal := range []bool{false, true} {
			for _, behind := range []bool{false, true} {
				t.Run(fmt.Sprintf("%v causal %t behind %t", d, causal, behind), func(t *testing.T) {
					for _, a := range list {
						a.Type, a.Causal, a.HeadsBehind = d, causal, behind
						r.both(t, a)
					}
				})
			}
		}
	}
}

// Without sums, their array is none.
func TestAttentionAlone(t *testing.T) {
	r := open(t)
	a := cudnn.Attention{Type: dtype.F16, Batch: 1, Heads: 2, KeyHeads: 2, Queries: 64, Keys: 64, Each: 64, Scale: 0.125, Causal: true}
	p, err := r.lib.Plan(a)
	if standIns.File == "" && errors.Is(err, device.ErrNotSupported) {
		t.Skip(err)
	}
	testkit.OK(t, err)
	rng := rand.New(rand.NewPCG(5, 6))
	var at []device.Ptr
	var operands [][]byte
	for i := range 4 {
		operands = append(operands, normal(rng, a.Type, 2*64*64))
		at = append(at, testkit.Must(r.dev.Alloc(2*2*64*64))(t))
		testkit.OK(t, r.stream.CopyH2D(at[i], operands[i]))
	}
	workspace := testkit.Must(r.dev.Alloc(max(p.WorkspaceBytes(), 256)))(t)
	testkit.OK(t, r.lib.Run(r.stream, p, workspace, append(at, 0)...))
	got := make([]byte, len(operands[3]))
	testkit.OK(t, r.stream.CopyD2H(got, at[3]))
	testkit.OK(t, r.stream.Synchronize())
	cudnntest.Attend(a, append(operands, nil)...)
	if off := far(a.Type, got, operands[3]); off > 0.004 {
		t.Errorf("differs from the host's by %.3g", off)
	}
	for _, p := range append(at, workspace) {
		testkit.OK(t, r.dev.Free(p))
	}
}

// The gradients' memory grows with the square of the length: batches are computed in
// parts that need little enough.
func TestAttentionParts(t *testing.T) {
	r := open(t)
	large := cudnn.Attention{Backward: true, Type: dtype.BF16, Batch: 16, Heads: 16, KeyHeads: 16, Queries: 1024, Keys: 1024, Each: 128, Causal: true, Scale: 0.1}
	p, err := r.lib.Plan(large)
	if standIns.File == "" && errors.Is(err, device.ErrNotSupported) {
		t.Skip(err)
	}
	testkit.OK(t, err)
	t.Logf("workspace of 16 x 16 heads of 1024 x 128: %d bytes", p.WorkspaceBytes())
	if n := p.WorkspaceBytes(); n > cudnn.MostWorkspace+1<<20+256 {
		t.Errorf("%d bytes", n)
	}
	if standIns.File == "" {
		return
	}
	r.lib.Limit(160 << 10) // the stand-in needs 64 KiB for a batch of these
	r.both(t, cudnn.Attention{Type: dtype.F16, Batch: 6, Heads: 2, KeyHeads: 1, Queries: 66, Keys: 128, Each: 8, Causal: true, HeadsBehind: true, Scale: 0.4})
	// There is nothing to divide.
	r.lib.Limit(32 << 10)
	_, err = r.lib.Plan(cudnn.Attention{Backward: true, Type: dtype.F16, Batch: 1, Heads: 2, KeyHeads: 1, Queries: 65, Keys: 128, Each: 8, Scale: 1})
	testkit.WantError(t, "a single batch", err, device.ErrNotSupported, "workspace")
}

func TestAttentionArguments(t *testing.T) {
	r := open(t)
	good := cudnn.Attention{Type: dtype.BF16, Batch: 1, Heads: 4, KeyHeads: 2, Queries: 8, Keys: 128, Each: 64, Scale: 1}
	for what, change := range map[string]func(a *cudnn.Attention){
		"a type":      func(a *cudnn.Attention) { a.Type = dtype.F32 },
		"heads":       func(a *cudnn.Attention) { a.KeyHeads = 3 },
		"no elements": func(a *cudnn.Attention) { a.Keys = 0 },
		"a scale":     func(a *cudnn.Attention) { a.Scale = float32(math.Inf(1)) },
	} {
		a := good
		change(&a)
		_, err := r.lib.Plan(a)
		testkit.WantError(t, what, err, device.ErrArgument)
	}
	for text, change := range map[string]func(a *cudnn.Attention){
		"12 elements in a head":      func(a *cudnn.Attention) { a.Each = 12 },
		"a single query":             func(a *cudnn.Attention) { a.Queries = 1 },
		"264 elements in a head":     func(a *cudnn.Attention) { a.Each = 264 },
		"gradient of bf16: a single": func(a *cudnn.Attention) { a.Backward, a.Queries = true, 1 },
	} {
		a := good
		change(&a)
		_, err := r.lib.Plan(a)
		if standIns.File == "" && a.Backward {
			continue // there may be another reason
		}
		testkit.WantError(t, text, err, device.ErrNotSupported, text)
	}
}
