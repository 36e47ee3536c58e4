package dataset_test

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/internal/datatest"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

func TestMemory(t *testing.T) {
	d, err := dataset.NewMemoryOf([]float32{1, 2, 3, 4, 5, 6}, []int{1, 2}, dataset.MemoryOptions{})
	if err != nil {
		t.Fatal(err)
	}
	samples, labels := datatest.ReadAll(t, d)
	if d.Len() != 3 || d.Spec().String() != "1x2 f32" || d.Name(1) != "memory[1]" || !slices.Equal(labels, []int32{-1, -1, -1}) {
		t.Errorf("%d of %v, %s, %v", d.Len(), d.Spec(), d.Name(1), labels)
	}
	if v := math.Float32frombits(binary.LittleEndian.Uint32(samples[2][4:])); v != 6 {
		t.Error(v)
	}
	for _, c := range []struct {
		want dtype.DType
		make func() (*dataset.Memory, error)
	}{
		{dtype.U8, func() (*dataset.Memory, error) { return dataset.NewMemoryOf([]uint8{1}, nil, dataset.MemoryOptions{}) }},
		{dtype.I8, func() (*dataset.Memory, error) { return dataset.NewMemoryOf([]int8{1}, nil, dataset.MemoryOptions{}) }},
		{dtype.U16, func() (*dataset.Memory, error) { return dataset.NewMemoryOf([]uint16{1}, nil, dataset.MemoryOptions{}) }},
		{dtype.I16, func() (*dataset.Memory, error) { return dataset.NewMemoryOf([]int16{1}, nil, dataset.MemoryOptions{}) }},
		{dtype.I32, func() (*dataset.Memory, error) { return dataset.NewMemoryOf([]int32{1}, nil, dataset.MemoryOptions{}) }},
		{dtype.I64, func() (*dataset.Memory, error) { return dataset.NewMemoryOf([]int64{1}, nil, dataset.MemoryOptions{}) }},
		{dtype.F64, func() (*dataset.Memory, error) {
			return dataset.NewMemoryOf([]float64{1}, nil, dataset.MemoryOptions{})
		}},
	} {
		if d, err := c.make(); err != nil || d.Len() != 1 || d.Spec().DType != c.want {
			t.Errorf("%v: %v, %v", c.want, d, err)
		}
	}

	u8 := dataset.Spec{Shape: []int{2}, DType: dtype.U8}
	_, err = dataset.NewMemory(nil, u8, dataset.MemoryOptions{Name: "x"})
	testkit.WantError(t, "no data", err, dataset.ErrEmpty, "x: ")
	_, err = dataset.NewMemory(make([]byte, 3), u8, dataset.MemoryOptions{})
	testkit.WantError(t, "half a sample", err, dataset.ErrArgument, "3 bytes are not a whole number of samples of 2 bytes (2 u8)")
	_, err = dataset.NewMemory(make([]byte, 4), u8, dataset.MemoryOptions{Labels: make([]int32, 3)})
	testkit.WantError(t, "labels", err, dataset.ErrArgument, "3 labels for 2 samples")
	for _, s := range []dataset.Spec{{}, {Shape: []int{0}, DType: dtype.U8}, {Shape: []int{-1, -1}, DType: dtype.U8}, {Shape: []int{math.MaxInt, 2}, DType: dtype.U8}} {
		_, err = dataset.NewMemory(make([]byte, 4), s, dataset.MemoryOptions{})
		testkit.WantError(t, s.String(), err, dataset.ErrArgument, "samples of")
	}
	_, err = dataset.NewMemory(make([]byte, 4), dataset.Spec{Shape: []int{2}, DType: dtype.U8, Ragged: true}, dataset.MemoryOptions{})
	testkit.WantError(t, "ragged", err, dataset.ErrArgument, "want samples of one shape, not <=2 u8")
}
