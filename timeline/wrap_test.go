package timeline

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/conformance"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// A device that is recorded keeps every promise of the device inside.
func TestConformance(t *testing.T) {
	r := start(t, Options{})
	t.Run("wrapped", func(t *testing.T) {
		conformance.Run(t, func(t testing.TB) device.Device { return r.Wrap(devicetest.Open(t)) })
	})
	for _, d := range r.devices() { // closed by the fixture, behind its back
		d.renew()
	}
	if len(r.devices()) > 0 {
		t.Errorf("%d devices are left of closed ones", len(r.devices()))
	}
}

// It has the abilities of the device inside, and no others.
func TestAbilities(t *testing.T) {
	r := start(t, Options{})
	dev := devicetest.Open(t)
	if got, want := device.Capabilities(r.Wrap(dev)), device.Capabilities(dev); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	wrapped := r.Wrap(dev)
	if !device.Same(wrapped, dev) || r.Wrap(wrapped) != wrapped {
		t.Error("a recorded device is another one, or is recorded twice")
	}
	s, err := wrapped.NewStream()
	testkit.OK(t, err)
	if s.Device() != wrapped {
		t.Error("a stream is of another device than the one that made it")
	}
	testkit.OK(t, s.Close())
	r.Stop()
	if r.Wrap(dev) != dev || r.Wrap(nil) != nil {
		t.Error("a recording that is over wraps a device")
	}
}

// What was done to a device is told once, with its bytes, in the order of the stream,
// and no sooner on the device than it was queued.
func TestWork(t *testing.T) {
	r := start(t, Options{})
	dev := open(t, r)
	s, err := dev.NewStream()
	testkit.OK(t, err)
	device.Label(s, "test")
	const n = 1 << 20
	p, err := dev.Alloc(2 * n)
	testkit.OK(t, err)
	host := make([]byte, n)
	testkit.OK(t, s.CopyH2D(p, host))
	testkit.OK(t, s.CopyD2D(p.Add(n), p, n))
	testkit.OK(t, s.Memset(p, 1, n/2))
	testkit.OK(t, s.CopyD2H(host, p))
	testkit.OK(t, s.Synchronize())
	if err := s.CopyH2D(1, host); err == nil {
		t.Log("the device takes any address")
	}
	r.Stop()
	type want struct {
		name   string
		engine Engine
		bytes  int64
	}
	var got, calls []Span
	for _, x := range r.Spans(0, 1000) {
		if x.Engine != OnHost {
			got = append(got, x)
		} else if x.Name != "allocate" && x.Name != "synchronize" {
			calls = append(calls, x)
		}
	}
	all := []want{{"copy h2d", H2D, n}, {"copy d2d", D2D, n}, {"memset", Compute, n / 2}, {"copy d2h", D2H, n}}
	if len(got) != len(all) || len(calls) != len(all) {
		t.Fatalf("%d pieces of work and %d calls, want %d: %+v", len(got), len(calls), len(all), got)
	}
	for i, w := range all {
		g, c := got[i], calls[i]
		if g.Name != w.name || g.Engine != w.engine || g.Bytes != w.bytes || g.Row != "test" || g.Group != dev.Info().ID {
			t.Errorf("%d: %+v, want %+v", i, g, w)
		}
		if g.CallSeconds != c.StartSeconds || g.StartSeconds < c.StartSeconds || g.EndSeconds < g.StartSeconds || c.EndSeconds < c.StartSeconds {
			t.Errorf("%d: on the device %+v, called %+v", i, g, c)
		}
		if i > 0 && g.StartSeconds < got[i-1].EndSeconds {
			t.Errorf("%d begins before %d ends: %+v, %+v", i, i-1, g, got[i-1])
		}
	}
	if r.Untimed() > 0 || r.Dropped() > 0 {
		t.Errorf("%d untimed, %d dropped", r.Untimed(), r.Dropped())
	}
	testkit.OK(t, dev.Free(p))
	testkit.OK(t, s.Close())
}

// A graph is told of once for each launch, and what it was made of is not.
func TestGraph(t *testing.T) {
	r := start(t, Options{})
	dev := open(t, r)
	c, ok := device.As[device.Capturer](dev)
	if !ok || !c.CanCapture() {
		t.Skip("the device records no work")
	}
	s := testkit.Must(dev.NewStream())(t)
	p := testkit.Must(dev.Alloc(4096))(t)
	g, err := c.Capture(s, func() error { return s.Memset(p, 1, 4096) })
	testkit.OK(t, err)
	for range 3 {
		testkit.OK(t, g.Launch(s))
	}
	testkit.OK(t, s.Synchronize())
	testkit.OK(t, g.Close())
	r.Stop()
	launches := 0
	for _, x := range r.Spans(0, 1000) {
		if x.Name == "memset" {
			t.Errorf("%+v", x)
		}
		if x.Engine == Compute && x.Name == "graph" {
			launches++
		}
	}
	if launches != 3 || r.Untimed() > 0 {
		t.Errorf("%d launches are told of, and %d are untimed", launches, r.Untimed())
	}
	testkit.OK(t, dev.Free(p))
	testkit.OK(t, s.Close())
}

// The device's times are on the host's clock: a function that runs in a stream reads
// that clock between the beginning and the end that are told of it, to within the
// error that is known of the anchor.
func TestOneClock(t *testing.T) {
	r := start(t, Options{})
	dev := open(t, r)
	c, ok := device.As[device.Caller](dev)
	if !ok {
		t.Skip("a kernel cannot read the host's clock")
	}
	s, err := dev.NewStream()
	testkit.OK(t, err)
	const times = 200
	var inside [times]time.Duration
	for i := range times {
		testkit.OK(t, c.Call(s, func() error { inside[i] = r.Now(); return nil }))
		if i == times/2 {
			for _, d := range r.devices() {
				d.renew() // measured from another anchor from here on
			}
		}
	}
	testkit.OK(t, s.Synchronize())
	r.Stop()
	bound := r.view().errors[dev.Info().ID]
	var got []Span
	for _, x := range r.Spans(0, 2000) {
		if x.Engine == Compute {
			got = append(got, x)
		}
	}
	if len(got) != times {
		t.Fatalf("%d functions are told of, want %d", len(got), times)
	}
	for i, x := range got {
		if at := inside[i].Seconds(); at < x.StartSeconds-seconds(bound) || at > x.EndSeconds+seconds(bound) {
			t.Errorf("%d ran at %v, and is told to have run from %v to %v, give or take %v", i, at, x.StartSeconds, x.EndSeconds, seconds(bound))
		}
		if x.Name != "timeline.TestOneClock" {
			t.Fatalf("it is called %q", x.Name)
		}
	}
}

// Many goroutines, streams and devices, while somebody looks and the recording ends.
func TestConcurrent(t *testing.T) {
	r := start(t, Options{Every: time.Millisecond})
	const devices, streams, each = 2, 3, 200
	var all sync.WaitGroup
	for range devices {
		dev := open(t, r)
		for range streams {
			all.Go(func() {
				s, err := dev.NewStream()
				testkit.OK(t, err)
				p, err := dev.Alloc(4096)
				testkit.OK(t, err)
				host := make([]byte, 4096)
				for range each {
					testkit.OK(t, s.CopyH2D(p, host))
				}
				testkit.OK(t, s.Close())
				testkit.OK(t, dev.Free(p))
			})
		}
	}
	quit := make(chan struct{})
	looked := make(chan struct{})
	go func() {
		defer close(looked)
		for {
			select {
			case <-quit:
				return
			default:
				r.Spans(0, 100)
			}
		}
	}()
	all.Wait()
	close(quit)
	<-looked
	copies := 0
	for _, x := range r.Spans(0, 1<<20) {
		if x.Engine == H2D {
			copies++
		}
	}
	if want := devices * streams * each; copies != want {
		t.Errorf("%d copies are told of, want %d; %d untimed", copies, want, r.Untimed())
	}
	r.Stop()
}
