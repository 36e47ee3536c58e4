package dataset_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/internal/datatest"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

func TestConcat(t *testing.T) {
	d, err := dataset.NewConcat(datatest.Count(t, 0, 2), datatest.Count(t, 2, 1), datatest.Count(t, 3, 4))
	if err != nil {
		t.Fatal(err)
	}
	samples, labels := datatest.ReadAll(t, d)
	for i := range 7 {
		if samples[i][0] != byte(i) || labels[i] != int32(10*i) {
			t.Errorf("sample %d: %d, label %d", i, samples[i], labels[i])
		}
	}
	if len(samples) != 7 || d.Name(2) != "from2[0]" || d.Name(6) != "from3[3]" {
		t.Error(len(samples), d.Name(2), d.Name(6))
	}
	_, err = dataset.NewConcat()
	testkit.WantError(t, "none", err, dataset.ErrEmpty, "no parts")
	other, _ := dataset.NewMemoryOf([]int8{1}, nil, dataset.MemoryOptions{})
	_, err = dataset.NewConcat(d, other)
	testkit.WantError(t, "types", err, dataset.ErrArgument, "part 1 are scalar i8, of part 0 scalar u8")
}

func TestSubset(t *testing.T) {
	indices := []int{4, 0, 4}
	d, err := dataset.NewSubset(datatest.Count(t, 0, 5), indices)
	if err != nil {
		t.Fatal(err)
	}
	indices[0] = 1 // it was copied
	samples, labels := datatest.ReadAll(t, d)
	if !slices.Equal(bytes.Join(samples, nil), []byte{4, 0, 4}) || !slices.Equal(labels, []int32{40, 0, 40}) || d.Name(0) != "from0[4]" {
		t.Error(samples, labels, d.Name(0))
	}
	_, err = dataset.NewSubset(d, nil)
	testkit.WantError(t, "none", err, dataset.ErrEmpty, "no indices")
	for _, i := range []int{-1, 3} {
		_, err = dataset.NewSubset(d, []int{0, i})
		testkit.WantError(t, "range", err, dataset.ErrArgument, fmt.Sprintf("index 1 is sample %d of 3", i))
	}
}

func TestRandomSplit(t *testing.T) {
	all := datatest.Count(t, 0, 100)
	split := func(seed uint64) (list [][]byte) {
		parts, err := dataset.RandomSplit(all, []int{70, 29, 1}, seed)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range parts {
			samples, _ := datatest.ReadAll(t, p)
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
		{nil, dataset.ErrEmpty, "no counts"},
		{[]int{100, 0}, dataset.ErrEmpty, "part 1"},
		{[]int{101, -1}, dataset.ErrArgument, "of 100"},
		{[]int{-1, 101}, dataset.ErrArgument, "of 100"},
		{[]int{math.MaxInt, math.MaxInt}, dataset.ErrArgument, "of 100"},
		{[]int{50, 49}, dataset.ErrArgument, "leave 1 of 100"},
	} {
		_, err := dataset.RandomSplit(all, c.counts, 1)
		testkit.WantError(t, fmt.Sprint(c.counts), err, c.err, c.text)
	}
}

// A split is part of what a training run is: it must not change between
// versions.
func TestRandomSplitIsPinned(t *testing.T) {
	if got, want := fmt.Sprint(dataset.Permutation(10, 42)), "[6 2 5 3 4 7 0 1 9 8]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	counts := map[int]int{}
	for seed := range uint64(6000) {
		p := dataset.Permutation(3, seed)
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
		if got, err := dataset.SplitCounts(c.n, c.fractions); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%d by %v: %v, %v", c.n, c.fractions, got, err)
		}
	}
	for _, fractions := range [][]float64{nil, {0.5}, {1.5, -0.5}, {math.NaN()}, {math.Inf(1)}, {0.9, 0.2}} {
		_, err := dataset.SplitCounts(10, fractions)
		testkit.WantError(t, fmt.Sprint(fractions), err, dataset.ErrArgument, "fractions")
	}
}

func TestZip(t *testing.T) {
	pairs, _ := dataset.NewMemoryOf([]uint8{50, 51, 60, 61}, []int{1, 2}, dataset.MemoryOptions{})
	d, err := dataset.NewZip(datatest.Count(t, 1, 2), pairs)
	if err != nil {
		t.Fatal(err)
	}
	samples, labels := datatest.ReadAll(t, d)
	if d.Spec().String() != "3 u8" || !slices.Equal(bytes.Join(samples, nil), []byte{1, 50, 51, 2, 60, 61}) || !slices.Equal(labels, []int32{10, 20}) {
		t.Error(d.Spec(), samples, labels)
	}
	_, err = dataset.NewZip()
	testkit.WantError(t, "none", err, dataset.ErrEmpty, "no parts")
	_, err = dataset.NewZip(d, datatest.Count(t, 0, 3))
	testkit.WantError(t, "lengths", err, dataset.ErrArgument, "part 1 has 3 samples, part 0 2")
	other, _ := dataset.NewMemoryOf([]int8{1, 2}, nil, dataset.MemoryOptions{})
	_, err = dataset.NewZip(d, other)
	testkit.WantError(t, "types", err, dataset.ErrArgument, "part 1 are i8, of part 0 u8")
}

func TestMap(t *testing.T) {
	wrong := errors.New("wrong")
	d, err := dataset.NewMap(datatest.Count(t, 0, 5), dataset.Spec{Shape: []int{2}, DType: dtype.U8}, func(_ context.Context, v dataset.Visit, dst, src []byte) error {
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
	good, _ := dataset.NewSubset(d, []int{2, 1, 0})
	samples, labels := datatest.ReadAll(t, good)
	if !slices.Equal(bytes.Join(samples, nil), []byte{2, 102, 1, 101, 0, 100}) || !slices.Equal(labels, []int32{20, 10, 0}) {
		t.Error(samples, labels)
	}
	r, _ := d.NewReader()
	defer r.Close()
	dst := make([]byte, 2)
	testkit.WantError(t, "error", r.Read(t.Context(), dataset.Visit{Index: 3}, dst), wrong, "from0[3]: ")
	err = r.Read(t.Context(), dataset.Visit{Index: 4}, dst)
	testkit.WantError(t, "panic", err, dataset.ErrPanic, "from0[4]: the function of a map: panic: out of luck")
	if strings.Contains(err.Error(), "\n") || !strings.Contains(fmt.Sprintf("%+v", err), "combine_test.go:") {
		t.Errorf("not one line, or no stack in %%+v: %+v", err)
	}
	if err := r.Read(t.Context(), dataset.Visit{Index: 1}, dst); err != nil || dst[1] != 101 {
		t.Errorf("after the panic: %v, %v", dst, err)
	}
	_, err = dataset.NewMap(d, dataset.Spec{}, func(context.Context, dataset.Visit, []byte, []byte) error { return nil })
	testkit.WantError(t, "spec", err, dataset.ErrArgument, "type")
	_, err = dataset.NewMap(d, d.Spec(), nil)
	testkit.WantError(t, "function", err, dataset.ErrArgument, "no function")
}

// broken has no readers.
type broken struct{ dataset.Dataset }

func (broken) NewReader() (dataset.Reader, error) { return nil, fs.ErrPermission }

// counting counts its open readers.
type counting struct {
	dataset.Dataset
	open *int
}

func (d counting) NewReader() (dataset.Reader, error) {
	r, err := d.Dataset.NewReader()
	*d.open++
	return countingReader{r, d.open}, err
}

type countingReader struct {
	dataset.Reader
	open *int
}

func (r countingReader) Close() error {
	*r.open--
	return r.Reader.Close()
}

func TestReadersAreClosed(t *testing.T) {
	var open int
	good := counting{datatest.Count(t, 0, 3), &open}
	concat, _ := dataset.NewConcat(good, good, good)
	zip, _ := dataset.NewZip(good, concatFirst(t, concat))
	subset, _ := dataset.NewSubset(zip, []int{0})
	mapped, _ := dataset.NewMap(subset, subset.Spec(), func(context.Context, dataset.Visit, []byte, []byte) error { return nil })
	r, err := mapped.NewReader()
	if err != nil || open != 4 {
		t.Errorf("%d readers, %v", open, err)
	}
	if err := r.Close(); err != nil || open != 0 {
		t.Errorf("%d readers left, %v", open, err)
	}

	bad := broken{datatest.Count(t, 0, 3)}
	concat, _ = dataset.NewConcat(good, bad)
	zip, _ = dataset.NewZip(good, bad)
	subset, _ = dataset.NewSubset(bad, []int{0})
	mapped, _ = dataset.NewMap(bad, bad.Spec(), func(context.Context, dataset.Visit, []byte, []byte) error { return nil })
	for _, d := range []dataset.Dataset{concat, zip, subset, mapped} {
		if _, err := d.NewReader(); !errors.Is(err, fs.ErrPermission) || open != 0 {
			t.Errorf("%T: %v, %d readers left", d, err, open)
		}
	}
}

func concatFirst(t *testing.T, d dataset.Dataset) dataset.Dataset {
	t.Helper()
	s, err := dataset.NewSubset(d, []int{0, 1, 2})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
