package dataset_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/internal/datatest"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// words is a ragged dataset of letters.
func words(t testing.TB, name string, list ...string) *dataset.MemoryRagged {
	t.Helper()
	offsets := []int64{0}
	for _, w := range list {
		offsets = append(offsets, offsets[len(offsets)-1]+int64(len(w)))
	}
	d, err := dataset.NewMemoryRaggedOf([]byte(strings.Join(list, "")), nil, offsets, dataset.MemoryOptions{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func sentence(samples [][]byte) string { return string(bytes.Join(samples, []byte(" "))) }

func TestMemoryRagged(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, row := range [][]int{nil, {3}, {2, 2}} {
		width := dataset.Spec{Shape: row, DType: dtype.U8}.Bytes()
		var data []int32
		var want [][]byte
		var labels []int32
		offsets := []int64{0}
		longest := 0
		for i := range 40 {
			n := rng.IntN(5)
			if i == 39 {
				n = 7 // so that not all are empty
			}
			var sample []byte
			for range n * width {
				v := rng.Int32()
				data = append(data, v)
				sample = binary.LittleEndian.AppendUint32(sample, uint32(v))
			}
			want = append(want, sample)
			labels = append(labels, int32(i))
			offsets = append(offsets, offsets[i]+int64(n))
			longest = max(longest, n)
		}
		d, err := dataset.NewMemoryRaggedOf(data, row, offsets, dataset.MemoryOptions{Labels: labels})
		if err != nil {
			t.Fatal(err)
		}
		if got := datatest.Samples(t, d); !slices.EqualFunc(got, want, bytes.Equal) {
			t.Errorf("row %v: %v, want %v", row, got, want)
		}
		spec := d.Spec()
		if spec.Shape[0] != longest || !slices.Equal(spec.Shape[1:], row) || spec.DType != dtype.I32 || d.Label(39) != 39 || d.Name(3) != "memory[3]" {
			t.Errorf("row %v: %v, %d, %s", row, spec, d.Label(39), d.Name(3))
		}
	}
}

func TestMemoryRaggedErrors(t *testing.T) {
	pairs := dataset.Spec{Shape: []int{0, 2}, DType: dtype.U8}
	for _, c := range []struct {
		spec    dataset.Spec
		bytes   int
		offsets []int64
		labels  []int32
		err     error
		text    string
	}{
		{pairs, 6, nil, nil, dataset.ErrEmpty, "3 rows, 0 offsets"},
		{pairs, 6, []int64{0}, nil, dataset.ErrEmpty, "3 rows, 1 offsets"},
		{pairs, 0, []int64{0, 0}, nil, dataset.ErrEmpty, "0 rows"},
		{pairs, 5, []int64{0, 2}, nil, dataset.ErrArgument, "5 bytes are not a whole number of rows of 2 bytes"},
		{pairs, 6, []int64{1, 3}, nil, dataset.ErrArgument, "offsets from 1 to 3, want 0 to 3"},
		{pairs, 6, []int64{0, 6}, nil, dataset.ErrArgument, "offsets from 0 to 6, want 0 to 3"},
		{pairs, 6, []int64{0, 5, 2, 3}, nil, dataset.ErrArgument, "offset 2 is 2, the one before it 5"},
		{pairs, 6, []int64{0, -1, 3}, nil, dataset.ErrArgument, "offset 1 is -1"},
		{pairs, 6, []int64{0, 1, 3}, []int32{1}, dataset.ErrArgument, "1 labels for 2 samples"},
		{dataset.Spec{DType: dtype.U8}, 6, []int64{0, 6}, nil, dataset.ErrArgument, "a scalar has no length"},
		{dataset.Spec{Shape: []int{0, 0}, DType: dtype.U8}, 6, []int64{0, 6}, nil, dataset.ErrArgument, "shape"},
		{dataset.Spec{Shape: []int{0}}, 6, []int64{0, 6}, nil, dataset.ErrArgument, "type"},
	} {
		_, err := dataset.NewMemoryRagged(make([]byte, c.bytes), c.spec, c.offsets, dataset.MemoryOptions{Labels: c.labels, Name: "tokens"})
		testkit.WantError(t, c.text, err, c.err, c.text)
		testkit.WantError(t, c.text, err, c.err, "tokens: ")
	}
	if pairs.Shape[0] != 0 {
		t.Error("the caller's shape was changed")
	}
}

func TestRaggedCombined(t *testing.T) {
	a, b := words(t, "a", "the", "", "quick"), words(t, "b", "brown", "foxes'", "x")
	concat, err := dataset.NewConcat(a, b)
	if err != nil {
		t.Fatal(err)
	}
	if got := sentence(datatest.Samples(t, concat)); got != "the  quick brown foxes' x" || concat.Spec().String() != "<=6 u8" || a.Spec().String() != "<=5 u8" {
		t.Errorf("%q %v %v", got, concat.Spec(), a.Spec())
	}
	subset, err := dataset.NewSubset(concat, []int{4, 0, 4})
	if err != nil {
		t.Fatal(err)
	}
	if got := sentence(datatest.Samples(t, subset)); got != "foxes' the foxes'" || subset.Name(0) != "b[1]" {
		t.Errorf("%q %s", got, subset.Name(0))
	}
	parts, err := dataset.RandomSplit(concat, []int{4, 2}, 3)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, p := range parts {
		for _, s := range datatest.Samples(t, p) {
			all = append(all, string(s))
		}
	}
	if slices.Sort(all); !slices.Equal(all, []string{"", "brown", "foxes'", "quick", "the", "x"}) {
		t.Errorf("%q", all)
	}

	points, _ := dataset.NewMemoryRaggedOf([]byte("xyz"), []int{3}, []int64{0, 1}, dataset.MemoryOptions{})
	_, err = dataset.NewConcat(a, points)
	testkit.WantError(t, "rows", err, dataset.ErrArgument, "part 1 are <=1x3 u8, of part 0 <=5 u8")
	_, err = dataset.NewConcat(a, datatest.Count(t, 0, 3))
	testkit.WantError(t, "ragged and not", err, dataset.ErrArgument, "part 1 are scalar u8")
}

func TestMapOfRagged(t *testing.T) {
	count := func(_ context.Context, v dataset.Visit, dst, src []byte) error {
		dst[0] = byte(len(src))
		copy(dst[1:3], "--")
		copy(dst[1:3], src)
		return nil
	}
	d, err := dataset.NewMap(words(t, "a", "the", "", "quick"), dataset.Spec{Shape: []int{3}, DType: dtype.U8}, count)
	if err != nil {
		t.Fatal(err)
	}
	samples, _ := datatest.ReadAll(t, d)
	if got := sentence(samples); got != "\x03th \x00-- \x05qu" {
		t.Errorf("%q", got)
	}
}

// A subset is as long as its own longest sample: who takes extreme ones out needs
// no room for them.
func TestSubsetWithoutTheLongest(t *testing.T) {
	d, err := dataset.NewMemoryRaggedOf(make([]float32, 2*107), []int{2}, []int64{0, 3, 103, 107, 107}, dataset.MemoryOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for longest, indices := range map[int][]int{100: {1, 0}, 4: {2, 3, 0}, 3: {0, 0}, 1: {3}} {
		s, err := dataset.NewSubset(d, indices)
		if err != nil {
			t.Fatal(err)
		}
		want := dataset.Spec{Shape: []int{longest, 2}, DType: dtype.F32, Ragged: true}
		if got := s.Spec(); got.String() != want.String() {
			t.Errorf("subset %v: %v, want %v", indices, got, want)
		}
		datatest.Samples(t, s)
	}
	parts, err := dataset.RandomSplit(d, []int{1, 1, 1, 1}, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range parts {
		if got, want := p.Spec().Shape[0], max(p.Length(0), 1); got != want {
			t.Errorf("a part of one sample of %d rows: %v", p.Length(0), p.Spec())
		}
	}
	if d.Spec().Shape[0] != 100 {
		t.Errorf("the whole is %v now", d.Spec())
	}
}

// TestMapRagged: what a function makes of samples of different lengths has their
// lengths.
func TestMapRagged(t *testing.T) {
	d := words(t, "x", "one", "", "three")
	spec := dataset.Spec{Shape: []int{0, 2}, Ragged: true}
	twice, err := dataset.NewMapOf(d, spec, func(_ context.Context, _ dataset.Visit, dst []int16, src []uint8) error {
		for i, c := range src {
			dst[2*i], dst[2*i+1] = int16(c), -int16(c)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := twice.Spec().String(); got != "<=5x2 i16" {
		t.Errorf("spec %s", got)
	}
	samples := datatest.Samples(t, twice)
	if n, err := dataset.Elements[int16](samples[0]); err != nil || !slices.Equal(n, []int16{'o', -'o', 'n', -'n', 'e', -'e'}) || len(samples[1]) != 0 {
		t.Errorf("%v, %d, %v", n, len(samples[1]), err)
	}
	// From samples of one shape.
	doubled, err := dataset.NewMapOf(datatest.Count(t, 1, 3), dataset.Spec{}, func(_ context.Context, _ dataset.Visit, dst []float32, src []uint8) error {
		dst[0] = 2 * float32(src[0])
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := datatest.ReadAll(t, doubled); !bytes.Equal(got[2], datatest.Floats(6)) {
		t.Errorf("% x", got[2])
	}
	wrong := func(context.Context, dataset.Visit, []float32, []int64) error { return nil }
	_, err = dataset.NewMapOf(d, dataset.Spec{}, wrong)
	testkit.WantError(t, "source", err, dataset.ErrArgument, "reads i64, and samples of <=5 u8")
	_, err = dataset.NewMapOf(d, dataset.Spec{DType: dtype.F16}, func(context.Context, dataset.Visit, []float32, []uint8) error { return nil })
	testkit.WantError(t, "spec", err, dataset.ErrArgument, "writes f32, and a spec of scalar f16")
}

// TestZipRagged: samples side by side are as long as all of them.
func TestZipRagged(t *testing.T) {
	d, err := dataset.NewZip(words(t, "x", "one", "three", ""), datatest.Count(t, 'A', 3), words(t, "y", "", "!", "end"))
	if err != nil {
		t.Fatal(err)
	}
	if got := sentence(datatest.Samples(t, d)); got != "oneA threeB! Cend" || d.Spec().String() != "<=7 u8" {
		t.Errorf("%q, %v", got, d.Spec())
	}
}
