package loader_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"testing"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/loader"
)

// A batch and its targets come back as they are on the device, as bytes and as
// numbers, also after Close.
func TestRead(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	ds, mask := images(10, 6, 5, 3), table(10, dtype.I64, 3)
	ld := start(t, dev, ds, loader.Options{Batch: 4, Targets: []dataset.Dataset{mask}})
	s := stream(t, dev)
	for last := false; !last; {
		b, err := next(t, ld)
		testkit.OK(t, err)
		if last = b.Number == 2; last {
			within(t, "Close", ld.Close)
		}
		want := use(t, s, b)
		data, target := make([]byte, b.Bytes+3), make([]byte, b.Targets[0].Bytes)
		testkit.OK(t, b.Read(t.Context(), data))
		testkit.OK(t, b.ReadTarget(t.Context(), 0, target))
		if !bytes.Equal(data[:b.Bytes], want.data) || !bytes.Equal(target, want.targets[0].data) {
			t.Error("other bytes than on the device")
		}
		values, err := loader.Values[float32](t.Context(), b)
		testkit.OK(t, err)
		for i, v := range values {
			if math.Float32bits(v) != binary.LittleEndian.Uint32(want.data[4*i:]) {
				t.Fatalf("value %d is %v", i, v)
			}
		}

		_, err = loader.Values[int32](t.Context(), b)
		says(t, err, device.ErrArgument, "f32 does not hold values of int32")
		says(t, b.Read(t.Context(), data[:b.Bytes-1]), device.ErrArgument, "there is room for")
		says(t, b.ReadTarget(t.Context(), 1, data), device.ErrArgument, "target 1 of 1")
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		testkit.WantError(t, "Read with a context that ended", b.Read(gone, data), context.Canceled)
		testkit.OK(t, b.Release())
		testkit.WantError(t, "Read after Release", b.Read(t.Context(), data), loader.ErrReleased)
	}

	ld = start(t, dev, ds, loader.Options{Batch: 4, DType: dtype.F16})
	b, err := next(t, ld)
	testkit.OK(t, err)
	if halves, err := loader.Values[uint16](t.Context(), b); err != nil || len(halves) != 4*6*5*3 {
		t.Errorf("%d halves, %v", len(halves), err)
	}
	testkit.OK(t, b.Release())
}
