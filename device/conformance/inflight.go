package conformance

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/conformance/internal/fixture"
)

// Close of a device finishes what is queued, and leaves host memory alone
// afterwards.
func testCloseInFlight(f *fixture.F) {
	const n = 1 << 20
	s, behind := f.Stream(), f.Stream()
	e := f.Event(device.EventNoTiming)
	p, q := f.Alloc(n), f.Alloc(n)
	want := fixture.Unique(n, 1)
	f.Upload(p, want)
	for range 16 {
		f.OK(s.Memset(q, 0, n))
		f.OK(s.CopyD2D(q, p, n))
	}
	f.OK(s.Record(e))
	f.OK(behind.Wait(e))
	targets := [][]byte{make([]byte, n)}
	if pinner, ok := device.As[device.Pinner](f.Dev); ok {
		b := f.Pages(n)
		if pinner.Pin(b, 0) == nil {
			targets = append(targets, b) // behind the other, which may block
		}
	}
	for _, b := range targets {
		f.OK(behind.CopyD2H(b, q))
	}
	f.Within("Close with work in flight", f.Dev.Close)
	for _, b := range targets {
		if !bytes.Equal(b, want) {
			f.Error("Close dropped queued work")
		}
		clear(b) // with -race, a write from the device after Close is a race
	}
}

// Close of a device waits for a stream that stands still, and functions that
// run meanwhile still reach their memory.
func testCloseWaits(f *fixture.F) {
	c := f.Caller()
	a, b := f.Stream(), f.Stream()
	e, p := f.Event(0), f.Alloc(64)
	release := f.Hold(a)
	ran := false
	f.OK(a.Record(e))
	f.OK(b.Wait(e))
	f.OK(c.Call(b, func() error {
		ran = true
		_, err := c.Bytes(p, 64)
		return err
	}))
	closed := fixture.Async(f.Dev.Close)
	// Let Close begin, as far as that can be seen from here.
	for range 20 {
		if _, err := f.Dev.Memory(); err != nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	release()
	f.Arrives("Close", closed)
	if !ran {
		f.Error("Close dropped queued work")
	}
}

// Close of a device under the hands of those who queue: they see ErrClosed and
// nothing else, and their memory is theirs again.
func testCloseWhileQueueing(f *fixture.F) {
	const workers, n = 4, 1 << 14
	var working sync.WaitGroup
	var done []<-chan error
	buffers := make([][]byte, workers)
	working.Add(workers)
	for i := range workers {
		s, e, p := f.Stream(), f.Event(0), f.Alloc(n)
		buffers[i] = make([]byte, n)
		started := sync.OnceFunc(working.Done)
		done = append(done, fixture.Async(func() error {
			defer started()
			for round := 0; ; round++ {
				err := s.CopyH2D(p, buffers[i])
				for _, queue := range []func() error{
					func() error { return s.CopyD2H(buffers[i], p) },
					func() error { return allocAndFree(f.Dev) },
					func() error { return s.Record(e) },
					func() error { return s.Wait(e) },
				} {
					if err == nil {
						err = queue()
					}
				}
				if err == nil && round%4 == 3 {
					started()
					err = s.Synchronize()
				}
				if errors.Is(err, device.ErrClosed) {
					return nil
				} else if err != nil {
					return err
				}
			}
		}))
	}
	working.Wait()
	f.Within("Close", f.Dev.Close)
	for _, d := range done {
		f.Arrives("queueing on a device that is closed", d)
	}
	for _, b := range buffers {
		clear(b) // with -race, a write from the device after Close is a race
	}
}

func allocAndFree(dev device.Device) error {
	p, err := dev.Alloc(256)
	if err != nil {
		return err
	}
	return dev.Free(p)
}

// Many goroutines allocate, copy and free on one device, some on streams of
// their own and some on a shared one.
func testManyGoroutines(f *fixture.F) {
	const workers, rounds = 8, 20
	shared := f.Stream()
	var done []<-chan error
	for i := range workers {
		done = append(done, fixture.Async(func() error {
			s := shared
			if i%2 == 0 {
				var err error
				if s, err = f.Dev.NewStream(); err != nil {
					return err
				}
				defer s.Close()
			}
			r := rand.New(rand.NewPCG(uint64(i), 2))
			for range rounds {
				if err := roundTrip(f.Dev, s, fixture.Unique(1+r.Int64N(1<<17), byte(r.Uint32()))); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	for _, d := range done {
		f.Arrives("a goroutine among many", d)
	}
}

// roundTrip takes want to the device, to another place there and back.
func roundTrip(dev device.Device, s device.Stream, want []byte) error {
	n := int64(len(want))
	p, err := dev.Alloc(n)
	if err != nil {
		return err
	}
	q, err := dev.Alloc(n)
	if err != nil {
		return err
	}
	e, err := dev.NewEvent(device.EventNoTiming)
	if err != nil {
		return err
	}
	got := make([]byte, n)
	err = errors.Join(s.CopyH2D(p, want), s.CopyD2D(q, p, n), dev.Free(p),
		s.CopyD2H(got, q), s.Record(e), e.Synchronize(), e.Close(), dev.Free(q))
	if err == nil && !bytes.Equal(got, want) {
		err = fmt.Errorf("%d bytes came back different", n)
	}
	return err
}

// A device leaves no goroutines behind, whatever was left open. (The fixture
// looks for them after every test; this one leaves everything open.)
func testGoroutines(f *fixture.F) {
	for range 3 {
		dev := f.Open()
		for range 4 {
			s, err := dev.NewStream()
			f.OK(err)
			e, err := dev.NewEvent(0)
			f.OK(err)
			p, err := dev.Alloc(1 << 16)
			f.OK(err)
			f.OK(s.CopyH2D(p, make([]byte, 1<<16)))
			f.OK(s.Record(e))
		}
		f.OK(dev.Close())
	}
}
