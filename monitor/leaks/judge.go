package leaks

import "math"

// cohorts are the items of a site by the generation in which they came: how many of
// them are still there, and how many old ones went in each.
type cohorts struct {
	left   []int
	deaths []int
}

// leak reports whether a site leaks. Its items are judged by their age, as profilers
// of heaps count surviving generations: what is in a queue, a sawtooth or a cache
// that is full came lately or long ago, and what leaks came all the time. What came
// or went in the first quarter, which may be a warm-up, does not count. Then
//
//   - every generation has left something,
//   - more has come than old items went, by more than chance: a pool that is used at
//     random has as many of both,
//   - and it goes on: in the last quarter at two thirds of the rate at least, which a
//     cache that is nearly full does not reach.
func (c cohorts) leak() bool {
	n := len(c.left)
	if n < fewest {
		return false
	}
	first, last := warmup(n), n-n/4
	var left, deaths, lately float64
	for g := first; g < n; g++ {
		if c.left[g] == 0 {
			return false
		}
		left += float64(c.left[g])
		deaths += float64(c.deaths[g])
		if g >= last {
			lately += float64(c.left[g] - c.deaths[g])
		}
	}
	grown := left - deaths
	return grown >= 3*math.Sqrt(left+deaths) && lately/float64(n-last) >= grown/float64(n-first)*2/3
}

// warmup is how many of n generations count as warm-up.
func warmup(n int) int { return n / 4 }
