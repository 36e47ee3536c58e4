package devicetest

import (
	"errors"

	"github.com/pinion-gpu/pinion/device"
)

// What a vendor's library needs is there while it runs, for as many threads as
// there are, and not behind a close.
func testNative(f *fixture) {
	native, ok := device.As[device.Native](f.dev)
	if !ok {
		f.Skip("the device has no vendor's libraries")
	}
	mine := errors.New("from the library")
	f.fails("WithContext of a failure", native.WithContext(func() error { return mine }), mine)

	handle := func(s device.Stream) (h uintptr) {
		f.ok(native.WithStream(s, func(got uintptr) error { h = got; return nil }))
		return h
	}
	a, b := f.stream(), f.stream()
	if x, y := handle(a), handle(b); x == 0 || x == y || x != handle(a) {
		f.Errorf("the handles of two streams are %#x and %#x, later %#x", x, y, handle(a))
	}
	f.fails("WithStream of a failure", native.WithStream(a, func(uintptr) error { return mine }), mine)

	inside, first := make(chan struct{}), make(chan error)
	go func() {
		first <- native.WithStream(a, func(uintptr) error { <-inside; return nil })
	}()
	f.within("a second thread", func() error {
		return native.WithStream(a, func(uintptr) error { close(inside); return nil })
	})
	f.arrives("the first thread", first)

	never := func() error { return errors.New("it ran") }
	neverOn := func(uintptr) error { return never() }
	f.fails("WithStream of no stream", native.WithStream(nil, neverOn), device.ErrArgument)
	foreign, err := f.open().NewStream()
	f.ok(err)
	f.fails("WithStream of another device", native.WithStream(foreign, neverOn), device.ErrArgument)
	f.ok(a.Close())
	f.fails("WithStream of a closed stream", native.WithStream(a, neverOn), device.ErrClosed)
	f.ok(f.dev.Close())
	f.fails("WithStream of a closed device", native.WithStream(b, neverOn), device.ErrClosed)
	f.fails("WithContext of a closed device", native.WithContext(never), device.ErrClosed)
}
