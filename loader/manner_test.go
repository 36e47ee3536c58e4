package loader_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/imaging"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/loader"
)

// record is all that there is of a batch: on the host as text, and the bytes on
// the device, part by part.
type record struct {
	epoch, number int
	text          string
	parts         [][]byte
}

// readBack queues the copies of all parts of a batch.
func readBack(t testing.TB, s device.Stream, b *loader.Batch) *record {
	t.Helper()
	r := &record{epoch: b.Epoch, number: b.Number, text: fmt.Sprint(b.DType, b.Shape, b.Indexes, b.Labels, b.Lengths, b.Mix)}
	part := func(p device.Ptr, n int64) {
		r.parts = append(r.parts, make([]byte, n))
		if n > 0 && p != 0 {
			testkit.OK(t, s.CopyD2H(r.parts[len(r.parts)-1], p))
		}
	}
	n := int64(len(b.Indexes))
	part(b.Data, b.Bytes)
	part(b.DeviceLabels, 4*n)
	part(b.DeviceLengths, 4*n)
	part(b.DeviceMix, 4*n)
	if b.DeviceMask != 0 {
		part(b.DeviceMask, n*int64(b.Shape[1]))
	}
	for _, target := range b.Targets {
		r.text += fmt.Sprint(" ", target.DType, target.Shape, target.Lengths)
		part(target.Data, target.Bytes)
		part(target.DeviceLengths, 4*n)
	}
	return r
}

// content draws a dataset, with targets and samples that cannot be read, and
// the options that say what batches hold.
func content(rng *rand.Rand) (ds *fake, o loader.Options) {
	n := 1 + rng.IntN(40)
	scale := []int{1, 1, 1, 200}[rng.IntN(4)]
	o = loader.Options{
		Batch: 1 + rng.IntN(12), Epochs: 1 + rng.IntN(3), Shuffle: rng.IntN(2) == 0, Seed: rng.Uint64(), DropLast: rng.IntN(4) == 0,
		World: 1 + rng.IntN(2),
	}
	if o.DropLast {
		o.Batch = min(o.Batch, n/o.World)
	}
	o.Rank = rng.IntN(o.World)
	switch rng.IntN(4) {
	case 0:
		ds = table(n, dtype.I16, scale, 1+rng.IntN(60))
		if rng.IntN(2) == 0 {
			o.DType = dtype.F16
		}
	case 1:
		ds = images(n, 1+rng.IntN(9), scale, 3)
		ds.spec.DType = []dtype.DType{dtype.U8, dtype.U16}[rng.IntN(2)]
		o.DType = []dtype.DType{dtype.F32, dtype.F16, ds.spec.DType}[rng.IntN(3)]
		if o.DType != ds.spec.DType && rng.IntN(2) == 0 {
			o.Batch += o.Batch % 2 * (o.World - 1)
			o.Mixup, o.Jitter = 0.4, imaging.Jitter{Brightness: 0.5}
		}
	default:
		longest, step := 1+rng.IntN(20)*scale, 1+rng.IntN(500)
		ds = raggedTable(n, longest, func(i int) int { return i * step % (longest + 1) })
		o.Mask = rng.IntN(2) == 0
		if rng.IntN(3) == 0 {
			o.PadTo, o.Pad = 1+rng.IntN(longest+3), float64(rng.IntN(3))
		}
	}
	all := []*fake{ds}
	for range rng.IntN(4) {
		target := randomTarget(rng, n)
		if rng.IntN(4) == 0 {
			target = table(n, dtype.U8, 1+rng.IntN(100_000))
		}
		all, o.Targets = append(all, target), append(o.Targets, dataset.Dataset(target))
	}
	if rng.IntN(2) == 0 {
		for _, f := range all {
			f.fail, f.panics = map[int]bool{rng.IntN(n): true}, map[int]bool{rng.IntN(n): true}
		}
	}
	switch rng.IntN(3) {
	case 0:
		o.OnError = loader.Skip
	case 1:
		o.OnError = loader.Replace
	default:
		o.Decide = func(err *loader.SampleError) loader.ErrorPolicy { return loader.Skip + loader.ErrorPolicy(err.Index%2) }
	}
	for _, f := range all {
		if rng.IntN(2) == 0 {
			unsteady(f)
		}
	}
	return ds, o
}

// manner draws what must not matter.
func manner(rng *rand.Rand, o loader.Options) loader.Options {
	o.Workers, o.Prefetch, o.DeviceBuffers = 1+rng.IntN(9), 1+rng.IntN(5), 1+rng.IntN(4)
	o.Pin = []loader.Pinning{loader.PinAuto, loader.PinAlways, loader.PinNever, loader.PinNever}[rng.IntN(4)]
	o.Copiers, o.ChunkBytes = rng.IntN(4), []int64{0, 16 << 10, 100_001, 256 << 10}[rng.IntN(4)]
	o.Unordered = rng.IntN(3) == 0
	if rng.IntN(3) == 0 {
		o.SampleTimeout = testkit.Hang
	}
	return o
}

// consume takes up to most batches in an odd way: some are held for a while and
// released in any order behind the work that reads them, by one holder or two, and
// Next is cut short now and then. What was read is there when it returns.
func consume(t testing.TB, rng *rand.Rand, ld *loader.Loader, streams map[device.Device]device.Stream, most int) (list []*record, err error) {
	t.Helper()
	var held []*loader.Batch
	letGo := func() {
		i := rng.IntN(len(held))
		b := held[i]
		held = slices.Delete(held, i, i+1)
		if rng.IntN(3) == 0 {
			testkit.OK(t, b.Retain())
			testkit.OK(t, b.Release())
		}
		testkit.OK(t, b.Release(streams[b.Device]))
	}
	defer func() {
		for len(held) > 0 {
			letGo()
		}
		for _, s := range streams {
			testkit.OK(t, s.Synchronize())
		}
	}()
	for len(list) < most {
		hurried := rng.IntN(3) == 0
		limit := testkit.Hang
		if hurried {
			limit = time.Duration(rng.IntN(200)) * time.Microsecond
		}
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		b, err := ld.Next(ctx)
		cancel()
		switch {
		case errors.Is(err, loader.ErrHeld):
			letGo()
		case hurried && errors.Is(err, context.DeadlineExceeded):
		case errors.Is(err, context.DeadlineExceeded):
			t.Fatal("Next is stuck")
		case err == io.EOF:
			return list, nil
		case err != nil:
			return list, err
		default:
			list, held = append(list, readBack(t, streams[b.Device], b)), append(held, b)
			for len(held) > 0 && rng.IntN(3) > 0 {
				letGo()
			}
		}
	}
	return list, nil
}

// Workers, prefetch, buffers, pinning, copiers, devices, a time limit, another
// order of delivery, holders that keep batches, a stop anywhere: whatever batches
// are made of, they are the same ones, with all that goes with them.
func TestSameInAnyManner(t *testing.T) {
	staged := 0
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 77))
		ds, o := content(rng)
		var devices []device.Device
		streams := map[device.Device]device.Stream{}
		for range 1 + rng.IntN(3) {
			dev := newDiscrete(t, 256<<20)
			devices, streams[dev] = append(devices, dev), stream(t, dev)
		}
		plain := o
		plain.Workers, plain.Prefetch, plain.Pin = 1, 1, loader.PinNever
		ld := start(t, devices[0], ds, plain)
		want, err := consume(t, rng, ld, streams, math.MaxInt)
		within(t, "Close", ld.Close)
		if err != nil {
			continue // too many samples were bad to be replaced
		}
		for range 3 {
			var have []*record
			var state *loader.State
			for more := true; more; {
				m := manner(rng, o)
				m.Resume = state
				what := fmt.Sprintf("seed %d, %+v", seed, m)
				ld, err := loader.NewOn(devices[:1+rng.IntN(len(devices))], ds, m)
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				most := math.MaxInt
				if rng.IntN(2) == 0 {
					most = rng.IntN(len(want) + 1)
				}
				list, err := consume(t, rng, ld, streams, most)
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				now := ld.State()
				have, state, more = append(have, list...), &now, len(list) == most
				if ld.Stats().StagingBytes > 0 {
					staged++
				}
				within(t, "Close", ld.Close)
			}
			if !slices.IsSortedFunc(have, func(a, b *record) int { return a.epoch - b.epoch }) {
				t.Fatalf("seed %d: epochs mix", seed)
			}
			slices.SortFunc(have, func(a, b *record) int { return cmp.Or(a.epoch-b.epoch, a.number-b.number) })
			if len(have) != len(want) {
				t.Fatalf("seed %d: %d batches, want %d", seed, len(have), len(want))
			}
			for i, w := range want {
				if !reflect.DeepEqual(have[i], w) {
					t.Fatalf("seed %d: batch %d of epoch %d differs: %.300s, want %.300s", seed, w.number, w.epoch, have[i].text, w.text)
				}
			}
		}
	}
	if staged == 0 {
		t.Error("nothing was staged")
	}
}
