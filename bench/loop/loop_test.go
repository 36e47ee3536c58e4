package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/bench/internal/harness"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/measure"
)

// measured runs the quick measurement on the host backend.
func measured(t *testing.T, only string) *document {
	t.Helper()
	var out bytes.Buffer
	if err := run(context.Background(), harness.Options{Device: "host", Quick: true, Only: only}, &out); err != nil {
		t.Fatal(err)
	}
	d := new(document)
	if err := json.Unmarshal(out.Bytes(), d); err != nil {
		t.Fatal(err)
	}
	return d
}

// TestQuick: the document is what readers of it expect, and every way has its
// rows.
func TestQuick(t *testing.T) {
	d := measured(t, "")
	have := map[string]bool{}
	for _, s := range d.NotAvailable {
		t.Logf("skipped: %s by %s: %s", s.Name, s.By, s.Reason)
		have[s.Name+" by "+s.By] = true
	}
	for _, r := range d.Rows {
		key := r.Name + " by " + r.By
		if have[key] {
			t.Errorf("two rows %q", key)
		}
		have[key] = true
		if r.Value < r.Min || r.Value > r.Max || r.Value < 0 || r.Value == 0 && r.Unit != "allocs" {
			t.Errorf("%+v", r)
		}
		if compared := strings.HasPrefix(r.Name, "loop") && r.By != byBuffer; compared != (r.Slower != nil) {
			t.Errorf("%+v: slower %v", r, r.Slower)
		}
	}
	for _, want := range []struct {
		name string
		by   []string
	}{
		{"loop of 6: 400 kB", []string{byBuffer, byDriver, byAsync, byKept, byPinion}},
		{"loop of 6: 400 kB, waited for each time", []string{byBuffer, byDriver, byAsync, byKept, byPinion}},
		{"loop of 6: 200 kB to 400 kB", []string{byBuffer, byDriver, byAsync, byKept, byPinion}},
		{"loop of 6: 5 tensors of 1 KiB to 64 KiB", []string{byBuffer, byDriver, byAsync, byKept, byPinion}},
		{"alloc and free 4 KiB", []string{byDriver, byKept, byPinion}},
		{"alloc and free 64 KiB, 8 goroutines, one stream", []string{byKept, byPinion}},
		{"alloc and free 4 KiB, 8 goroutines, a stream each", []string{byKept, byPinion}},
		{"alloc and free 4 KiB: allocations", []string{byKept, byPinion}},
		{"alloc and free 1 KiB to 2 KiB beside 512 holes of 512 B", []string{byPinion}},
		{"alloc and free 1 KiB to 2 KiB beside 512 holes of 512 B, 1,000 at a time", []string{byPinion}},
		{"first alloc of 4 MiB", []string{byDriver, byAsync, byPinion}},
	} {
		for _, by := range want.by {
			if !have[want.name+" by "+by] {
				t.Errorf("no row %q by %s", want.name, by)
			}
		}
	}
	if d.Peer != "Pinion" || d.What != "hold" || d.DeviceName == "" || d.Commit == "" {
		t.Errorf("%+v", d)
	}
}

// TestOnly: groups can be measured apart.
func TestOnly(t *testing.T) {
	d := measured(t, "fi")
	if len(d.Rows) == 0 || len(d.Rows)+len(d.NotAvailable) != 3 {
		t.Errorf("%+v, skipped %+v", d.Rows, d.NotAvailable)
	}
	var out bytes.Buffer
	err := run(context.Background(), harness.Options{Device: "host", Quick: true, Only: "loops!"}, &out)
	if err == nil || !strings.Contains(err.Error(), "loops, calls, holes, first") {
		t.Errorf("%v, want one that names the groups", err)
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var out bytes.Buffer
	if err := run(ctx, harness.Options{Device: "host", Quick: true}, &out); !errors.Is(err, context.Canceled) || out.Len() > 0 {
		t.Errorf("%v, printed %q", err, &out)
	}
}

// TestFullNames: the rows of a whole run have the names that the peers' have.
func TestFullNames(t *testing.T) {
	b := &bench{sizes: fullSizes}
	var got []string
	for _, l := range b.patterns() {
		got = append(got, l.name)
		for _, iteration := range l.sizes {
			for _, n := range iteration {
				if n < b.smallest || n > b.tensor || len(iteration) > 1 && n > b.largest {
					t.Fatalf("%s: %d bytes", l.name, n)
				}
			}
		}
		if len(l.sizes) != 100 {
			t.Errorf("%s: %d iterations", l.name, len(l.sizes))
		}
	}
	want := "loop of 100: 400 MB; loop of 100: 400 MB, waited for each time; loop of 100: 200 MB to 400 MB; " +
		"loop of 100: 50 tensors of 1 KiB to 4 MiB"
	if names := strings.Join(got, "; "); names != want {
		t.Errorf("%s, want %s", names, want)
	}
}

// hostMemory is memory of the host backend, until the test ends.
func hostMemory(t *testing.T) (device.Device, *harness.Memory) {
	t.Helper()
	dev, err := device.Open("host")
	if err != nil {
		t.Fatal(err)
	}
	m, err := harness.NewMemory(dev)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		m.Close()
		dev.Close()
	})
	return dev, m
}

// TestUnsoundMemory: ways whose blocks overlap are found out, by both checks.
func TestUnsoundMemory(t *testing.T) {
	_, m := hostMemory(t)
	arena, err := m.Alloc(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	const size = 1000
	l := &loop{name: "test", sizes: [][]int64{{size, size}, {size, size}}}
	for _, c := range []struct {
		stride int64 // from one slot to the next
		sound  bool
	}{{size, true}, {size - 1, false}, {0, false}} {
		w := &way{
			by:     "test",
			stream: m.Stream,
			alloc:  func(slot int, n int64) (lease, error) { return lease{ptr: arena.Add(int64(slot) * c.stride)}, nil },
			free:   func(lease) error { return nil },
		}
		if err := distinct([]*way{w}, []int64{size, size}); (err == nil) != c.sound {
			t.Errorf("slots every %d bytes: distinct says %v", c.stride, err)
		}
		if err := l.check(m, w); (err == nil) != c.sound {
			t.Errorf("slots every %d bytes: the loop says %v", c.stride, err)
		}
		// Two ways that give the same memory.
		if err := distinct([]*way{w, w}, []int64{size}); err == nil {
			t.Errorf("slots every %d bytes, two ways: no error", c.stride)
		}
	}
}

// TestLoopFrees: after an error in the middle of an iteration everything is
// freed once.
func TestLoopFrees(t *testing.T) {
	dev, m := hostMemory(t)
	l := &loop{sizes: [][]int64{{64, 64}, {64, 64}}}
	short := errors.New("short")
	for fails := range 5 {
		live, calls := map[device.Ptr]bool{}, 0
		w := &way{
			stream: m.Stream,
			alloc: func(_ int, n int64) (lease, error) {
				if calls++; calls > fails {
					return lease{}, short
				}
				p, err := dev.Alloc(n)
				live[p] = true
				return lease{ptr: p}, err
			},
			free: func(l lease) error {
				delete(live, l.ptr)
				return dev.Free(l.ptr)
			},
		}
		err := l.run(w, func(int, []lease) error { return nil })
		if (fails == 4) != (err == nil) || err != nil && err.Error() != short.Error() || len(live) > 0 {
			t.Errorf("%d allocations: %v, %d are live", fails, err, len(live))
		}
	}
}

func TestFilled(t *testing.T) {
	b := bytes.Repeat([]byte{7}, 20)
	if err := filled(b, 7); err != nil {
		t.Error(err)
	}
	b[19] = 8
	if err := filled(b, 7); err == nil || !strings.Contains(err.Error(), "byte 19 of 20 is 0x8 and not 0x7") {
		t.Error(err)
	}
}

func TestSlower(t *testing.T) {
	reference := &sample{Sample: measure.Sample{Runs: []float64{10, 20, 100}}}
	s := &sample{Sample: measure.Sample{Runs: []float64{11, 19, 150}}, against: reference}
	if got := s.slower(); got == nil || *got < 0.0999 || *got > 0.1001 {
		t.Errorf("%v, want the median of 0.1, -0.05 and 0.5", got)
	}
	reference.Runs = nil // preallocated memory was not to be had
	if got := s.slower(); got != nil {
		t.Errorf("%v without a reference", *got)
	}
}
