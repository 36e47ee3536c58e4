package gomlx

import (
	"errors"
	"reflect"
	"runtime"
	"testing"
	"unsafe"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/dtypes/bfloat16"
	"github.com/gomlx/compute/dtypes/float16"
	"github.com/gomlx/compute/shapes"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

func open(t *testing.T) *Backend {
	t.Helper()
	b, err := New(testDevice())
	testkit.OK(t, err)
	t.Cleanup(b.Finalize)
	return b
}

func TestBuffersHoldAllTypes(t *testing.T) {
	b := open(t)
	for _, flat := range []any{
		[]bool{true, false, true}, []int8{1, -2, 3}, []int16{1, -2, 3}, []int32{1, -2, 3}, []int64{1, -2, 3}, []uint8{1, 2, 3}, []uint16{1, 2, 3},
		[]uint32{1, 2, 3}, []uint64{1, 2, 3}, []float32{1, -2, 3}, []float64{1, -2, 3}, []int{1, -2, 3},
		float16.FromFloat32s(1, -2, 3), []bfloat16.BFloat16{bfloat16.FromFloat32(1), 0, bfloat16.FromFloat32(-3)}, []float32{},
	} {
		v := reflect.ValueOf(flat)
		shape := shapes.Make(dtypes.FromGoType(v.Type().Elem()), v.Len(), 1)
		buf, err := b.BufferFromFlatData(0, flat, shape)
		testkit.OK(t, err)
		copied, err := buf.CopyToDevice(0)
		testkit.OK(t, err)
		testkit.OK(t, buf.Finalize())
		got := reflect.MakeSlice(v.Type(), v.Len(), v.Len()).Interface()
		testkit.OK(t, copied.ToFlatData(got))
		if !reflect.DeepEqual(got, flat) {
			t.Errorf("%T: %v came back as %v", flat, flat, got)
		}
		if s, err := copied.Shape(); err != nil || !s.Equal(shape) {
			t.Errorf("the shape of %v is %v, %v", shape, s, err)
		}
	}
}

func TestBadBuffers(t *testing.T) {
	b := open(t)
	shape := shapes.Make(dtypes.Float32, 3)
	for what, make := range map[string]func() (compute.Buffer, error){
		"too few elements": func() (compute.Buffer, error) { return b.BufferFromFlatData(0, []float32{1}, shape) },
		"another type":     func() (compute.Buffer, error) { return b.BufferFromFlatData(0, []int32{1, 2, 3}, shape) },
		"no slice":         func() (compute.Buffer, error) { return b.BufferFromFlatData(0, float32(1), shape) },
		"nothing":          func() (compute.Buffer, error) { return b.BufferFromFlatData(0, nil, shape) },
		"a string":         func() (compute.Buffer, error) { return b.BufferFromFlatData(0, []string{"a"}, shape) },
		"another device":   func() (compute.Buffer, error) { return b.BufferFromFlatData(1, []float32{1, 2, 3}, shape) },
		"complex numbers": func() (compute.Buffer, error) {
			return b.BufferFromFlatData(0, []complex64{1}, shapes.Make(dtypes.Complex64, 1))
		},
	} {
		_, err := make()
		testkit.WantError(t, what, err, ErrArgument)
	}
	buf, err := b.BufferFromFlatData(0, []float32{1, 2, 3}, shape)
	testkit.OK(t, err)
	testkit.WantError(t, "too small a slice", buf.ToFlatData([]float32{0}), ErrArgument)
	testkit.OK(t, buf.Finalize())
	testkit.OK(t, buf.Finalize())
	testkit.WantError(t, "a finalized buffer", buf.ToFlatData(make([]float32, 3)), ErrGone, "finalized")
	if _, _, err := b.NewSharedBuffer(0, shape); !compute.IsNotImplemented(err) {
		t.Errorf("a shared buffer: %v", err)
	}
	if _, err := buf.Data(); !compute.IsNotImplemented(err) {
		t.Errorf("shared data: %v", err)
	}
	live, err := b.BufferFromFlatData(0, []float32{1, 2, 3}, shape)
	testkit.OK(t, err)
	x := build(t, b, []int{2}, 1, func(f compute.Function, in []compute.Value) []compute.Value {
		return []compute.Value{value(t)(f.Neg(in[0]))}
	})
	b.Finalize()
	if _, err := x.(*executable).step.Run(t.Context(), nil, nil); !errors.Is(err, device.ErrClosed) {
		t.Errorf("an executable of a finalized backend: %v", err)
	}
	testkit.WantError(t, "a finalized backend", live.ToFlatData(make([]float32, 3)), ErrFinalized)
	_, err = b.BufferFromFlatData(0, []float32{1, 2, 3}, shape)
	testkit.WantError(t, "a finalized backend", err, ErrFinalized)
	testkit.OK(t, live.Finalize())
}

func TestWrap(t *testing.T) {
	b := open(t)
	data := []float32{1, 2, 3}
	memory, err := b.device.Alloc(12)
	testkit.OK(t, err)
	testkit.OK(t, b.stream.CopyH2D(memory, unsafe.Slice((*byte)(unsafe.Pointer(&data[0])), 12)))
	testkit.OK(t, b.stream.Synchronize())
	released := 0
	failed := errors.New("no")
	wrap := func(memory device.Ptr) compute.Buffer {
		buf, err := b.Wrap(memory, shapes.Make(dtypes.Float32, 3), func() error { released++; return failed })
		testkit.OK(t, err)
		return buf
	}
	buf := wrap(memory)
	got := make([]float32, 3)
	testkit.OK(t, buf.ToFlatData(got))
	if !reflect.DeepEqual(got, data) || released != 0 {
		t.Errorf("%v, released %d times", got, released)
	}
	if err := buf.Finalize(); !errors.Is(err, failed) || released != 1 {
		t.Errorf("%v, released %d times", err, released)
	}
	buf.Finalize()
	if released != 1 {
		t.Errorf("released %d times", released)
	}
}

// Steps want memory at multiples of 64 bytes, so what lies elsewhere is copied.
func TestWrapUnaligned(t *testing.T) {
	b := open(t)
	memory, err := b.device.Alloc(16)
	testkit.OK(t, err)
	testkit.OK(t, b.stream.Memset(memory+4, 0xff, 4))
	testkit.OK(t, b.stream.Memset(memory+8, 0, 8))
	testkit.OK(t, b.stream.Synchronize())
	released := 0
	buf, err := b.Wrap(memory+4, shapes.Make(dtypes.Int32, 3), func() error { released++; return nil })
	testkit.OK(t, err)
	got := make([]int32, 3)
	testkit.OK(t, buf.ToFlatData(got))
	if !reflect.DeepEqual(got, []int32{-1, 0, 0}) || released != 1 {
		t.Errorf("%v, released %d times", got, released)
	}
}

// GoMLX leaves what it computed to the garbage collector.
func TestGarbageIsFreed(t *testing.T) {
	b := open(t)
	for range 10 {
		_, err := b.BufferFromFlatData(0, make([]float32, 1000), shapes.Make(dtypes.Float32, 1000))
		testkit.OK(t, err)
	}
	testkit.Eventually(t, "buffers that nobody has are freed", func() bool {
		runtime.GC()
		return len(b.pool.Live()) == 0
	})
}
