package monitor_test

import (
	"math"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/monitor"
)

// Two workers decode samples that take 3.2 seconds. Whoever looks every second sees
// that decoding is the limit, and about how many samples a second there are.
func TestRecentLoaders(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	const took, workers = 3.2, 2
	snapshot := func(second int) monitor.Snapshot {
		done := 0
		for w := range workers { // they did not begin together
			done += int((float64(second) + float64(w)*1.7) / took)
		}
		n := int64(done)
		return monitor.Snapshot{MeasuredAt: at.Add(time.Duration(second) * time.Second), Loader: []monitor.Loader{{
			Device: "host", Loaders: 1, Devices: 1, Workers: workers, Slabs: 4, Reading: 4, Samples: n, Batches: n,
			DeviceWaitSeconds: took * float64(n) / workers,
			Stages: []monitor.Stage{
				{Stage: "read", Where: "worker", Seconds: 0.1 * float64(n)}, {Stage: "decode", Where: "worker", Seconds: (took - 0.1) * float64(n)},
				{Stage: "idle", Where: "worker"}, {Stage: "transform", Where: "device", Seconds: 0.01 * float64(n)},
			},
		}}}
	}
	var recent monitor.RecentLoaders
	if list := recent.Add(snapshot(100)); len(list) != 0 {
		t.Errorf("before there is anything to compare with: %+v", list)
	}
	for second := 101; second < 160; second++ {
		list := recent.Add(snapshot(second))
		if len(list) != 1 {
			t.Fatalf("%+v", list)
		}
		l := list[0]
		if second < 112 { // there is not enough yet
			continue
		}
		if limit := l.Limit(l.Seconds); limit != "decode" {
			t.Errorf("after %d s the limit of %.0f s is %q: %+v", second, l.Seconds, limit, l)
		}
		if rate, want := float64(l.Samples)/l.Seconds, workers/took; math.Abs(rate-want) > 0.25*want || l.Seconds > 11 {
			t.Errorf("after %d s: %v samples/s in %v s, want %v", second, rate, l.Seconds, want)
		}
	}

	// Batches of 8 samples that take 1.3 s together: a second has one or none.
	batches := func(second int) monitor.Snapshot {
		n := int64(float64(second) / 1.3)
		return monitor.Snapshot{MeasuredAt: at.Add(time.Duration(second) * time.Second), Loader: []monitor.Loader{{
			Device: "host", Loaders: 1, Devices: 1, Workers: 1, Samples: 8 * n, Batches: n,
			Stages: []monitor.Stage{{Stage: "decode", Where: "worker", Seconds: 0.95 * float64(second)}},
		}}}
	}
	recent = monitor.RecentLoaders{}
	for second := range 30 {
		for _, l := range recent.Add(batches(second)) {
			if rate, want := float64(l.Samples)/l.Seconds, 8/1.3; second > 6 && (math.Abs(rate-want) > 0.34*want || l.Seconds > 7) {
				t.Errorf("after %d s: %v samples/s in %v s, want %v", second, rate, l.Seconds, want)
			}
		}
	}

	// Where samples are quick, the last second is enough.
	quick := func(second int) monitor.Snapshot {
		return monitor.Snapshot{MeasuredAt: at.Add(time.Duration(second) * time.Second), Loader: []monitor.Loader{{
			Device: "host", Loaders: 1, Devices: 1, Workers: 1, Samples: int64(100 * second), Batches: int64(10 * second),
			Stages: []monitor.Stage{{Stage: "read", Where: "worker", Seconds: 0.95 * float64(second)}},
		}}}
	}
	recent = monitor.RecentLoaders{}
	for second := range 30 {
		for _, l := range recent.Add(quick(second)) {
			if l.Seconds != 1 || l.Samples != 100 {
				t.Errorf("%+v", l)
			}
		}
	}
}

// A loader that came in place of another, with fewer workers, is not measured by what the
// other one did.
func TestRecentLoadersReplaced(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var recent monitor.RecentLoaders
	batches := int64(0)
	for second := range 10 {
		l := monitor.Loader{Device: "host", Loaders: 1, Devices: 1, Workers: 8, Stages: []monitor.Stage{{Stage: "decode", Where: "worker", Seconds: 8 * float64(min(second, 7))}}}
		if batches += 100; second >= 7 { // its first batches are slow
			l.Workers, batches = 1, batches-99
		}
		l.Batches = batches
		for _, l := range recent.Add(monitor.Snapshot{MeasuredAt: at.Add(time.Duration(second) * time.Second), Loader: []monitor.Loader{l}}) {
			if second > 7 && (l.Seconds > float64(second-7) || l.Batches > int64(second-7)) {
				t.Errorf("after %d s: %+v", second, l)
			}
		}
	}
}

// One that was opened lately is not measured by the time before.
func TestRecentLoadersOpened(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var recent monitor.RecentLoaders
	for second := range 10 {
		s := monitor.Snapshot{MeasuredAt: at.Add(time.Duration(second) * time.Second)}
		if second >= 7 {
			s.Loader = []monitor.Loader{{Device: "host", Loaders: 1, Devices: 1, Workers: 1, Samples: int64(second - 7)}} // stages of long samples
		}
		for _, l := range recent.Add(s) {
			if l.Seconds > 2 || l.Samples != int64(second-7) {
				t.Errorf("after %d s: %+v", second, l)
			}
		}
	}
}
