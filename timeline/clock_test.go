package timeline

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// skewed is a device whose clock is not the host's: it was started at another time,
// and runs faster or slower. Time passes only when something is done.
type skewed struct {
	device.Device
	rng   *rand.Rand
	now   int64   // nanoseconds of the host's clock
	drift float64 // parts of one
	step  int64   // the most that passes in a call
	moved int64   // what its clock shows at zero
}

func (d *skewed) pass()                                            { d.now += d.rng.Int64N(d.step) }
func (d *skewed) clock() int64                                     { return d.moved + d.now + int64(float64(d.now)*d.drift) }
func (d *skewed) NewStream() (device.Stream, error)                { return skewedStream{d: d}, nil }
func (d *skewed) NewEvent(device.EventFlags) (device.Event, error) { return &skewedEvent{d: d}, nil }

type skewedStream struct {
	device.Stream
	d *skewed
}

func (s skewedStream) Record(e device.Event) error {
	s.d.pass()
	e.(*skewedEvent).at = s.d.clock()
	s.d.pass()
	return nil
}

func (s skewedStream) Close() error { return nil }

type skewedEvent struct {
	device.Event
	d  *skewed
	at int64
}

func (e *skewedEvent) Synchronize() error { e.d.pass(); return nil }
func (e *skewedEvent) Close() error       { return nil }

// Since has the precision of CUDA's: a float32 of milliseconds.
func (e *skewedEvent) Since(start device.Event) (time.Duration, error) {
	ms := float32(float64(e.at-start.(*skewedEvent).at) / 1e6)
	return time.Duration(float64(ms) * 1e6), nil
}

// Times of a device whose clock is offset and drifts are right to within the error of
// the anchor and what the clocks part in the time until the next one, for hours.
func TestClockDrifts(t *testing.T) {
	for _, drift := range []float64{0, 50e-6, -50e-6, 200e-6} {
		d := &skewed{rng: rand.New(rand.NewPCG(1, 2)), drift: drift, step: 8000, moved: 1 << 50}
		c, err := newClock(d, func() int64 { return d.now })
		testkit.OK(t, err)
		var begin, end skewedEvent
		begin.d, end.d = d, d
		for hour := range 4 {
			d.now = int64(hour) * int64(time.Hour)
			for range 500 {
				a, err := c.make()
				testkit.OK(t, err)
				made := d.now
				if a.error > anchorTries*3*d.step {
					t.Fatalf("an anchor is known to within %d ns, where all takes %d at most", a.error, d.step)
				}
				for range 10 {
					d.now += d.rng.Int64N(int64(anchorEvery) / 10)
					from := d.now
					begin.at = d.clock()
					d.now += d.rng.Int64N(int64(anchorEvery) / 100)
					to := d.now
					end.at = d.clock()
					gotFrom, gotTo := passed(t, &begin, a), passed(t, &end, a)
					parted := drift * float64(to-made)
					if parted < 0 {
						parted = -parted
					}
					bound := a.error + int64(parted) + 100 // and rounding
					if off(gotFrom, from) > bound || off(gotTo, to) > bound {
						t.Fatalf("drift %v: from %d to %d is told as %d to %d, more than %d off", drift, from, to, gotFrom, gotTo, bound)
					}
				}
				c.reuse(a.event)
			}
		}
		if len(c.spare) > anchorTries {
			t.Errorf("%d events are spare", len(c.spare))
		}
	}
}

// An anchor that is known badly replaces only one that is older than that matters.
func TestWorse(t *testing.T) {
	old := &anchor{at: 1e9, error: 1000}
	for _, c := range []struct {
		a    anchor
		want bool
	}{
		{anchor{at: 1.25e9, error: 500}, false},
		{anchor{at: 1.25e9, error: 13_000}, false},
		{anchor{at: 1.25e9, error: 14_000}, true},
		{anchor{at: 2.25e9, error: 14_000}, false},
	} {
		if got := c.a.worse(old); got != c.want {
			t.Errorf("%+v is worse: %t", c.a, got)
		}
	}
}

// passed is when e was passed, by the host's clock.
func passed(t *testing.T, e device.Event, a *anchor) int64 {
	t.Helper()
	x := mark{event: e, of: &marks{}}
	at, err := x.time(a)
	testkit.OK(t, err)
	return at
}

func off(a, b int64) int64 { return max(a-b, b-a) }
