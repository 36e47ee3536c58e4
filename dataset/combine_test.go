package dataset

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pinion-gpu/pinion/dtype"
)

// readAll reads every sample, checks that wrong arguments and a closed reader
// are refused, and returns the samples and the labels.
func readAll(t testing.TB, d Dataset) (samples [][]byte, labels []int32) {
	t.Helper()
	r, err := d.NewReader()
	if err != nil {
		t.Fatal(err)
	}
	size := d.Spec().Bytes()
	for i := range d.Len() {
		dst := make([]byte, size)
		if err := r.Read(t.Context(), Visit{Index: i, Timing: new(Timing)}, dst); err != nil {
			t.Fatal(err)
		}
		samples, labels = append(samples, dst), append(labels, d.Label(i))
	}
	dst := make([]byte, size)
	for _, i := range []int{-1, d.Len()} {
		if err := r.Read(t.Context(), Visit{Index: i}, dst); !errors.Is(err, ErrArgument) {
			t.Errorf("sample %d: %v", i, err)
		}
	}
	if err := r.Read(t.Context(), Visit{Index: 0}, dst[1:]); !errors.Is(err, ErrArgument) {
		t.Errorf("short destination: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if err := r.Read(t.Context(), Visit{Index: 0}, dst); !errors.Is(err, fs.ErrClosed) || !strings.Contains(err.Error(), d.Name(0)) {
		t.Errorf("after Close: %v", err)
	}
	return samples, labels
}

// together calls read with n readers at once.
func together(t testing.TB, d Dataset, n int, read func(worker int, r Reader)) {
	t.Helper()
	var workers sync.WaitGroup
	for w := range n {
		workers.Go(func() {
			r, err := d.NewReader()
			if err != nil {
				t.Error(err)
				return
			}
			defer r.Close()
			read(w, r)
		})
	}
	workers.Wait()
}

// bytesOf is a dataset of samples of one byte: from, from+1, …, with ten
// times that as labels.
func bytesOf(t testing.TB, from, n int) *Memory {
	t.Helper()
	data, labels := make([]byte, n), make([]int32, n)
	for i := range data {
		data[i], labels[i] = byte(from+i), int32(10*(from+i))
	}
	d, err := NewMemory(data, Spec{DType: dtype.U8}, MemoryOptions{Labels: labels, Name: fmt.Sprint("from", from)})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func wantError(t *testing.T, name string, err, kind error, text string) {
	t.Helper()
	if !errors.Is(err, kind) || !strings.Contains(fmt.Sprint(err), text) {
		t.Errorf("%s: %v, want %v with %q", name, err, kind, text)
	}
}

func TestConcat(t *testing.T) {
	d, err := NewConcat(bytesOf(t, 0, 2), bytesOf(t, 2, 1), bytesOf(t, 3, 4))
	if err != nil {
		t.Fatal(err)
	}
	samples, labels := readAll(t, d)
	for i := range 7 {
		if samples[i][0] != byte(i) || labels[i] != int32(10*i) {
			t.Errorf("sample %d: %d, label %d", i, samples[i], labels[i])
		}
	}
	if len(samples) != 7 || d.Name(2) != "from2[0]" || d.Name(6) != "from3[3]" {
		t.Error(len(samples), d.Name(2), d.Name(6))
	}
	_, err = NewConcat()
	wantError(t, "none", err, ErrEmpty, "no parts")
	other, _ := NewMemoryOf([]int8{1}, nil, MemoryOptions{})
	_, err = NewConcat(d, other)
	wantError(t, "types", err, ErrArgument, "part 1 are scalar i8, of part 0 scalar u8")
}

func TestSubset(t *testing.T) {
	indices := []int{4, 0, 4}
	d, err := NewSubset(bytesOf(t, 0, 5), indices)
	if err != nil {
		t.Fatal(err)
	}
	indices[0] = 1 // it was copied
	samples, labels := readAll(t, d)
	if !slices.Equal(bytes.Join(samples, nil), []byte{4, 0, 4}) || !slices.Equal(labels, []int32{40, 0, 40}) || d.Name(0) != "from0[4]" {
		t.Error(samples, labels, d.Name(0))
	}
	_, err = NewSubset(d, nil)
	wantError(t, "none", err, ErrEmpty, "no indices")
	for _, i := range []int{-1, 3} {
		_, err = NewSubset(d, []int{0, i})
		wantError(t, "range", err, ErrArgument, fmt.Sprintf("index 1 is sample %d of 3", i))
	}
}

func TestRandomSplit(t *testing.T) {
	all := bytesOf(t, 0, 100)
	split := func(seed uint64) (list [][]byte) {
		parts, err := RandomSplit(all, []int{70, 29, 1}, seed)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range parts {
			samples, _ := readAll(t, p)
			list = append(list, bytes.Join(samples, nil))
		}
		return list
	}
	parts := split(1)
	if len(parts[0]) != 70 || len(parts[1]) != 29 || len(parts[2]) != 1 {
		t.Fatal(parts)
	}
	seen := map[byte]bool{}
	for _, p := range parts {
		if !slices.IsSorted(p) {
			t.Errorf("not in order: %v", p)
		}
		for _, v := range p {
			seen[v] = true
		}
	}
	if len(seen) != 100 {
		t.Errorf("%d different samples", len(seen))
	}
	if again := split(1); !slices.EqualFunc(parts, again, bytes.Equal) {
		t.Error("the same seed, another split")
	}
	if slices.EqualFunc(parts, split(2), bytes.Equal) {
		t.Error("another seed, the same split")
	}
	for _, c := range []struct {
		counts []int
		err    error
		text   string
	}{
		{nil, ErrEmpty, "no counts"},
		{[]int{100, 0}, ErrEmpty, "part 1"},
		{[]int{101, -1}, ErrArgument, "of 100"},
		{[]int{-1, 101}, ErrArgument, "of 100"},
		{[]int{math.MaxInt, math.MaxInt}, ErrArgument, "of 100"},
		{[]int{50, 49}, ErrArgument, "leave 1 of 100"},
	} {
		_, err := RandomSplit(all, c.counts, 1)
		wantError(t, fmt.Sprint(c.counts), err, c.err, c.text)
	}
}

// A split is part of what a training run is: it must not change between
// versions.
func TestRandomSplitIsPinned(t *testing.T) {
	if got, want := fmt.Sprint(permutation(10, 42)), "[6 2 5 3 4 7 0 1 9 8]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	counts := map[int]int{}
	for seed := range uint64(6000) {
		p := permutation(3, seed)
		counts[100*p[0]+10*p[1]+p[2]]++
	}
	for p, n := range counts { // 1000 expected, standard deviation 29
		if n < 850 || n > 1150 {
			t.Errorf("permutation %03d %d times of 6000", p, n)
		}
	}
	if len(counts) != 6 {
		t.Error(counts)
	}
}

func TestSplitCounts(t *testing.T) {
	for _, c := range []struct {
		n         int
		fractions []float64
		want      []int
	}{
		{10, []float64{1}, []int{10}},
		{10, []float64{0.8, 0.2}, []int{8, 2}},
		{11, []float64{0.8, 0.2}, []int{9, 2}},
		{10, []float64{1. / 3, 1. / 3, 1. / 3}, []int{4, 3, 3}},
		{2, []float64{0.1, 0.1, 0.8}, []int{1, 0, 1}},
		{0, []float64{0.5, 0.5}, []int{0, 0}},
	} {
		if got, err := SplitCounts(c.n, c.fractions); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%d by %v: %v, %v", c.n, c.fractions, got, err)
		}
	}
	for _, fractions := range [][]float64{nil, {0.5}, {1.5, -0.5}, {math.NaN()}, {math.Inf(1)}, {0.9, 0.2}} {
		_, err := SplitCounts(10, fractions)
		wantError(t, fmt.Sprint(fractions), err, ErrArgument, "fractions")
	}
}

func TestZip(t *testing.T) {
	pairs, _ := NewMemoryOf([]uint8{50, 51, 60, 61}, []int{1, 2}, MemoryOptions{})
	d, err := NewZip(bytesOf(t, 1, 2), pairs)
	if err != nil {
		t.Fatal(err)
	}
	samples, labels := readAll(t, d)
	if d.Spec().String() != "3 u8" || !slices.Equal(bytes.Join(samples, nil), []byte{1, 50, 51, 2, 60, 61}) || !slices.Equal(labels, []int32{10, 20}) {
		t.Error(d.Spec(), samples, labels)
	}
	_, err = NewZip()
	wantError(t, "none", err, ErrEmpty, "no parts")
	_, err = NewZip(d, bytesOf(t, 0, 3))
	wantError(t, "lengths", err, ErrArgument, "part 1 has 3 samples, part 0 2")
	other, _ := NewMemoryOf([]int8{1, 2}, nil, MemoryOptions{})
	_, err = NewZip(d, other)
	wantError(t, "types", err, ErrArgument, "part 1 are i8, of part 0 u8")
}

func TestMap(t *testing.T) {
	wrong := errors.New("wrong")
	d, err := NewMap(bytesOf(t, 0, 5), Spec{Shape: []int{2}, DType: dtype.U8}, func(_ context.Context, v Visit, dst, src []byte) error {
		switch v.Index {
		case 3:
			return wrong
		case 4:
			panic("out of luck")
		}
		dst[0], dst[1] = src[0], src[0]+100
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	good, _ := NewSubset(d, []int{2, 1, 0})
	samples, labels := readAll(t, good)
	if !slices.Equal(bytes.Join(samples, nil), []byte{2, 102, 1, 101, 0, 100}) || !slices.Equal(labels, []int32{20, 10, 0}) {
		t.Error(samples, labels)
	}
	r, _ := d.NewReader()
	defer r.Close()
	dst := make([]byte, 2)
	wantError(t, "error", r.Read(t.Context(), Visit{Index: 3}, dst), wrong, "from0[3]: ")
	err = r.Read(t.Context(), Visit{Index: 4}, dst)
	wantError(t, "panic", err, ErrPanic, "from0[4]: panic in the function of a map: out of luck")
	wantError(t, "stack", err, ErrPanic, "combine_test.go")
	if err := r.Read(t.Context(), Visit{Index: 1}, dst); err != nil || dst[1] != 101 {
		t.Errorf("after the panic: %v, %v", dst, err)
	}
	_, err = NewMap(d, Spec{}, func(context.Context, Visit, []byte, []byte) error { return nil })
	wantError(t, "spec", err, ErrArgument, "type")
	_, err = NewMap(d, d.Spec(), nil)
	wantError(t, "function", err, ErrArgument, "no function")
}

// broken has no readers.
type broken struct{ Dataset }

func (broken) NewReader() (Reader, error) { return nil, fs.ErrPermission }

// counting counts its open readers.
type counting struct {
	Dataset
	open *int
}

func (d counting) NewReader() (Reader, error) {
	r, err := d.Dataset.NewReader()
	*d.open++
	return countingReader{r, d.open}, err
}

type countingReader struct {
	Reader
	open *int
}

func (r countingReader) Close() error {
	*r.open--
	return r.Reader.Close()
}

func TestReadersAreClosed(t *testing.T) {
	var open int
	good := counting{bytesOf(t, 0, 3), &open}
	concat, _ := NewConcat(good, good, good)
	zip, _ := NewZip(good, concatFirst(t, concat))
	subset, _ := NewSubset(zip, []int{0})
	mapped, _ := NewMap(subset, subset.Spec(), func(context.Context, Visit, []byte, []byte) error { return nil })
	r, err := mapped.NewReader()
	if err != nil || open != 4 {
		t.Errorf("%d readers, %v", open, err)
	}
	if err := r.Close(); err != nil || open != 0 {
		t.Errorf("%d readers left, %v", open, err)
	}

	bad := broken{bytesOf(t, 0, 3)}
	concat, _ = NewConcat(good, bad)
	zip, _ = NewZip(good, bad)
	subset, _ = NewSubset(bad, []int{0})
	mapped, _ = NewMap(bad, bad.Spec(), func(context.Context, Visit, []byte, []byte) error { return nil })
	for _, d := range []Dataset{concat, zip, subset, mapped} {
		if _, err := d.NewReader(); !errors.Is(err, fs.ErrPermission) || open != 0 {
			t.Errorf("%T: %v, %d readers left", d, err, open)
		}
	}
}

func concatFirst(t *testing.T, d Dataset) Dataset {
	t.Helper()
	s, err := NewSubset(d, []int{0, 1, 2})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
