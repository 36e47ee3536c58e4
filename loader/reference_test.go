package loader_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/loader"
)

// The reference works out, from the dataset and the definition of the formats
// alone, what a loader has to deliver. It shares no code with the loader or
// the kernels.

// reference holds the samples of a dataset.
type reference struct {
	spec    dataset.Spec
	samples [][]byte // nil where one, or a target of it, cannot be read
	labels  []int32
	targets []*reference
}

func newReference(t testing.TB, ds dataset.Dataset, targets ...dataset.Dataset) *reference {
	t.Helper()
	r := &reference{spec: ds.Spec()}
	reader, err := ds.NewReader()
	testkit.OK(t, err)
	defer reader.Close()
	for i := range ds.Len() {
		b := make([]byte, dataset.SampleBytes(ds, i))
		if f, isFake := ds.(*fake); isFake && (f.fail[i] || f.panics[i]) {
			b = nil
		} else {
			testkit.OK(t, reader.Read(t.Context(), dataset.Visit{Index: i}, b))
		}
		r.samples = append(r.samples, b)
		r.labels = append(r.labels, ds.Label(i))
	}
	for _, target := range targets {
		r.targets = append(r.targets, newReference(t, target))
		for i, b := range r.targets[len(r.targets)-1].samples {
			if b == nil {
				r.samples[i] = nil
			}
		}
	}
	return r
}

// lengths are those of axis 0 of some samples, where they differ in it, and the
// longest.
func (r *reference) lengths(indexes []int) (list []int32, longest int) {
	if !r.spec.Ragged {
		return nil, 0
	}
	for _, i := range indexes {
		n := len(r.samples[i]) / r.spec.RowBytes()
		list = append(list, int32(n))
		longest = max(longest, n)
	}
	return list, longest
}

// narrow takes off padding up to the longest that is there: places are as long
// as the longest sample of the batch, and that may have been left out.
func (r *reference) narrow(t testing.TB, g got) got {
	t.Helper()
	trim := func(r *reference, shape []int, data []byte) []byte {
		if !r.spec.Ragged {
			return data
		}
		_, longest := r.lengths(g.indexes)
		from, to := shape[1]*r.spec.RowBytes(), longest*r.spec.RowBytes()
		short := []byte{}
		for place := range slices.Chunk(data, max(from, 1)) {
			if slices.ContainsFunc(place[to:], func(b byte) bool { return b != 0 }) {
				t.Fatalf("batch %d (samples %v) has %x behind the longest", g.number, g.indexes, place[to:])
			}
			short = append(short, place[:to]...)
		}
		shape[1] = longest
		return short
	}
	g.data = trim(r, g.shape, g.data)
	g.targets = slices.Clone(g.targets)
	for k, target := range r.targets {
		g.targets[k].data = trim(target, g.targets[k].shape, g.targets[k].data)
	}
	return g
}

// target is what goes with some samples, as it is.
func (r *reference) target(indexes []int) gotTarget {
	g := gotTarget{dtype: r.spec.DType, shape: append([]int{len(indexes)}, r.spec.Shape...)}
	size := r.spec.Bytes()
	if r.spec.Ragged {
		g.lengths, g.shape[1] = r.lengths(indexes)
		size = g.shape[1] * r.spec.RowBytes()
		for _, n := range g.lengths {
			g.onDevice = binary.LittleEndian.AppendUint32(g.onDevice, uint32(n))
		}
	}
	g.data = []byte{}
	for _, i := range indexes {
		g.data = append(g.data, r.samples[i]...)
		g.data = append(g.data, make([]byte, size-len(r.samples[i]))...)
	}
	return g
}

// inOrder is the sampler without Shuffle.
func (r *reference) inOrder(epochs int) [][]int {
	list := make([][]int, epochs)
	for e := range list {
		for i := range r.samples {
			list[e] = append(list[e], i)
		}
	}
	return list
}

// batches is what a loader with o delivers, given the order of each epoch.
func (r *reference) batches(o loader.Options, orders [][]int) []got {
	batch := o.Batch
	if batch == 0 {
		batch = 64
	}
	var list []got
	for epoch, order := range orders {
		for number, indexes := range slices.Collect(slices.Chunk(order, batch)) {
			if o.DropLast && len(indexes) < batch {
				continue
			}
			indexes = slices.DeleteFunc(slices.Clone(indexes), func(i int) bool { return r.samples[i] == nil })
			if len(indexes) > 0 {
				list = append(list, r.batch(o, epoch, number, indexes))
			}
		}
	}
	return list
}

func (r *reference) batch(o loader.Options, epoch, number int, indexes []int) got {
	g := got{epoch: epoch, number: number, dtype: o.DType, indexes: indexes}
	shape := r.spec.Shape
	image := (r.spec.DType == dtype.U8 || r.spec.DType == dtype.U16) && len(shape) == 3 && shape[2] >= 1 && shape[2] <= 4
	if image {
		shape = []int{shape[2], shape[0], shape[1]}
	}
	if g.dtype == 0 {
		g.dtype = r.spec.DType
		if image {
			g.dtype = dtype.F32
		}
	}
	g.shape = append([]int{len(indexes)}, shape...)
	g.labels = r.labelsOf(indexes)
	for _, target := range r.targets {
		g.targets = append(g.targets, target.target(indexes))
	}
	if r.spec.Ragged {
		_, g.shape[1] = r.lengths(indexes)
		plain := r.target(indexes)
		if g.dtype != r.spec.DType || o.Pad != 0 {
			panic("no reference for padding but zeros as they are")
		}
		g.data = plain.data
		return g
	}
	for _, i := range indexes {
		switch {
		case image:
			g.data = appendImage(g.data, g.dtype, r.spec, r.samples[i], o.Mean, o.Std)
		case g.dtype == r.spec.DType:
			g.data = append(g.data, r.samples[i]...)
		default:
			for at := 0; at < len(r.samples[i]); at += r.spec.DType.Size() {
				g.data = appendElement(g.data, g.dtype, element(r.spec.DType, r.samples[i][at:]))
			}
		}
	}
	return g
}

func (r *reference) labelsOf(indexes []int) (list []int32) {
	for _, i := range indexes {
		list = append(list, r.labels[i])
	}
	return list
}

// appendImage is the formula in the documentation of kernels.Normalize.
func appendImage(b []byte, to dtype.DType, spec dataset.Spec, pixels []byte, mean, std []float64) []byte {
	h, w, channels := spec.Shape[0], spec.Shape[1], spec.Shape[2]
	largest := map[dtype.DType]float64{dtype.U8: 255, dtype.U16: 65535}[spec.DType]
	if mean == nil && std == nil && channels == 3 {
		mean, std = []float64{0.485, 0.456, 0.406}, []float64{0.229, 0.224, 0.225}
	}
	for c := range channels {
		m, s := 0.0, 1.0
		if mean != nil {
			m = mean[c]
		}
		if std != nil {
			s = std[c]
		}
		scale, bias := float32(1/(largest*s)), float32(-m/s)
		for i := range h * w {
			x := element(spec.DType, pixels[(i*channels+c)*spec.DType.Size():])
			if to != spec.DType {
				// A product of a sample and a float32 is exact in float64.
				product := float32(x * float64(scale))
				x = float64(float32(float64(product) + float64(bias)))
			}
			b = appendElement(b, to, x)
		}
	}
	return b
}

// element reads the first element of b.
func element(t dtype.DType, b []byte) float64 {
	switch t {
	case dtype.U8:
		return float64(b[0])
	case dtype.U16:
		return float64(binary.LittleEndian.Uint16(b))
	case dtype.I16:
		return float64(int16(binary.LittleEndian.Uint16(b)))
	case dtype.F32:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
	case dtype.F64:
		return math.Float64frombits(binary.LittleEndian.Uint64(b))
	}
	panic("no reference for " + t.String())
}

// appendElement appends x, rounded once to type t.
func appendElement(b []byte, t dtype.DType, x float64) []byte {
	switch t {
	case dtype.U8:
		return append(b, byte(max(0, min(255, math.RoundToEven(x)))))
	case dtype.U16:
		return binary.LittleEndian.AppendUint16(b, uint16(max(0, min(65535, math.RoundToEven(x)))))
	case dtype.F32:
		return binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(x)))
	case dtype.F16:
		return binary.LittleEndian.AppendUint16(b, small(x, 10, 5))
	case dtype.BF16:
		return binary.LittleEndian.AppendUint16(b, small(x, 7, 8))
	}
	panic("no reference for " + t.String())
}

// small rounds x, to nearest with ties to even, to a format of 16 bits.
func small(x float64, mantissa, exponent int) uint16 {
	sign := uint16(0)
	if math.Signbit(x) {
		sign, x = 1<<15, -x
	}
	if x == 0 {
		return sign
	}
	bias := 1<<(exponent-1) - 1
	_, e := math.Frexp(x) // x is in [2^(e-1), 2^e)
	least := max(e-1, 1-bias)
	// In units of the spacing there, neighbouring numbers follow on each
	// other, from one exponent into the next.
	steps := math.RoundToEven(math.Ldexp(x, mantissa-least))
	infinity := float64(int(1)<<exponent-1) * float64(int(1)<<mantissa)
	return sign | uint16(min(steps+float64(least+bias-1)*float64(int(1)<<mantissa), infinity))
}

func TestReference(t *testing.T) {
	for _, c := range []struct {
		t    dtype.DType
		x    float64
		want string
	}{
		{dtype.F16, 0, "0000"}, {dtype.F16, 1, "003c"}, {dtype.F16, -2, "00c0"}, {dtype.F16, 65519, "ff7b"}, {dtype.F16, 65520, "007c"},
		{dtype.F16, 0x1p-24, "0100"}, {dtype.F16, 0x1p-25, "0000"}, {dtype.F16, 0x1.002p0, "003c"}, {dtype.F16, 0x1.006p0, "023c"},
		{dtype.F16, 0x1p-14, "0004"}, {dtype.F16, math.Inf(-1), "00fc"},
		{dtype.BF16, 1, "803f"}, {dtype.BF16, 0x1.01p0, "803f"}, {dtype.BF16, 0x1.03p0, "823f"}, {dtype.BF16, 1e300, "807f"},
		{dtype.F32, 0.1, "cdcccc3d"}, {dtype.U8, 2.5, "02"}, {dtype.U8, -1, "00"}, {dtype.U8, 1e9, "ff"},
	} {
		if got := fmt.Sprintf("%x", appendElement(nil, c.t, c.x)); got != c.want {
			t.Errorf("%v of %g: %s, want %s", c.t, c.x, got, c.want)
		}
	}
}

// compare wants the same batches in the same order.
func compare(t testing.TB, what string, have, want []got) {
	t.Helper()
	if len(have) != len(want) {
		t.Fatalf("%s: %d batches, want %d", what, len(have), len(want))
	}
	for i, g := range have {
		w := want[i]
		switch {
		case g.epoch != w.epoch || g.number != w.number:
			t.Fatalf("%s: batch %d is number %d of epoch %d, want %d of %d", what, i, g.number, g.epoch, w.number, w.epoch)
		case !slices.Equal(g.indexes, w.indexes):
			t.Fatalf("%s: batch %d has samples %v, want %v", what, i, g.indexes, w.indexes)
		case !slices.Equal(g.labels, w.labels):
			t.Fatalf("%s: batch %d has labels %v, want %v", what, i, g.labels, w.labels)
		case !slices.Equal(g.shape, w.shape) || g.dtype != w.dtype:
			t.Fatalf("%s: batch %d is %v %v, want %v %v", what, i, g.shape, g.dtype, w.shape, w.dtype)
		case !bytes.Equal(g.data, w.data):
			at := 0
			for at < min(len(g.data), len(w.data)) && g.data[at] == w.data[at] {
				at++
			}
			t.Fatalf("%s: batch %d (samples %v): byte %d of %d differs, of %d wanted", what, i, g.indexes, at, len(g.data), len(w.data))
		}
		for k := range max(len(g.targets), len(w.targets)) {
			if len(g.targets) != len(w.targets) || !reflect.DeepEqual(g.targets[k], w.targets[k]) {
				t.Fatalf("%s: batch %d (samples %v): target %d is %+v, want %+v", what, i, g.indexes, k, g.targets[k:], w.targets[k:])
			}
		}
	}
}
