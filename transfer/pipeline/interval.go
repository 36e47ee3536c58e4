package pipeline

import (
	"cmp"
	"slices"
	"time"
)

// Interval is a stretch of time, counted from the start of a run.
type Interval struct {
	Start, End time.Duration
}

// Length is End - Start.
func (i Interval) Length() time.Duration { return i.End - i.Start }

// merged returns the time that any of the intervals covers, as intervals in
// order that neither touch nor overlap.
func merged(intervals []Interval) []Interval {
	sorted := slices.Clone(intervals)
	slices.SortFunc(sorted, func(a, b Interval) int { return cmp.Compare(a.Start, b.Start) })
	var out []Interval
	for _, i := range sorted {
		switch last := len(out) - 1; {
		case i.Length() <= 0:
		case last >= 0 && i.Start <= out[last].End:
			out[last].End = max(out[last].End, i.End)
		default:
			out = append(out, i)
		}
	}
	return out
}

// common returns the length of the time that both a and b cover, each merged.
func common(a, b []Interval) time.Duration {
	var sum time.Duration
	for len(a) > 0 && len(b) > 0 {
		sum += max(min(a[0].End, b[0].End)-max(a[0].Start, b[0].Start), 0)
		if a[0].End < b[0].End {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return sum
}

// length returns the length of merged intervals.
func length(intervals []Interval) time.Duration {
	var sum time.Duration
	for _, i := range intervals {
		sum += i.Length()
	}
	return sum
}

// makespan is the time in which jobs pass through stages, each of which works
// on one job at a time, in order: the completion time of a permutation flow
// shop with room for any number of jobs between the stages.
type makespan struct {
	free [3]time.Duration // when each stage is done with all jobs so far
}

// add appends a job that takes so long in each stage.
func (m *makespan) add(job [3]time.Duration) {
	var ready time.Duration
	for stage, d := range job {
		ready = max(ready, m.free[stage]) + d
		m.free[stage] = ready
	}
}

// total is when the last stage is done.
func (m *makespan) total() time.Duration { return m.free[len(m.free)-1] }
