package page

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/host"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/vram"
)

// named is a device with a name of its own.
type named struct {
	device.Wrapper
	id string
}

func (n *named) Info() device.Info {
	info := n.Device.Info()
	info.ID = n.id
	return info
}

// Watchers that come and go, as of a page that is loaded again and again, do not have
// two goroutines look at the devices at once, which would end the process.
func TestWatchersComeAndGo(t *testing.T) {
	testkit.NoLeaks(t)
	inner, err := host.Open(1 << 20)
	testkit.OK(t, err)
	defer func() { testkit.OK(t, inner.Close()) }()
	source := fake()
	var n atomic.Int64
	source.Devices = func() (list []device.Device) {
		for range 50 { // of which none was there before
			list = append(list, &named{device.Wrapper{Device: inner}, fmt.Sprint(n.Add(1))})
		}
		return list
	}
	s := newSampler(source)
	for range 300 {
		w, err := s.watch()
		testkit.OK(t, err)
		runtime.Gosched()
		s.leave(w)
	}
}

// stuck is a device that does not come back from an allocation.
type stuck struct {
	device.Wrapper
	once        sync.Once
	asked, gone chan struct{}
}

func (s *stuck) Alloc(int64) (device.Ptr, error) {
	s.once.Do(func() { close(s.asked) })
	<-s.gone
	return 0, device.ErrOutOfMemory
}

// A pool that is held up by its driver holds up nobody who begins to watch, or who asks
// for the history.
func TestWatchBesideStuckPool(t *testing.T) {
	testkit.NoLeaks(t)
	inner, err := host.Open(1 << 20)
	testkit.OK(t, err)
	defer func() { testkit.OK(t, inner.Close()) }()
	dev := &stuck{Wrapper: device.Wrapper{Device: inner}, asked: make(chan struct{}), gone: make(chan struct{})}
	pool, err := vram.New(dev, vram.Options{Source: vram.SourceSegments})
	testkit.OK(t, err)
	defer func() { testkit.OK(t, pool.Close()) }()
	ended, cancel := context.WithCancel(ctx)
	failed := make(chan error, 1)
	go func() {
		_, err := pool.Alloc(ended, 1000, vram.Use{})
		failed <- err
	}()
	testkit.Receive(t, "an allocation", dev.asked)
	s := newSampler(fake())
	testkit.OK(t, testkit.Within(t, "watching", func() error {
		w, err := s.watch()
		if err == nil {
			if _, err := s.past(ctx); err != nil {
				return err
			}
			testkit.Receive(t, "a message", w.messages)
			s.leave(w)
		}
		return err
	}))
	cancel()
	close(dev.gone)
	if err := testkit.Receive(t, "the allocation", failed); err == nil {
		t.Error("the device gave memory")
	}
}
