package linkmodel

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Point is one measurement of a path: the median time of a copy.
type Point struct {
	Bytes   int64   `json:"bytes"`
	Seconds float64 `json:"seconds"`
}

// Curve is what a path costs over the size of a copy: a line of the
// latency-bandwidth model, seconds = latency + bytes / rate, between any two
// neighbouring measurements. (One line for all sizes misses by tens of per
// cent in the middle, where caches and the number of chunks change the rate.)
type Curve []Point // in ascending order of Bytes

// check looks for what no measurement gives.
func (c Curve) check() error {
	var last int64
	for _, p := range c {
		if p.Bytes <= last || !(p.Seconds > 0) || math.IsInf(p.Seconds, 0) {
			return fmt.Errorf("%d bytes in %v s after %d bytes", p.Bytes, p.Seconds, last)
		}
		last = p.Bytes
	}
	return nil
}

// At returns the time that n bytes take. Outside the measured sizes the
// nearest line goes on. It is infinite for a curve without points.
func (c Curve) At(n int64) float64 {
	switch len(c) {
	case 0:
		return math.Inf(1)
	case 1:
		return c[0].Seconds * float64(max(n, c[0].Bytes)) / float64(c[0].Bytes)
	}
	i, _ := slices.BinarySearchFunc(c, n, func(p Point, n int64) int {
		switch {
		case p.Bytes < n:
			return -1
		case p.Bytes > n:
			return 1
		}
		return 0
	})
	i = min(max(i, 1), len(c)-1)
	a, b := c[i-1], c[i]
	slope := (b.Seconds - a.Seconds) / float64(b.Bytes-a.Bytes)
	switch {
	case n > b.Bytes: // more bytes never take less time, whatever the noise
		return b.Seconds + max(slope, 0)*float64(n-b.Bytes)
	case n < a.Bytes:
		slope = max(slope, 0)
	}
	return max(a.Seconds+slope*float64(n-a.Bytes), 0)
}

// Fit returns the latency and the rate, in bytes a second, of the one line
// that is nearest to all points, by least squares of the relative error. It is
// for people: choices use At.
func (c Curve) Fit() (latency time.Duration, bytesPerSecond float64) {
	// Minimise the sum of ((a + b x - y) / y)^2.
	var s, sx, sxx, sy, sxy float64
	for _, p := range c {
		x, w := float64(p.Bytes), 1/(p.Seconds*p.Seconds)
		s += w
		sx += w * x
		sxx += w * x * x
		sy += w * p.Seconds
		sxy += w * x * p.Seconds
	}
	det := s*sxx - sx*sx
	if len(c) < 2 || !(det > 0) { // not a number, if a point has no time
		return 0, 0
	}
	a, b := (sy*sxx-sx*sxy)/det, (s*sxy-sx*sy)/det
	if !(b > 0) {
		return 0, 0
	}
	return time.Duration(max(a, 0) * 1e9), 1 / b
}
