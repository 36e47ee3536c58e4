package tune

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/pinion-gpu/pinion/device"
)

// Probe runs one step with a batch of n samples and returns the most device
// memory, in bytes, that was in use. [ProbePool] and [ProbeDevice] make one of
// a step. A step that fails with [device.ErrOutOfMemory] is an answer too; it
// must give back what it took.
type Probe func(ctx context.Context, n int) (bytes int64, err error)

// BatchOptions tune [BatchSize]. The zero value works.
type BatchOptions struct {
	// Share is how much of the device's memory may be in use. Default: 0.8.
	Share float64

	// Max is the largest batch to look at. Default: 1 << 20.
	Max int

	// Multiple is what a batch is a multiple of. Default: 1.
	Multiple int
}

// BatchResult is what [BatchSize] found.
type BatchResult struct {
	Batch       int          `json:"batch"`
	Bytes       int64        `json:"bytes"`        // in use with it, as measured
	LimitBytes  int64        `json:"limit_bytes"`  // what may be in use
	FixedBytes  float64      `json:"fixed_bytes"`  // a of a + b·n, around the result
	SampleBytes float64      `json:"sample_bytes"` // b
	Probes      []BatchProbe `json:"probes"`       // in the order in which they were run
}

// BatchProbe is one probe.
type BatchProbe struct {
	Batch int   `json:"batch"`
	Bytes int64 `json:"bytes"` // 0 where it ran out of memory
	Fits  bool  `json:"fits"`
}

// BatchSize finds the largest batch with which a step takes no more than a
// share of the device's memory. It fits memory = a + b·n to the two largest
// batches that fitted, probes where that reaches the limit, and fits anew, so
// that memory which grows faster than the batch is found too; where that does
// not get on, it bisects. Memory must not shrink as the batch grows. A probe
// that runs out of memory is an upper bound; any other error ends the search.
// It fails with [ErrDoesNotFit] when not even the smallest batch fits.
func BatchSize(ctx context.Context, dev device.Device, probe Probe, o BatchOptions) (*BatchResult, error) {
	if dev == nil || probe == nil {
		return nil, fmt.Errorf("tune: %w: no device or no probe", device.ErrArgument)
	}
	if o.Share == 0 {
		o.Share = 0.8
	}
	if o.Max == 0 {
		o.Max = 1 << 20
	}
	if o.Multiple == 0 {
		o.Multiple = 1
	}
	if !(o.Share > 0 && o.Share <= 1) || o.Multiple < 1 || o.Max < o.Multiple {
		return nil, fmt.Errorf("tune: %w: a share of %v, batches up to %d that are multiples of %d", device.ErrArgument, o.Share, o.Max, o.Multiple)
	}
	memory, err := dev.Memory()
	if err != nil {
		return nil, err
	}
	const most = math.MaxInt / 16 // so that eight times a size is a number
	s := &sizing{
		probe: probe, unit: o.Multiple, high: min(o.Max/o.Multiple, most) + 1,
		result: &BatchResult{LimitBytes: int64(o.Share * float64(memory.TotalBytes))},
	}
	for s.high-s.low > 1 {
		if err := s.try(ctx, s.next()); err != nil {
			return nil, err
		}
	}
	if s.low == 0 {
		last := s.result.Probes[len(s.result.Probes)-1]
		return nil, fmt.Errorf("tune: a batch of %d: %w", o.Multiple,
			&DoesNotFitError{What: "device memory", AskedBytes: last.Bytes, FreeBytes: s.result.LimitBytes, Cause: s.cause})
	}
	return s.done(), nil
}

// sizing is one run of [BatchSize]. It counts batches in units.
type sizing struct {
	probe     Probe
	unit      int
	low, high int     // the largest that fits, or 0, and the smallest that does not, or one beyond the last
	fits      []point // that fitted, growing
	bounded   bool    // something did not fit
	exhausted bool    // high ran out of memory
	slow      int     // probes since then that did not halve the interval, in a row
	cause     error   // of the last that ran out of memory
	result    *BatchResult
}

type point struct {
	n     int
	bytes float64
}

// next is what to probe: strictly between low and high.
func (s *sizing) next() int {
	switch {
	case len(s.fits) == 0:
		return 1
	case len(s.fits) == 1:
		return min(2*s.low, s.high-1)
	}
	n := 8 * s.low // no line is trusted further
	if _, b := s.line(); b > 0 {
		room := (float64(s.result.LimitBytes) - s.fits[len(s.fits)-1].bytes) / b
		n = s.low + int(math.Min(room, float64(7*s.low)))
	}
	// A line that is always short of the limit, or beyond it, or that leads
	// beyond what ran out of memory: then something else is the limit.
	if s.slow >= 2 || s.exhausted && n >= s.high {
		n = s.low + (s.high-s.low)/2
	}
	return min(max(n, s.low+1), s.high-1)
}

// line is a + b·n through the two largest that fitted.
func (s *sizing) line() (a, b float64) {
	q := s.fits[len(s.fits)-1]
	if len(s.fits) < 2 {
		return 0, q.bytes / float64(q.n)
	}
	p := s.fits[len(s.fits)-2]
	b = (q.bytes - p.bytes) / float64(q.n-p.n)
	return q.bytes - b*float64(q.n), b
}

// try probes n units and narrows the interval.
func (s *sizing) try(ctx context.Context, n int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	batch := n * s.unit
	bytes, err := s.probe(ctx, batch)
	if errors.Is(err, device.ErrOutOfMemory) {
		bytes, s.cause = 0, err
	} else if err != nil {
		return fmt.Errorf("tune: a batch of %d: %w", batch, err)
	}
	fits := err == nil && bytes <= s.result.LimitBytes
	s.result.Probes = append(s.result.Probes, BatchProbe{batch, bytes, fits})
	before := s.high - s.low
	if fits {
		s.low = n
		s.fits = append(s.fits, point{n, float64(bytes)})
		s.result.Bytes = bytes
	} else {
		s.high, s.bounded, s.exhausted = n, true, err != nil
	}
	if s.slow++; !s.bounded || 2*(s.high-s.low) <= before {
		s.slow = 0
	}
	return nil
}

// done is the result of the largest that fitted.
func (s *sizing) done() *BatchResult {
	a, b := s.line()
	s.result.Batch = s.low * s.unit
	s.result.FixedBytes, s.result.SampleBytes = a, b/float64(s.unit)
	return s.result
}
