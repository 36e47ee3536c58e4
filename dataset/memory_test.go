package dataset

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"github.com/pinion-gpu/pinion/dtype"
)

func TestMemory(t *testing.T) {
	d, err := NewMemoryOf([]float32{1, 2, 3, 4, 5, 6}, []int{1, 2}, MemoryOptions{})
	if err != nil {
		t.Fatal(err)
	}
	samples, labels := readAll(t, d)
	if d.Len() != 3 || d.Spec().String() != "1x2 f32" || d.Name(1) != "memory[1]" || !slices.Equal(labels, []int32{-1, -1, -1}) {
		t.Errorf("%d of %v, %s, %v", d.Len(), d.Spec(), d.Name(1), labels)
	}
	if v := math.Float32frombits(binary.LittleEndian.Uint32(samples[2][4:])); v != 6 {
		t.Error(v)
	}
	for _, c := range []struct {
		want dtype.DType
		make func() (*Memory, error)
	}{
		{dtype.U8, func() (*Memory, error) { return NewMemoryOf([]uint8{1}, nil, MemoryOptions{}) }},
		{dtype.I8, func() (*Memory, error) { return NewMemoryOf([]int8{1}, nil, MemoryOptions{}) }},
		{dtype.U16, func() (*Memory, error) { return NewMemoryOf([]uint16{1}, nil, MemoryOptions{}) }},
		{dtype.I16, func() (*Memory, error) { return NewMemoryOf([]int16{1}, nil, MemoryOptions{}) }},
		{dtype.I32, func() (*Memory, error) { return NewMemoryOf([]int32{1}, nil, MemoryOptions{}) }},
		{dtype.I64, func() (*Memory, error) { return NewMemoryOf([]int64{1}, nil, MemoryOptions{}) }},
		{dtype.F64, func() (*Memory, error) { return NewMemoryOf([]float64{1}, nil, MemoryOptions{}) }},
	} {
		if d, err := c.make(); err != nil || d.Len() != 1 || d.Spec().DType != c.want {
			t.Errorf("%v: %v, %v", c.want, d, err)
		}
	}

	u8 := Spec{Shape: []int{2}, DType: dtype.U8}
	_, err = NewMemory(nil, u8, MemoryOptions{Name: "x"})
	wantError(t, "no data", err, ErrEmpty, "x: ")
	_, err = NewMemory(make([]byte, 3), u8, MemoryOptions{})
	wantError(t, "half a sample", err, ErrArgument, "3 bytes are no whole samples of 2 (2 u8)")
	_, err = NewMemory(make([]byte, 4), u8, MemoryOptions{Labels: make([]int32, 3)})
	wantError(t, "labels", err, ErrArgument, "3 labels for 2 samples")
	for _, s := range []Spec{{}, {Shape: []int{0}, DType: dtype.U8}, {Shape: []int{-1, -1}, DType: dtype.U8}, {Shape: []int{math.MaxInt, 2}, DType: dtype.U8}} {
		_, err = NewMemory(make([]byte, 4), s, MemoryOptions{})
		wantError(t, s.String(), err, ErrArgument, "samples of")
	}
	_, err = NewMemory(make([]byte, 4), Spec{Shape: []int{2}, DType: dtype.U8, Ragged: true}, MemoryOptions{})
	wantError(t, "ragged", err, ErrArgument, "want samples of one shape, not <=2 u8")
}
