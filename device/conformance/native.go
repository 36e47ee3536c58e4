package conformance

import (
	"errors"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/conformance/internal/fixture"
)

// What a vendor's library needs is there while it runs, for as many threads as
// there are, and not behind a close.
func testNative(f *fixture.F) {
	native, ok := device.As[device.Native](f.Dev)
	if !ok {
		f.Skip("the device has no vendor's libraries")
	}
	mine := errors.New("from the library")
	f.Fails("WithContext of a failure", native.WithContext(func() error { return mine }), mine)

	handle := func(s device.Stream) (h uintptr) {
		f.OK(native.WithStream(s, func(got uintptr) error { h = got; return nil }))
		return h
	}
	a, b := f.Stream(), f.Stream()
	if x, y := handle(a), handle(b); x == 0 || x == y || x != handle(a) {
		f.Errorf("the handles of two streams are %#x and %#x, later %#x", x, y, handle(a))
	}
	f.Fails("WithStream of a failure", native.WithStream(a, func(uintptr) error { return mine }), mine)

	inside, first := make(chan struct{}), make(chan error)
	go func() {
		first <- native.WithStream(a, func(uintptr) error { <-inside; return nil })
	}()
	f.Within("a second thread", func() error {
		return native.WithStream(a, func(uintptr) error { close(inside); return nil })
	})
	f.Arrives("the first thread", first)

	never := func() error { return errors.New("it ran") }
	neverOn := func(uintptr) error { return never() }
	f.Fails("WithStream of no stream", native.WithStream(nil, neverOn), device.ErrArgument)
	foreign, err := f.Open().NewStream()
	f.OK(err)
	f.Fails("WithStream of another device", native.WithStream(foreign, neverOn), device.ErrArgument)
	f.OK(a.Close())
	f.Fails("WithStream of a closed stream", native.WithStream(a, neverOn), device.ErrClosed)
	f.OK(f.Dev.Close())
	f.Fails("WithStream of a closed device", native.WithStream(b, neverOn), device.ErrClosed)
	f.Fails("WithContext of a closed device", native.WithContext(never), device.ErrClosed)
}
