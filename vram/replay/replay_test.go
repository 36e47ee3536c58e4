package replay_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/host"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/vram"
	"github.com/pinion-gpu/pinion/vram/replay"
	"github.com/pinion-gpu/pinion/vram/trace"
)

// sequence gives events as a reader does.
func sequence(events iter.Seq[trace.Event]) iter.Seq2[trace.Event, error] {
	return func(yield func(trace.Event, error) bool) {
		for e := range events {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func lines(text string) iter.Seq2[trace.Event, error] {
	r, err := trace.NewReader(strings.NewReader(text), trace.Options{})
	if err != nil {
		return func(yield func(trace.Event, error) bool) { yield(trace.Event{}, err) }
	}
	return r.All()
}

// allocators makes one of each kind on a device of its own, and checks at the
// end that nothing is left there.
var allocators = map[string]func(device.Device, int64) (replay.Allocator, error){
	"pool": func(dev device.Device, capacity int64) (replay.Allocator, error) {
		return replay.NewPool(dev, vram.Options{Budget: capacity})
	},
	"plain": func(dev device.Device, capacity int64) (replay.Allocator, error) {
		return replay.NewPlain(dev, capacity), nil
	},
	"async": func(dev device.Device, capacity int64) (replay.Allocator, error) {
		return replay.NewAsync(dev, capacity)
	},
}

func each(t *testing.T, capacity int64, f func(t *testing.T, a replay.Allocator)) {
	for name, make := range allocators {
		t.Run(name, func(t *testing.T) {
			dev, err := host.Open(capacity)
			if err != nil {
				t.Fatal(err)
			}
			defer dev.Close()
			a, err := make(dev, capacity)
			if err != nil {
				t.Fatal(err)
			}
			f(t, a)
			if err := a.Close(); err != nil {
				t.Error(err)
			}
			if err := dev.Synchronize(); err != nil {
				t.Error(err)
			}
			if m, err := dev.Memory(); err != nil || m.FreeBytes != capacity {
				t.Errorf("%d of %d bytes are free at the end: %v", m.FreeBytes, capacity, err)
			}
		})
	}
}

// Every generator's trace runs to its end on every allocator, with the peak
// that the trace has.
func TestGenerators(t *testing.T) {
	must := func(s iter.Seq[trace.Event], err error) iter.Seq[trace.Event] {
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for name, events := range map[string]iter.Seq[trace.Event]{
		"random":  must(trace.Random(trace.RandomOptions{Count: 500, Seed: 3})),
		"steps":   must(trace.Steps(trace.StepsOptions{Model: trace.Model{Layers: 4}, Steps: 3})),
		"growing": must(trace.Growing(trace.GrowingOptions{Model: trace.Model{Layers: 3}, Steps: 4})),
		"streams": must(trace.Streams(trace.StreamsOptions{Count: 500, Seed: 4})),
		"cycles":  must(trace.Cycles(trace.CyclesOptions{Cycles: 4, Seed: 5})),
	} {
		var n, live, peak int64
		for e := range events {
			n++
			if e.Op == trace.Alloc {
				live += e.Bytes
			} else {
				live -= e.Bytes
			}
			peak = max(peak, live)
		}
		t.Run(name, func(t *testing.T) {
			each(t, 80<<30, func(t *testing.T, a replay.Allocator) {
				if _, pool := a.(*replay.Pool); pool && poisons {
					t.Skip("the trace is larger than memory may be")
				}
				var told int64 = -1
				r, err := replay.Run(t.Context(), sequence(events), a, replay.Options{Progress: func(n int64) { told = n }})
				if err != nil {
					t.Fatal(err)
				}
				if r.Events != n || r.PeakLiveBytes != peak || r.PeakTraceBytes != peak || r.OOMs != 0 || r.LeastOOMBytes != 0 {
					t.Errorf("%+v, want %d events and a peak of %d bytes", r, n, peak)
				}
				most := 1.5
				if runtime.GOOS != "linux" {
					most = math.Inf(1) // without virtual memory, it is what it is
				}
				if r.PeakReservedBytes < peak || r.Fragmentation() < 1 || r.Fragmentation() > most {
					t.Errorf("reserved %d for %d bytes: fragmentation %g", r.PeakReservedBytes, peak, r.Fragmentation())
				}
				if r.DriverCalls == 0 || r.AllocP99 < r.AllocP50 || r.Elapsed <= 0 {
					t.Errorf("%+v", r)
				}
				if told < 0 || told >= n {
					t.Errorf("progress came to %d of %d", told, n)
				}
			})
		})
	}
}

// An allocation that fails is counted with what it needed, its free is left
// out, and the rest goes on.
func TestOutOfMemory(t *testing.T) {
	const text = `{"op":"alloc","id":1,"bytes":8388608}
{"op":"alloc","id":2,"bytes":33554432}
{"op":"alloc","id":3,"bytes":12582912}
{"op":"free","id":2}
{"op":"alloc","id":4,"bytes":2097152}
{"op":"free","id":1}
{"op":"alloc","id":5,"bytes":8388608}
{"op":"free","id":3}
`
	each(t, 16<<20, func(t *testing.T, a replay.Allocator) {
		r, err := replay.Run(t.Context(), lines(text), a, replay.Options{})
		if err != nil {
			t.Fatal(err)
		}
		// 2 and 3 fail: 40 and 20 MiB. 4 and 5 stay live.
		if r.Events != 8 || r.OOMs != 2 || r.LeastOOMBytes != 20<<20 || r.PeakLiveBytes != 10<<20 || r.PeakTraceBytes != 52<<20 {
			t.Errorf("%+v", r)
		}
		if r.PeakReservedBytes > 16<<20 {
			t.Errorf("%d bytes reserved of 16 MiB", r.PeakReservedBytes)
		}
	})
}

// What failed when the trace was recorded is tried, and freed at once.
func TestFailedInTrace(t *testing.T) {
	const text = `{"op":"alloc","failed":true,"bytes":8388608}
{"op":"alloc","id":1,"bytes":8388608}
{"op":"alloc","failed":true,"bytes":33554432}
{"op":"alloc","failed":true,"bytes":9223372036854775807}
{"op":"alloc","id":2,"bytes":4194304}
`
	each(t, 16<<20, func(t *testing.T, a replay.Allocator) {
		r, err := replay.Run(t.Context(), lines(text), a, replay.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if r.FailedInTrace != 3 || r.FailedGranted != 1 || r.OOMs != 0 || r.LeastOOMBytes != 0 ||
			r.PeakLiveBytes != 12<<20 || r.PeakTraceBytes != 12<<20 {
			t.Errorf("%+v", r)
		}
	})
}

// A PyTorch snapshot whose run asked for 1 PiB in vain needs what it had.
func TestSnapshotWithOOM(t *testing.T) {
	file := testkit.Must(os.Open("../trace/testdata/torch-2.11.pickle"))(t)
	defer file.Close()
	each(t, 128<<20, func(t *testing.T, a replay.Allocator) {
		file.Seek(0, io.SeekStart)
		events := testkit.Must(trace.NewReader(file, trace.Options{}))(t)
		r, err := replay.Run(t.Context(), events.All(), a, replay.Options{})
		testkit.OK(t, err)
		if r.FailedInTrace != 1 || r.FailedGranted != 0 || r.OOMs != 0 || r.PeakTraceBytes != r.PeakLiveBytes || r.PeakLiveBytes > 40<<20 {
			t.Errorf("%+v", r)
		}
	})
}

// A free may be ordered behind another stream than its allocation's.
func TestFreeOnOtherStream(t *testing.T) {
	var text strings.Builder
	for i := range 200 {
		fmt.Fprintf(&text, `{"op":"alloc","id":%d,"bytes":%d,"stream":%d}`+"\n", i, 1<<20+i, i%3)
		if i >= 5 {
			fmt.Fprintf(&text, `{"op":"free","id":%d,"stream":%d}`+"\n", i-5, i%4)
		}
	}
	each(t, 64<<20, func(t *testing.T, a replay.Allocator) {
		r, err := replay.Run(t.Context(), lines(text.String()), a, replay.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if r.OOMs != 0 || r.Events != 395 {
			t.Errorf("%+v", r)
		}
	})
}

// The budget holds on a device that has more.
func TestBudget(t *testing.T) {
	dev, err := host.Open(1 << 30)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	const text = `{"op":"alloc","id":1,"bytes":15728640}` + "\n" + `{"op":"alloc","id":2,"bytes":2097152}` + "\n"
	for name, make := range allocators {
		a, err := make(dev, 16<<20)
		if err != nil {
			t.Fatal(err)
		}
		r, err := replay.Run(t.Context(), lines(text), a, replay.Options{})
		if err != nil || r.OOMs != 1 || r.LeastOOMBytes != 17<<20 {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
		if err := a.Close(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Whatever ends a replay, nothing of it stays allocated (each checks that).
func TestErrors(t *testing.T) {
	const first = `{"op":"alloc","id":1,"bytes":4096}` + "\n"
	each(t, 64<<20, func(t *testing.T, a replay.Allocator) {
		_, err := replay.Run(t.Context(), lines(first+`{"op":"free","id":9}`), a, replay.Options{})
		if !errors.Is(err, trace.ErrMalformed) || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("malformed line: %v", err)
		}
		for what, events := range map[string][]trace.Event{
			"a second allocation": {{ID: 1, Bytes: 1}, {ID: 1, Bytes: 1}},
			"a second free":       {{ID: 1, Bytes: 1}, {Op: trace.Free, ID: 1}, {Op: trace.Free, ID: 1}},
			"no bytes":            {{ID: 1, Bytes: 1}, {ID: 2}},
		} {
			_, err := replay.Run(t.Context(), func(yield func(trace.Event, error) bool) {
				for _, e := range events {
					if !yield(e, nil) {
						return
					}
				}
			}, a, replay.Options{})
			if want := fmt.Sprintf("event %d", len(events)); !errors.Is(err, trace.ErrMalformed) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", what, err)
			}
		}

		ctx, cancel := context.WithCancel(t.Context())
		events, err := trace.Random(trace.RandomOptions{Count: 5000, Max: 1 << 20, Live: 32 << 20})
		if err != nil {
			t.Fatal(err)
		}
		_, err = replay.Run(ctx, sequence(events), a, replay.Options{Progress: func(n int64) {
			if n > 1000 {
				cancel()
			}
			if n > 3000 {
				t.Errorf("%d events after the cancellation", n)
			}
		}})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}

		if err := a.Free(7, trace.Event{}); !errors.Is(err, device.ErrPointer) {
			t.Errorf("free of no handle: %v", err)
		}
	})
}

// An allocator's own error ends the replay.
func TestAllocatorError(t *testing.T) {
	dev, err := host.Open(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	a := replay.NewPlain(dev, 0)
	dev.Close()
	_, err = replay.Run(t.Context(), lines(`{"op":"alloc","id":1,"bytes":4096}`), a, replay.Options{})
	if !errors.Is(err, device.ErrClosed) || !strings.Contains(err.Error(), "event 1: alloc of 4 KiB") {
		t.Error(err)
	}
}

// No events are no error.
func TestNothing(t *testing.T) {
	each(t, 64<<20, func(t *testing.T, a replay.Allocator) {
		r, err := replay.Run(t.Context(), lines(""), a, replay.Options{})
		if err != nil || r.Events != 0 || r.Fragmentation() != 0 || r.AllocP50 != 0 {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// What the trace leaves live is there in AtEnd, and in no figure of the result.
func TestAtEnd(t *testing.T) {
	const text = `{"op":"alloc","id":1,"bytes":1000,"stream":0}
{"op":"alloc","id":2,"bytes":2000,"stream":0}
{"op":"free","id":1}
`
	dev, err := host.Open(64 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	pool, err := replay.NewPool(dev, vram.Options{History: 100})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	errFull := errors.New("full")
	for name, c := range map[string]struct {
		trace string
		err   error // of AtEnd
		calls int
	}{
		"whole trace":  {text, nil, 1},
		"it fails":     {text, errFull, 1},
		"broken trace": {text + "{\n", nil, 0},
	} {
		calls := 0
		result, err := replay.Run(t.Context(), lines(c.trace), pool, replay.Options{AtEnd: func() error {
			calls++
			if s := pool.Pool().Stats(); s.Requested.Current != 2000 || s.Blocks.Current != 1 {
				t.Errorf("%s: live are %d bytes in %d blocks", name, s.Requested.Current, s.Blocks.Current)
			}
			block, err := pool.Alloc(t.Context(), trace.Event{Bytes: 1 << 20})
			if err == nil {
				err = pool.Free(block, trace.Event{})
			}
			return errors.Join(err, c.err)
		}})
		if calls != c.calls || c.err != nil && !errors.Is(err, c.err) || (err == nil) != (name == "whole trace") {
			t.Errorf("%s: %d calls, %v", name, calls, err)
		}
		if err == nil && (result.Events != 3 || result.PeakLiveBytes != 3000) {
			t.Errorf("%s: %+v", name, result)
		}
		if s := pool.Pool().Stats(); s.Blocks.Current != 0 {
			t.Errorf("%s: %d blocks are left", name, s.Blocks.Current)
		}
	}
}
