package monitor

import (
	"slices"
	"time"
)

// RecentLoaders follows the loaders of one process through its snapshots, and tells
// what they did lately. A stage's time is counted when it ends, and samples when their
// batch is delivered: where a batch takes a second, half a second of a snapshot's counts
// says nothing of how many there are, nor of what the workers do. So where the workers'
// time is not accounted for since the snapshot before, or a few batches were not
// delivered, it is told since an earlier one. The zero value is ready; it is for one
// goroutine at a time.
type RecentLoaders struct {
	past []Snapshot // by time; of each only the loaders
}

// RecentLoader is what the loaders of a device did during some time.
type RecentLoader struct {
	Loader          // counts are those of Seconds
	Seconds float64 // from the time between two snapshots up to about 10
}

const (
	recentTime  = 10 * time.Second
	recentMost  = 128  // snapshots
	unaccounted = 0.25 // of the workers' time, or as much too much
	fewBatches  = 4    // one more or less is as much of them
)

// Add adds a snapshot, later than those before, and returns what each device's loaders
// did lately: nothing at the first.
func (r *RecentLoaders) Add(s Snapshot) (list []RecentLoader) {
	now := Snapshot{MeasuredAt: s.MeasuredAt, Loader: s.Loader}
	for len(r.past) > 0 && (now.MeasuredAt.Sub(r.past[0].MeasuredAt) > recentTime && len(r.past) > 1 || len(r.past) == recentMost) {
		r.past = r.past[1:]
	}
	for _, x := range s.Loader {
		var found *RecentLoader
		for i := len(r.past) - 1; i >= 0; i-- {
			d := now.Since(r.past[i])
			if d.Seconds <= 0 {
				continue
			}
			if found != nil && !same(r.past[i].Loader, x) {
				break // it was not open yet
			}
			for _, l := range d.Loader {
				if l.Device == x.Device {
					found = &RecentLoader{l, d.Seconds}
				}
			}
			if found == nil || found.Batches >= fewBatches && found.accounted() {
				break
			}
		}
		if found != nil {
			list = append(list, *found)
		}
	}
	r.past = append(r.past, now)
	return list
}

// same reports whether list has the loaders of x, as far as their workers tell.
func same(list []Loader, x Loader) bool {
	return slices.ContainsFunc(list, func(l Loader) bool { return l.Device == x.Device && l.Loaders > 0 && l.Workers == x.Workers })
}

// accounted reports whether the counts have the time of the workers, about.
func (l *RecentLoader) accounted() bool {
	if l.Workers == 0 {
		return true
	}
	total := 0.0
	for _, g := range l.Stages {
		if g.Where == "worker" {
			total += g.Seconds
		}
	}
	part := total / (l.Seconds * float64(l.Workers))
	return part > 1-unaccounted && part < 1+unaccounted
}
