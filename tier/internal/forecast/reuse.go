package forecast

import "math"

// Reuse is what is remembered of the uses of one array. The zero value is an array
// that was never used.
//
// The estimate has two parts. Counts that halve with time (LRFU: Lee et al.,
// "LRFU: a spectrum of policies that subsumes the least recently used and least
// frequently used policies", 2001) give the rate of uses, and so the mean
// distance to the next. There are two, with a short memory and a long one: the long
// one knows popularity better, as long as that does not change. The one that counts is
// the one that predicted recent uses better (Herbster, Warmuth, "Tracking the best
// expert", 1998).
//
// An array whose uses come at even distances, as those of a loop do, is expected when
// it is due: then the one used last is the one needed last, which least recently used
// has exactly wrong. TestPolicies compares this with others.
type Reuse struct {
	last  int64             // the clock at the newest use
	uses  int64             // so far
	count [memories]float64 // of uses, halved every half-life, at last
	mean  float64           // distance between uses, smoothed
	off   float64           // how far distances are from the mean, smoothed
}

// Clock is the bytes used so far, how fast the past is forgotten, and how well that
// predicts.
type Clock struct {
	Now      int64
	HalfLife int64 // bytes, some times the working set; of the short memory

	likelihood [memories]float64 // of recent uses, as a logarithm
	noted      int64             // Now when that changed last
}

const memories = 2

// lengths are the half-lives of the memories, in HalfLife.
var lengths = [memories]float64{1, 16}

// halfLife is that of a memory.
func (c *Clock) halfLife(memory int) float64 { return lengths[memory] * float64(max(c.HalfLife, 1)) }

// note compares what the memories expected of an array that is used now.
func (c *Clock) note(r *Reuse) {
	keep := math.Exp2(-float64(c.Now-c.noted) / c.halfLife(0))
	for i := range c.likelihood {
		// Uses that come at random have exponentially distributed distances.
		rate := r.rate(c, i, r.last)
		c.likelihood[i] = keep*c.likelihood[i] + math.Log(rate) - rate*float64(c.Now-r.last)
	}
	c.noted = c.Now
}

// best is the memory that predicted better.
func (c *Clock) best() int {
	if c.likelihood[1] > c.likelihood[0] {
		return 1
	}
	return 0
}

const (
	smoothing = 0.25 // weight of the newest distance
	even      = 0.25 // most of off/mean in uses that come evenly
)

// Use notes a use.
func (r *Reuse) Use(c *Clock) {
	distance := float64(c.Now - r.last)
	switch {
	case r.uses == 1:
		r.mean, r.off = distance, distance/3
	case r.uses > 1:
		r.off += smoothing * (math.Abs(distance-r.mean) - r.off)
		r.mean += smoothing * (distance - r.mean)
	}
	if r.uses > 0 {
		c.note(r)
	}
	for i := range r.count {
		r.count[i] = 1 + r.count[i]*math.Exp2(-distance/c.halfLife(i))
	}
	r.uses++
	r.last = c.Now
}

// Last is the clock at the newest use.
func (r *Reuse) Last() int64 { return r.last }

// Next is the expected distance to the next use: +Inf for an array that was never
// used.
func (r *Reuse) Next(c *Clock) float64 {
	if r.uses == 0 {
		return math.Inf(1)
	}
	age := float64(c.Now - r.last)
	if r.uses > 2 && r.off < even*r.mean && age < r.mean+2*r.off {
		return max(r.mean-age, 1)
	}
	return 1 / r.rate(c, c.best(), c.Now)
}

// rate is the uses for each byte of all, at a time since the newest use, by a memory.
func (r *Reuse) rate(c *Clock, memory int, now int64) float64 {
	h := c.halfLife(memory)
	seen := h / math.Ln2 * -math.Expm1(-float64(max(now, 1))/h*math.Ln2) // bytes, the older the less
	return r.count[memory] * math.Exp2(-float64(now-r.last)/h) / seen
}
