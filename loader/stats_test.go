package loader_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/loader"
)

// The stages are always the same, in the order of the pipeline, and no time is
// below zero.
func TestStages(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	ds := images(40, 8, 8, 3)
	ld := start(t, dev, ds, loader.Options{Batch: 4})
	before := ld.Stats()
	_, err := drain(t, dev, ld)
	testkit.OK(t, err)
	after := ld.Stats()
	want := []loader.Stage{{Name: "read", Where: "worker"}, {Name: "decode", Where: "worker"}, {Name: "resize", Where: "worker"},
		{Name: "idle", Where: "worker"}, {Name: "h2d", Where: "device"}, {Name: "decode on device", Where: "device"}, {Name: "transform", Where: "device"}}
	if len(after.Stages) != len(want) {
		t.Fatalf("%+v", after.Stages)
	}
	for i, s := range after.Stages {
		if s.Name != want[i].Name || s.Where != want[i].Where || s.Time < before.Stages[i].Time || s.Time < 0 {
			t.Errorf("stage %d: %+v, before %+v", i, s, before.Stages[i])
		}
	}
	if read := after.Stages[0].Time.Nanoseconds(); read != ds.reads.Load() {
		t.Errorf("%d reads of a nanosecond each count as %d ns", ds.reads.Load(), read)
	}
	if after.Samples != 40 || after.Batches != 10 || after.BytesToDevice != int64(10*copied(ds.spec, 4)) || after.DeviceWait <= 0 {
		t.Errorf("%+v", after)
	}
	if before.Samples != 0 || before.Batches != 0 || before.BytesToDevice != 0 || before.DeviceWait != 0 {
		t.Errorf("counted before the first batch was taken: %+v", before)
	}
}

// A wait counts while it lasts, not only when it is over, and its time never falls.
func TestWaitUnderWay(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	ds := images(4, 8, 8, 3)
	gate := make(chan struct{})
	ds.before = func(int) { <-gate }
	ld := start(t, dev, ds, loader.Options{Batch: 4, Epochs: 1})
	arrived := make(chan error, 1)
	go func() {
		b, err := ld.Next(t.Context())
		if err == nil {
			err = b.Release()
		}
		arrived <- err
	}()
	last := ld.Stats().DeviceWait
	for grown := 0; grown < 3; {
		now := ld.Stats().DeviceWait
		if now < last {
			t.Fatalf("%v after %v", now, last)
		}
		if now > last {
			grown++
		}
		last = now
		runtime.Gosched()
	}
	close(gate)
	testkit.OK(t, testkit.Receive(t, "the batch", arrived))
	after := ld.Stats().DeviceWait
	if after < last || ld.Stats().DeviceWait != after {
		t.Errorf("%v after %v, and nobody waits", after, last)
	}
}

// What limits is told by who was busy.
func TestLimit(t *testing.T) {
	stats := func(read, decode, h2d, transform, wait time.Duration) loader.Stats {
		return loader.Stats{Workers: 4, Devices: 1, DeviceWait: wait, Stages: []loader.Stage{
			{Name: "read", Where: "worker", Time: read}, {Name: "decode", Where: "worker", Time: decode},
			{Name: "idle", Where: "worker", Time: 40 * time.Second},
			{Name: "h2d", Where: "device", Time: h2d}, {Name: "transform", Where: "device", Time: transform}}}
	}
	const s = time.Second
	earlier := stats(s, s, s, s, s)
	for want, now := range map[string]loader.Stats{
		"device":    stats(5*s, 30*s, 9*s, s, s+s/3),
		"decode":    stats(9*s, 30*s, 6*s, s, 5*s),
		"read":      stats(29*s, 10*s, 6*s, s, 5*s),
		"h2d":       stats(29*s, 10*s, 10*s, s, 5*s),
		"transform": stats(s, s, s, 10*s, 5*s),
		"latency":   stats(9*s, 10*s, 2*s, 2*s, 5*s),
		"":          stats(s, s, s, s, s+s/3),
	} {
		if got := now.Sub(earlier).Limit(10 * s); got != want {
			t.Errorf("%q, want %q, of %+v", got, want, now)
		}
	}
	// A time in which no batch was taken: the program waits for one, or is at work on
	// another.
	slow := stats(9*s, 30*s, 6*s, s, s).Sub(earlier)
	for _, c := range []struct {
		reading, ready int
		wait           time.Duration
		stages         []loader.Stage
		want           string
	}{
		{3, 0, 10 * s, slow.Stages, "decode"}, {3, 0, 0, slow.Stages, "device"}, {3, 1, 0, slow.Stages, "device"},
		{3, 2, 0, nil, "device"}, {3, 0, 0, nil, ""}, {0, 0, 0, nil, ""},
	} {
		slow.Reading, slow.Ready, slow.DeviceWait, slow.Stages = c.reading, c.ready, c.wait, c.stages
		if got := slow.Limit(10 * s); got != c.want {
			t.Errorf("%q, want %q, of %+v", got, c.want, slow)
		}
	}
}

// asking is a context that tells when somebody waits for its end.
type asking struct {
	context.Context
	waits func()
}

func (c asking) Done() <-chan struct{} {
	c.waits()
	return c.Context.Done()
}

// The wait for a batch counts whichever way it is asked for.
func TestDeviceWait(t *testing.T) {
	const long = 20 * time.Millisecond
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	for name, ask := range map[string]func(*loader.Loader, context.Context) error{
		"Next": func(ld *loader.Loader, ctx context.Context) error {
			b, err := ld.Next(ctx)
			if err == nil {
				err = b.Release()
			}
			return err
		},
		"Epoch": func(ld *loader.Loader, ctx context.Context) error {
			for b, err := range ld.Epoch(ctx) {
				if err == nil {
					err = b.Release()
				}
				return err
			}
			return nil
		},
		"All": func(ld *loader.Loader, ctx context.Context) error {
			for b, err := range ld.All(ctx) {
				if err == nil {
					err = b.Release()
				}
				return err
			}
			return nil
		},
	} {
		ds := table(2, dtype.U8, 3)
		asked := make(chan struct{})
		ds.before = func(i int) {
			if i == 0 {
				<-asked
				time.Sleep(long)
			}
		}
		ld := start(t, dev, ds, loader.Options{Batch: 2})
		ctx := asking{t.Context(), sync.OnceFunc(func() { close(asked) })}
		within(t, name, func() error { return ask(ld, ctx) })
		if wait := ld.Stats().DeviceWait; wait < long {
			t.Errorf("%s waited for %v at least, and %v are counted", name, long, wait)
		}
	}
}
