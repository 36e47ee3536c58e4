package loader_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/loader"
)

// newRagged makes n samples of i*i%11 rows of two f32 each.
func newRagged(n int) *fake { return raggedTable(n, 10, func(i int) int { return i * i % 11 }) }

// raggedTable makes n samples of rows of two f32 each.
func raggedTable(n, longest int, length func(i int) int) *fake {
	f := table(n, dtype.F32, longest, 2)
	f.spec.Ragged, f.length = true, length
	return f
}

// Samples of different lengths are padded to the longest of their batch, and
// lengths and masks say where the data is, on the host and on the device, also of a
// dataset in a wrapper.
func TestRagged(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	ds := newRagged(29)
	s := stream(t, dev)
	for _, o := range []loader.Options{
		{Batch: 5}, {Batch: 5, Mask: true}, {Batch: 1, Mask: true}, {Batch: 29, Pad: -1.5, Mask: true}, {Batch: 4, PadTo: 12, Pad: 7},
		{Batch: 6, Shuffle: true, Unordered: true, SampleTimeout: testkit.Hang}, {Batch: 3, DType: dtype.F16, Pad: 2, Mask: true},
	} {
		what := fmt.Sprintf("%+v", o)
		ld := start(t, dev, dataset.Wrapper{Dataset: ds}, o)
		seen := 0
		for b, err := range ld.All(t.Context()) {
			testkit.OK(t, err)
			longest := o.PadTo
			for slot, i := range b.Indexes {
				if n := ds.Length(i); int(b.Lengths[slot]) != n {
					t.Fatalf("%s: sample %d has length %d, want %d", what, i, b.Lengths[slot], n)
				}
				if o.PadTo == 0 {
					longest = max(longest, ds.Length(i))
				}
			}
			if want := []int{len(b.Indexes), longest, 2}; !slices.Equal(b.Shape, want) {
				t.Fatalf("%s: shape %v, want %v", what, b.Shape, want)
			}
			var data, lengths, mask []byte
			to := dtype.F32
			if o.DType != 0 {
				to = o.DType
			}
			for _, i := range b.Indexes {
				sample := ds.sample(i)
				for k := range 2 * longest {
					x := o.Pad
					if k < 2*ds.Length(i) {
						x = element(dtype.F32, sample[4*k:])
					}
					data = appendElement(data, to, x)
				}
				lengths = binary.LittleEndian.AppendUint32(lengths, uint32(ds.Length(i)))
				for k := range longest {
					if k < ds.Length(i) {
						mask = append(mask, 1)
					} else {
						mask = append(mask, 0)
					}
				}
			}
			if int64(len(data)) != b.Bytes {
				t.Fatalf("%s: %d bytes, want %d", what, b.Bytes, len(data))
			}
			same(t, s, what+": data", b.Data, data)
			same(t, s, what+": lengths", b.DeviceLengths, lengths)
			if o.Mask {
				same(t, s, what+": mask", b.DeviceMask, mask)
			} else if b.DeviceMask != 0 {
				t.Errorf("%s: there is a mask", what)
			}
			seen += len(b.Indexes)
			testkit.OK(t, b.Release(s))
		}
		if seen != ds.n {
			t.Errorf("%s: %d samples", what, seen)
		}
		within(t, "Close", ld.Close)
	}
}

// same wants those bytes in device memory.
func same(t testing.TB, s device.Stream, what string, at device.Ptr, want []byte) {
	t.Helper()
	have := make([]byte, len(want))
	if len(want) > 0 {
		testkit.OK(t, s.CopyD2H(have, at))
		testkit.OK(t, s.Synchronize())
	}
	if !bytes.Equal(have, want) {
		t.Fatalf("%s: %x, want %x", what, have, want)
	}
}

// Labels are in device memory too, with every kind of transform before them.
func TestDeviceLabels(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	s := stream(t, dev)
	for _, ds := range []*fake{images(9, 3, 3, 3), table(9, dtype.U8, 5), table(9, dtype.I16, 3)} {
		ds.fail = map[int]bool{2: true, 4: true}
		for _, dt := range []dtype.DType{0, dtype.F32} {
			ld := start(t, dev, ds, loader.Options{Batch: 4, DType: dt, OnError: loader.Skip, Mask: true})
			for b, err := range ld.All(t.Context()) {
				testkit.OK(t, err)
				var labels []byte
				for _, label := range b.Labels {
					labels = binary.LittleEndian.AppendUint32(labels, uint32(label))
				}
				same(t, s, "labels", b.DeviceLabels, labels)
				same(t, s, "mask", b.DeviceMask, bytes.Repeat([]byte{1}, len(b.Indexes)*ds.spec.Shape[0]))
				if b.DeviceLengths != 0 || b.Lengths != nil {
					t.Error("there are lengths")
				}
				testkit.OK(t, b.Release())
			}
			within(t, "Close", ld.Close)
		}
	}
}

// Samples longer than PadTo cannot be read: they are errors with both numbers,
// for the policy to deal with.
func TestPadTo(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	ds := newRagged(12)
	ld := start(t, dev, ds, loader.Options{Batch: 4, PadTo: 5})
	_, err := drain(t, dev, ld)
	testkit.WantError(t, "too long", err, loader.ErrTooLong)
	if err == nil || !strings.Contains(err.Error(), "length 9, and there is room for 5") || !strings.Contains(err.Error(), "sample 3") {
		t.Error(err)
	}
	within(t, "Close", ld.Close)
	for _, policy := range []loader.ErrorPolicy{loader.Skip, loader.Replace} {
		list, err := run(t, dev, ds, loader.Options{Batch: 4, PadTo: 5, OnError: policy})
		testkit.OK(t, err)
		n := 0
		for _, g := range list {
			for _, i := range g.indexes {
				n++
				if ds.Length(i) > 5 {
					t.Errorf("policy %d: sample %d is in a batch", policy, i)
				}
			}
		}
		if long := 2; policy == loader.Skip && n != 12-long || policy == loader.Replace && n != 12 {
			t.Errorf("policy %d: %d samples", policy, n)
		}
	}
}

// A value that the samples' type does not have cannot pad them.
func TestBadPad(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	for _, c := range []struct {
		t   dtype.DType
		pad float64
		ok  bool
	}{
		{dtype.U8, 255, true}, {dtype.U8, 256, false}, {dtype.U8, -1, false}, {dtype.I8, -128, true}, {dtype.I8, 128, false},
		{dtype.U16, 65535, true}, {dtype.U16, 65536, false}, {dtype.U16, -1, false},
		{dtype.I16, 1 << 15, false}, {dtype.I32, math.MinInt32, true}, {dtype.I32, 0.5, false}, {dtype.I64, -100, true},
		{dtype.I64, math.Inf(1), false}, {dtype.F32, math.Inf(-1), true}, {dtype.F16, 0.1, true}, {dtype.BF16, 3, true}, {dtype.F64, 0.1, true},
		{dtype.F16, -1e9, false}, {dtype.F16, math.Inf(-1), true}, {dtype.F16, math.NaN(), true}, {dtype.BF16, -1e9, true}, {dtype.BF16, 1e39, false},
		{dtype.F32, 1e39, false},
	} {
		ds := newRagged(4)
		ds.spec.DType = c.t
		ld, err := loader.New(dev, ds, loader.Options{Pad: c.pad})
		if err == nil {
			within(t, "Close", ld.Close)
		}
		if c.ok {
			testkit.OK(t, err)
			continue
		}
		testkit.WantError(t, fmt.Sprint(c), err, device.ErrArgument)
	}
}

// A dataset that says its samples differ in length has to tell their lengths.
func TestRaggedWithoutLengths(t *testing.T) {
	dev := devicetest.Open(t)
	ds := table(4, dtype.F32, 10, 2)
	ds.spec.Ragged = true
	_, err := loader.New(dev, struct{ dataset.Dataset }{ds}, loader.Options{})
	testkit.WantError(t, "no lengths", err, device.ErrArgument)
	if err == nil || !strings.Contains(err.Error(), "does not say how long each is") {
		t.Error(err)
	}
}
