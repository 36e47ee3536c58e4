package dataset

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/dtype"
)

// readAllRagged is readAll for samples that differ in length.
func readAllRagged(t testing.TB, d Dataset) (samples [][]byte) {
	t.Helper()
	spec := d.Spec()
	if !spec.Ragged {
		t.Fatalf("%v is not ragged", spec)
	}
	r, err := d.NewReader()
	if err != nil {
		t.Fatal(err)
	}
	longest := 0
	for i := range d.Len() {
		longest = max(longest, Length(d, i))
		if SampleBytes(d, i) != Length(d, i)*spec.RowBytes() {
			t.Errorf("sample %d: %d rows in %d bytes", i, Length(d, i), SampleBytes(d, i))
		}
		dst := make([]byte, SampleBytes(d, i))
		if err := r.Read(t.Context(), Visit{Index: i, Timing: new(Timing)}, dst); err != nil {
			t.Fatal(err)
		}
		samples = append(samples, dst)
		if err := r.Read(t.Context(), Visit{Index: i}, append(dst, 0)); !errors.Is(err, ErrArgument) {
			t.Errorf("sample %d, long destination: %v", i, err)
		}
	}
	if longest > spec.Shape[0] {
		t.Errorf("%d rows, %v", longest, spec)
	}
	for _, i := range []int{-1, d.Len()} {
		if err := r.Read(t.Context(), Visit{Index: i}, nil); !errors.Is(err, ErrArgument) {
			t.Errorf("sample %d: %v", i, err)
		}
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if err := r.Read(t.Context(), Visit{}, samples[0]); !errors.Is(err, fs.ErrClosed) || !strings.Contains(err.Error(), d.Name(0)) {
		t.Errorf("after Close: %v", err)
	}
	return samples
}

// words is a ragged dataset of letters.
func words(t testing.TB, name string, list ...string) *MemoryRagged {
	t.Helper()
	offsets := []int64{0}
	for _, w := range list {
		offsets = append(offsets, offsets[len(offsets)-1]+int64(len(w)))
	}
	d, err := NewMemoryRaggedOf([]byte(strings.Join(list, "")), nil, offsets, MemoryOptions{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func sentence(samples [][]byte) string { return string(bytes.Join(samples, []byte(" "))) }

func TestMemoryRagged(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, row := range [][]int{nil, {3}, {2, 2}} {
		width := int(elements(row))
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
		d, err := NewMemoryRaggedOf(data, row, offsets, MemoryOptions{Labels: labels})
		if err != nil {
			t.Fatal(err)
		}
		if got := readAllRagged(t, d); !slices.EqualFunc(got, want, bytes.Equal) {
			t.Errorf("row %v: %v, want %v", row, got, want)
		}
		spec := d.Spec()
		if spec.Shape[0] != longest || !slices.Equal(spec.Shape[1:], row) || spec.DType != dtype.I32 || d.Label(39) != 39 || d.Name(3) != "memory[3]" {
			t.Errorf("row %v: %v, %d, %s", row, spec, d.Label(39), d.Name(3))
		}
	}
}

func TestMemoryRaggedErrors(t *testing.T) {
	pairs := Spec{Shape: []int{0, 2}, DType: dtype.U8}
	for _, c := range []struct {
		spec    Spec
		bytes   int
		offsets []int64
		labels  []int32
		err     error
		text    string
	}{
		{pairs, 6, nil, nil, ErrEmpty, "3 rows, 0 offsets"},
		{pairs, 6, []int64{0}, nil, ErrEmpty, "3 rows, 1 offsets"},
		{pairs, 0, []int64{0, 0}, nil, ErrEmpty, "0 rows"},
		{pairs, 5, []int64{0, 2}, nil, ErrArgument, "5 bytes are no whole rows of 2"},
		{pairs, 6, []int64{1, 3}, nil, ErrArgument, "offsets from 1 to 3, want 0 to 3"},
		{pairs, 6, []int64{0, 6}, nil, ErrArgument, "offsets from 0 to 6, want 0 to 3"},
		{pairs, 6, []int64{0, 5, 2, 3}, nil, ErrArgument, "offset 2 is 2, the one before it 5"},
		{pairs, 6, []int64{0, -1, 3}, nil, ErrArgument, "offset 1 is -1"},
		{pairs, 6, []int64{0, 1, 3}, []int32{1}, ErrArgument, "1 labels for 2 samples"},
		{Spec{DType: dtype.U8}, 6, []int64{0, 6}, nil, ErrArgument, "a scalar has no length"},
		{Spec{Shape: []int{0, 0}, DType: dtype.U8}, 6, []int64{0, 6}, nil, ErrArgument, "shape"},
		{Spec{Shape: []int{0}}, 6, []int64{0, 6}, nil, ErrArgument, "type"},
	} {
		_, err := NewMemoryRagged(make([]byte, c.bytes), c.spec, c.offsets, MemoryOptions{Labels: c.labels, Name: "tokens"})
		wantError(t, c.text, err, c.err, c.text)
		wantError(t, c.text, err, c.err, "tokens: ")
	}
	if pairs.Shape[0] != 0 {
		t.Error("the caller's shape was changed")
	}
}

func TestRaggedCombined(t *testing.T) {
	a, b := words(t, "a", "the", "", "quick"), words(t, "b", "brown", "foxes'", "x")
	concat, err := NewConcat(a, b)
	if err != nil {
		t.Fatal(err)
	}
	if got := sentence(readAllRagged(t, concat)); got != "the  quick brown foxes' x" || concat.Spec().String() != "<=6 u8" || a.Spec().String() != "<=5 u8" {
		t.Errorf("%q %v %v", got, concat.Spec(), a.Spec())
	}
	subset, err := NewSubset(concat, []int{4, 0, 4})
	if err != nil {
		t.Fatal(err)
	}
	if got := sentence(readAllRagged(t, subset)); got != "foxes' the foxes'" || subset.Name(0) != "b[1]" {
		t.Errorf("%q %s", got, subset.Name(0))
	}
	parts, err := RandomSplit(concat, []int{4, 2}, 3)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, p := range parts {
		for _, s := range readAllRagged(t, p) {
			all = append(all, string(s))
		}
	}
	if slices.Sort(all); !slices.Equal(all, []string{"", "brown", "foxes'", "quick", "the", "x"}) {
		t.Errorf("%q", all)
	}

	points, _ := NewMemoryRaggedOf([]byte("xyz"), []int{3}, []int64{0, 1}, MemoryOptions{})
	_, err = NewConcat(a, points)
	wantError(t, "rows", err, ErrArgument, "part 1 are <=1x3 u8, of part 0 <=5 u8")
	_, err = NewConcat(a, bytesOf(t, 0, 3))
	wantError(t, "ragged and not", err, ErrArgument, "part 1 are scalar u8")
	_, err = NewZip(a, b)
	wantError(t, "zip", err, ErrArgument, "part 0: bad argument: want samples of one shape, not <=5 u8")
}

func TestMapOfRagged(t *testing.T) {
	count := func(_ context.Context, v Visit, dst, src []byte) error {
		dst[0] = byte(len(src))
		copy(dst[1:3], "--")
		copy(dst[1:3], src)
		return nil
	}
	d, err := NewMap(words(t, "a", "the", "", "quick"), Spec{Shape: []int{3}, DType: dtype.U8}, count)
	if err != nil {
		t.Fatal(err)
	}
	samples, _ := readAll(t, d)
	if got := sentence(samples); got != "\x03th \x00-- \x05qu" {
		t.Errorf("%q", got)
	}
	_, err = NewMap(d, Spec{Shape: []int{3}, DType: dtype.U8, Ragged: true}, count)
	wantError(t, "ragged result", err, ErrArgument, "want samples of one shape, not <=3 u8")
}

// A subset is as long as its own longest sample: who takes extreme ones out needs
// no room for them.
func TestSubsetWithoutTheLongest(t *testing.T) {
	d, err := NewMemoryRaggedOf(make([]float32, 2*107), []int{2}, []int64{0, 3, 103, 107, 107}, MemoryOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for longest, indices := range map[int][]int{100: {1, 0}, 4: {2, 3, 0}, 3: {0, 0}, 1: {3}} {
		s, err := NewSubset(d, indices)
		if err != nil {
			t.Fatal(err)
		}
		want := Spec{Shape: []int{longest, 2}, DType: dtype.F32, Ragged: true}
		if got := s.Spec(); got.String() != want.String() {
			t.Errorf("subset %v: %v, want %v", indices, got, want)
		}
		readAllRagged(t, s)
	}
	parts, err := RandomSplit(d, []int{1, 1, 1, 1}, 1)
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
