package forecast

import "math"

// Reuse is what is remembered of the uses of one array. The zero value is an array
// that was never used.
//
// The estimate has two parts. A count that halves with time (LRFU: Lee et al.,
// "LRFU: a spectrum of policies that subsumes the least recently used and least
// frequently used policies", 2001) gives the rate of uses, and so the mean
// distance to the next. An array whose uses come at even distances, as those of a
// loop do, is expected when it is due: then the one used last is the one needed
// last, which least recently used has exactly wrong. TestPolicies compares this
// with others.
type Reuse struct {
	last  int64   // the clock at the newest use
	uses  int64   // so far
	count float64 // of uses, halved every half-life, at last
	mean  float64 // distance between uses, smoothed
	off   float64 // how far distances are from the mean, smoothed
}

// Clock is the bytes used so far, and how fast the past is forgotten.
type Clock struct {
	Now      int64
	HalfLife int64 // bytes; some times the working set
}

const (
	smoothing = 0.25 // weight of the newest distance
	even      = 0.25 // most of off/mean in uses that come evenly
)

// Use notes a use.
func (r *Reuse) Use(c Clock) {
	switch distance := float64(c.Now - r.last); {
	case r.uses == 1:
		r.mean, r.off = distance, distance/3
	case r.uses > 1:
		r.off += smoothing * (math.Abs(distance-r.mean) - r.off)
		r.mean += smoothing * (distance - r.mean)
	}
	r.count = 1 + r.decayed(c)
	r.uses++
	r.last = c.Now
}

// Last is the clock at the newest use.
func (r *Reuse) Last() int64 { return r.last }

// Next is the expected distance to the next use: +Inf for an array that was never
// used.
func (r *Reuse) Next(c Clock) float64 {
	if r.uses == 0 {
		return math.Inf(1)
	}
	age := float64(c.Now - r.last)
	if r.uses > 2 && r.off < even*r.mean && age < r.mean+2*r.off {
		return max(r.mean-age, 1)
	}
	return float64(c.HalfLife) / math.Ln2 / r.decayed(c)
}

func (r *Reuse) decayed(c Clock) float64 {
	return r.count * math.Exp2(-float64(c.Now-r.last)/float64(max(c.HalfLife, 1)))
}
