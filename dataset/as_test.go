package dataset_test

import (
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/internal/datatest"
	"github.com/pinion-gpu/pinion/dataset/photos"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/imaging"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// monitored is a dataset that somebody watches.
type monitored struct {
	dataset.Wrapper
	readers int
}

func (d *monitored) NewReader() (dataset.Reader, error) {
	d.readers++
	return d.Wrapper.NewReader()
}

func watch(d dataset.Dataset) *monitored { return &monitored{Wrapper: dataset.Wrapper{Dataset: d}} }

// TestAs: what a dataset can do is found behind wrappers, twice over and below
// what combines datasets.
func TestAs(t *testing.T) {
	dir := datatest.Folder(t, map[string][]byte{"a/1.png": nil, "b/2.png": nil, "b/3.png": nil})
	small, err := photos.Open(t.Context(), dir, photos.Options{Transform: imaging.CenterCrop(8)})
	testkit.OK(t, err)
	wrapped := watch(watch(small))
	if got, ok := dataset.As[*photos.Images](wrapped); !ok || got != small {
		t.Error("pictures are not found")
	}
	if got, ok := dataset.As[*monitored](wrapped); !ok || got != wrapped {
		t.Error("the outermost wrapper is not found first")
	}
	if _, ok := dataset.As[io.Closer](wrapped); ok || dataset.Close(wrapped) != nil {
		t.Error("there is nothing to close")
	}
	if _, ok := dataset.As[dataset.Encoded](nil); ok {
		t.Error("nil can nothing")
	}

	subset := testkit.Must(dataset.NewSubset(wrapped, []int{2, 0}))(t)
	chain := testkit.Must(dataset.NewConcat(watch(subset), wrapped))(t)
	pictures, ok := dataset.As[dataset.Encoded](watch(chain))
	if !ok || pictures.Len() != 5 || pictures.Transform() != imaging.CenterCrop(8) {
		t.Fatalf("encoded pictures of a chain: %t", ok)
	}
	r := testkit.Must(pictures.NewEncodedReader())(t)
	defer r.Close()
	content, err := r.ReadFile(t.Context(), dataset.Visit{Index: 0}, nil)
	if err != nil || len(content) == 0 || pictures.Name(0) != small.Name(2) {
		t.Errorf("%s: %v", pictures.Name(0), err)
	}
	if got := dataset.Classes(watch(chain)); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("classes %q", got)
	}
	if got, ok := dataset.As[*photos.Images](subset); ok {
		t.Errorf("a subset has other samples than %v", got)
	}

	// Of two transforms there is none, and Transforms has both.
	other := testkit.Must(photos.Open(t.Context(), dir, photos.Options{Transform: imaging.Stretch(8, 8)}))(t)
	mixed := testkit.Must(dataset.NewConcat(watch(small), other))(t)
	if _, ok := dataset.As[dataset.Encoded](mixed); ok {
		t.Error("pictures of two transforms are one")
	}
	if got := dataset.Transforms(watch(mixed)); !slices.Equal(got, []imaging.Transform{imaging.CenterCrop(8), imaging.Stretch(8, 8)}) {
		t.Errorf("transforms %v", got)
	}
	if got := dataset.Transforms(datatest.Count(t, 0, 1)); !slices.Equal(got, make([]imaging.Transform, 1)) {
		t.Errorf("transforms of no pictures: %v", got)
	}
}

// TestAsRagged: a wrapper of samples that differ in length has their lengths.
func TestAsRagged(t *testing.T) {
	d := watch(words(t, "x", "one", "three"))
	if n := dataset.Length(d, 1); n != 5 || dataset.SampleBytes(d, 0) != 3 {
		t.Errorf("length %d, %d bytes", n, dataset.SampleBytes(d, 0))
	}
	if got := sentence(datatest.Samples(t, d)); got != "one three" || d.readers != 1 {
		t.Errorf("%q by %d readers", got, d.readers)
	}
}

type closed struct{ n int }

func (c *closed) Close() error { c.n++; return io.ErrClosedPipe }

func TestOwning(t *testing.T) {
	var source closed
	d := dataset.Owning(watch(words(t, "x", "a", "bb")), &source)
	if dataset.Length(d, 1) != 2 {
		t.Error("lengths are lost")
	}
	if err := dataset.Close(watch(d)); !errors.Is(err, io.ErrClosedPipe) || source.n != 1 {
		t.Errorf("%v, closed %d times", err, source.n)
	}
}

// TestElements: bytes are seen as numbers where they can be.
func TestElements(t *testing.T) {
	data, d := dataset.Bytes([]float32{1, 2, 3})
	if d != dtype.F32 || len(data) != 12 {
		t.Fatal(d, len(data))
	}
	list, err := dataset.Elements[float32](data)
	if err != nil || !slices.Equal(list, []float32{1, 2, 3}) {
		t.Error(list, err)
	}
	if list[1] = 7; data[4+3] != 0x40 {
		t.Error("elements are a copy")
	}
	if none, err := dataset.Elements[int64](nil); err != nil || len(none) != 0 {
		t.Error(none, err)
	}
	_, err = dataset.Elements[float32](data[:11])
	testkit.WantError(t, "length", err, dataset.ErrArgument, "11 bytes")
	_, err = dataset.Elements[float32](data[1:9])
	testkit.WantError(t, "address", err, dataset.ErrArgument, "8 bytes at address")
}
