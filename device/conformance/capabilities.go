package conformance

import (
	"errors"
	"slices"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/conformance/internal/fixture"
)

// What [device.Capabilities] lists, [device.As] finds, and it works; what it
// does not list is either not found or fails with ErrNotSupported. A wrapper
// changes neither.
func testCapabilities(f *fixture.F) {
	listed := device.Capabilities(f.Dev)
	if wrapped := device.Capabilities(&device.Wrapper{Device: f.Dev}); !slices.Equal(listed, wrapped) {
		f.Errorf("the device can do %v, in a wrapper %v", listed, wrapped)
	}
	s := f.Stream()
	for _, c := range []struct {
		name string
		use  func() (found bool, err error)
	}{
		{"managed", func() (bool, error) {
			m, ok := device.As[device.Manager](f.Dev)
			if !ok {
				return false, nil
			}
			p, _, err := m.AllocManaged(4096, device.ManagedOptions{})
			if err == nil {
				err = f.Dev.Free(p)
			}
			return true, err
		}},
		{"virtual-memory", func() (bool, error) {
			m, ok := device.As[device.Mapper](f.Dev)
			if !ok {
				return false, nil
			}
			_, err := m.Granularity()
			return true, err
		}},
		{"stream-ordered-allocation", func() (bool, error) {
			a, ok := device.As[device.StreamAllocator](f.Dev)
			if !ok {
				return false, nil
			}
			p, err := a.AllocAsync(s, 4096)
			if err == nil {
				err = a.FreeAsync(s, p)
			}
			return true, err
		}},
		{"batch", func() (bool, error) {
			b, ok := device.As[device.BatchCopier](f.Dev)
			if !ok {
				return false, nil
			}
			return true, b.CopyBatch(s, []device.Span{{Dst: f.Alloc(64), Src: f.Alloc(64), Bytes: 64}})
		}},
		{"context-events", func() (bool, error) {
			c, ok := device.As[device.ContextRecorder](f.Dev)
			if !ok {
				return false, nil
			}
			return true, c.RecordAll(f.Event(device.EventNoTiming))
		}},
		{"graphs", func() (bool, error) {
			c, ok := device.As[device.Capturer](f.Dev)
			if !ok {
				return false, nil
			}
			g, err := c.Capture(s, func() error { return nil })
			if err == nil {
				err = g.Close()
			}
			return true, err
		}},
		{"range-check", func() (bool, error) {
			r, ok := device.As[device.RangeChecker](f.Dev)
			if !ok {
				return false, nil
			}
			return true, r.CheckRange(f.Alloc(64), 64)
		}},
		{"go-kernels", func() (bool, error) {
			c, ok := device.As[device.Caller](f.Dev)
			if !ok {
				return false, nil
			}
			return true, c.Call(s, func() error { return nil })
		}},
		{"kernels", func() (bool, error) {
			l, ok := device.As[device.Launcher](f.Dev)
			if ok && l.ImageFormat() == "" {
				return true, errors.New("it does not say which format")
			}
			return ok, nil
		}},
		{"sharing", func() (bool, error) {
			sh, ok := device.As[device.Sharer](f.Dev)
			if !ok || !sh.CanShare() {
				return false, nil
			}
			_, err := sh.Share(f.Alloc(64))
			return true, err
		}},
		{"native", func() (bool, error) {
			n, ok := device.As[device.Native](f.Dev)
			if !ok {
				return false, nil
			}
			if n.API() == "" {
				return true, errors.New("it does not say of which API")
			}
			return true, n.WithStream(s, func(uintptr) error { return nil })
		}},
	} {
		found, err := c.use()
		switch is := slices.Contains(listed, c.name); {
		case is && (!found || err != nil):
			f.Errorf("%s is listed; found: %t, error: %v", c.name, found, err)
		case !is && found && !errors.Is(err, device.ErrNotSupported):
			f.Errorf("%s is not listed, but found; its error: %v", c.name, err)
		}
	}
	f.OK(s.Synchronize())
}
