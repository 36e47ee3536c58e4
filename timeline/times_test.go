package timeline

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// queueDevice notes what is queued: copies, waits, and events by what they are.
type queueDevice struct {
	device.Wrapper
	queued []string
}

func (d *queueDevice) NewStream() (device.Stream, error) {
	s, err := d.Device.NewStream()
	return &queueStream{device.StreamWrapper{Stream: s}, d}, err
}

func (d *queueDevice) NewEvent(flags device.EventFlags) (device.Event, error) {
	e, err := d.Device.NewEvent(flags)
	name := "mark"
	switch flags {
	case device.EventBlockingSync:
		name = "timed"
	case device.EventNoTiming:
		name = "plain"
	}
	return &queueEvent{device.EventWrapper{Event: e}, name}, err
}

type queueEvent struct {
	device.EventWrapper
	name string
}

type queueStream struct {
	device.StreamWrapper
	d *queueDevice
}

func (s *queueStream) note(what string) { s.d.queued = append(s.d.queued, what) }

func (s *queueStream) Record(e device.Event) error {
	own, _ := device.AsEvent[*queueEvent](e)
	s.note(own.name)
	return s.Stream.Record(e)
}

func (s *queueStream) Wait(e device.Event) error {
	s.note("wait")
	return s.Stream.Wait(e)
}

func (s *queueStream) Memset(p device.Ptr, value byte, n int64) error {
	if err := s.Stream.Memset(p, value, n); err != nil {
		return err
	}
	s.note("work")
	return nil
}

// What a recording queues beside what the program does: a mark behind each piece of
// work, and one ahead of work that waits for what has no time, but none where the
// program's own will do.
func TestQueued(t *testing.T) {
	r := start(t, Options{Every: time.Hour})
	d := &queueDevice{Wrapper: device.Wrapper{Device: devicetest.Open(t)}}
	dev := wrapApart(t, r, d)
	s := testkit.Must(dev.NewStream())(t)
	p := testkit.Must(dev.Alloc(256))(t)
	var timed [4]device.Event
	for i := range timed {
		timed[i] = testkit.Must(dev.NewEvent(device.EventBlockingSync))(t)
		testkit.OK(t, s.Record(timed[i]))
	}
	plain := testkit.Must(dev.NewEvent(device.EventNoTiming))(t)
	a, b, c := timed[0], timed[1], timed[2]
	work := func() error { return s.Memset(p, 1, 256) }
	fails := func() error {
		if s.Memset(p, 1, -1) == nil {
			t.Error("-1 bytes were set")
		}
		return nil
	}
	record := func(e device.Event) func() error { return func() error { return s.Record(e) } }
	wait := func(e device.Event) func() error { return func() error { return s.Wait(e) } }
	all := func(steps ...func() error) func() error {
		return func() error {
			for _, step := range steps {
				if err := step(); err != nil {
					return err
				}
			}
			return nil
		}
	}
	around := func(begin, end device.Event, steps ...func() error) func() error {
		return func() error { return device.Timed(s, begin, end, all(steps...)) }
	}
	failing := fmt.Errorf("made up")
	fail := func() error { return failing }
	for _, x := range []struct {
		do   func() error
		want string
	}{
		{all(work, work), "work mark work mark"},
		{all(record(a), work, record(b)), "timed work mark timed"},
		{all(wait(plain), work, work), "wait mark work mark work mark"},
		{all(wait(a), work), "wait work mark"},
		{all(wait(a), wait(b), work), "wait wait work mark"},
		{all(wait(a), wait(b), wait(c), work), "wait wait wait mark work mark"},
		{all(wait(plain), record(a), work), "wait timed work mark"},
		{all(wait(plain), record(plain), work), "wait plain mark work mark"},
		{all(wait(plain), fails, work), "wait mark work mark"},
		{around(nil, a, work), "work timed"},
		{around(a, b, work), "timed work timed"},
		{around(a, b, work, work), "timed work mark work timed"},
		{around(a, b, work, wait(c), work), "timed work mark wait work timed"},
		{around(a, b, work, record(c), work), "timed work timed work timed"},
		{around(a, b, work, record(plain)), "timed work mark plain timed"},
		{around(a, b, work, s.Synchronize), "timed work mark timed"},
		{around(a, plain, work), "timed work mark plain"},
		{around(plain, a, work), "plain work timed"},
		{around(a, b), "timed timed"},
		{around(a, b, around(nil, c, work), work), "timed work timed work timed"},
		{all(around(a, b, work), work), "timed work timed work mark"},
		{all(wait(plain), around(a, b, work)), "wait timed work timed"},
		{all(wait(plain), around(nil, b, work)), "wait mark work timed"},
		{around(a, b, work, fail), "timed work mark"},
	} {
		d.queued = nil
		if err := x.do(); err != nil && err != failing {
			t.Fatal(err)
		}
		testkit.OK(t, s.Synchronize())
		got := strings.Join(d.queued, " ")
		// What failed on the way has a mark ahead of it that lies where the next one would.
		if got != x.want {
			t.Errorf("%q, want %q", got, x.want)
		}
	}
	r.Stop()
	d.queued = nil
	testkit.OK(t, all(wait(plain), work, around(a, b, work))())
	if got, want := strings.Join(d.queued, " "), "wait work timed work timed"; got != want {
		t.Errorf("after the end: %q, want %q", got, want)
	}
	for _, e := range append(timed[:], plain) {
		testkit.OK(t, e.Close())
	}
	testkit.OK(t, s.Close())
	testkit.OK(t, dev.Free(p))
	if r.Untimed() > 0 {
		t.Errorf("%d are untimed", r.Untimed())
	}
}

// Whatever a program queues in whatever order, work lies where it ran: its own clock
// readings are inside, what it waited for is before, and what follows is behind.
func TestTimesRandom(t *testing.T) {
	for seed := range uint64(4) {
		r := start(t, Options{Every: time.Millisecond})
		dev := open(t, r)
		caller, ok := device.As[device.Caller](dev)
		if !ok {
			t.Skip("a kernel cannot read the host's clock")
		}
		rng := rand.New(rand.NewPCG(seed, 5))
		type work struct {
			stream, number int
			from, to       time.Duration // inside
			after          []*work       // that it waited for
		}
		type lane struct {
			device.Stream
			works []*work
			waits []*work
		}
		type mark struct {
			device.Event
			behind *work
		}
		lanes := make([]*lane, 3)
		for i := range lanes {
			lanes[i] = &lane{Stream: testkit.Must(dev.NewStream())(t)}
			device.Label(lanes[i].Stream, fmt.Sprintf("lane %d", i))
		}
		marks := make([]*mark, 6)
		flags := []device.EventFlags{0, device.EventBlockingSync, device.EventNoTiming}
		for i := range marks {
			marks[i] = &mark{Event: testkit.Must(dev.NewEvent(flags[i%3]))(t)}
		}
		queue := func(i int) error {
			l := lanes[i]
			w := &work{stream: i, number: len(l.works), after: l.waits}
			l.works, l.waits = append(l.works, w), nil
			spin := time.Duration(rng.IntN(30)) * time.Microsecond
			return caller.Call(l.Stream, func() error {
				w.from = r.Now()
				for r.Now()-w.from < spin {
				}
				w.to = r.Now()
				return nil
			})
		}
		recorded := func(i int, m *mark) {
			m.behind = nil
			if n := len(lanes[i].works); n > 0 {
				m.behind = lanes[i].works[n-1]
			}
		}
		wait := func(i int, m *mark) error {
			if m.behind != nil {
				lanes[i].waits = append(lanes[i].waits, m.behind)
			}
			return lanes[i].Wait(m.Event)
		}
		for range 600 {
			i, m := rng.IntN(len(lanes)), marks[rng.IntN(len(marks))]
			switch rng.IntN(8) {
			case 0, 1, 2:
				testkit.OK(t, queue(i))
			case 3:
				testkit.OK(t, lanes[i].Record(m.Event))
				recorded(i, m)
			case 4:
				testkit.OK(t, wait(i, m))
			case 5:
				var begin device.Event
				if rng.IntN(2) == 0 {
					begin = marks[0].Event
					recorded(i, marks[0])
				}
				testkit.OK(t, device.Timed(lanes[i].Stream, begin, m.Event, func() error {
					for range rng.IntN(4) {
						if err := queue(i); err != nil {
							return err
						}
						if other := marks[1+rng.IntN(len(marks)-1)]; other != m && rng.IntN(3) == 0 {
							if err := wait(i, other); err != nil {
								return err
							}
						}
					}
					return nil
				}))
				recorded(i, m)
			case 6:
				if rng.IntN(8) == 0 {
					testkit.OK(t, lanes[i].Synchronize())
				}
			case 7: // another in its place, while its time may still be to be read
				testkit.OK(t, m.Event.Close())
				if _, err := m.Event.Done(); err == nil {
					t.Error("a closed event can be asked")
				}
				k := 0
				for marks[k] != m {
					k++
				}
				*m = mark{Event: testkit.Must(dev.NewEvent(flags[k%3]))(t)}
			}
		}
		testkit.OK(t, dev.Synchronize())
		for _, l := range lanes {
			testkit.OK(t, l.Close())
		}
		r.Stop()
		if r.Untimed() > 0 || r.Dropped() > 0 {
			t.Errorf("%d untimed, %d dropped", r.Untimed(), r.Dropped())
		}
		spans := map[string][]Span{}
		for _, x := range r.Spans(0, 1<<20) {
			if x.Engine == Compute {
				spans[x.Row] = append(spans[x.Row], x)
			}
		}
		bound := seconds(r.view().errors[dev.Info().ID] + 1) // and rounding
		for i, l := range lanes {
			list := spans[fmt.Sprintf("lane %d", i)]
			if len(list) != len(l.works) {
				t.Fatalf("%d pieces of work on lane %d, want %d", len(list), i, len(l.works))
			}
			for k, w := range l.works {
				x := list[k]
				if w.from.Seconds() < x.StartSeconds-bound || w.to.Seconds() > x.EndSeconds+bound {
					t.Errorf("seed %d, lane %d: %d ran from %v to %v, and is told to have run from %v to %v", seed, i, k, w.from, w.to, x.StartSeconds, x.EndSeconds)
				}
				for _, a := range w.after {
					if x.StartSeconds < a.to.Seconds()-bound {
						t.Errorf("seed %d, lane %d: %d begins at %v, and waited for work that ended at %v", seed, i, k, x.StartSeconds, a.to)
					}
				}
				if k+1 < len(list) && (x.EndSeconds > list[k+1].StartSeconds || x.EndSeconds > l.works[k+1].from.Seconds()+bound) {
					t.Errorf("seed %d, lane %d: %d ends at %v, behind the beginning of the next at %v", seed, i, k, x.EndSeconds, l.works[k+1].from)
				}
			}
		}
	}
}
