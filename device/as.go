package device

import "reflect"

// As finds an ability of a device: it returns dev itself, or the first of the
// devices that dev wraps, that has type T. T is a capability such as [Pinner],
// or the type of a backend's device. It is false when none has that type, and
// for a nil device.
//
// As walks a chain of wrappers, so ask once, when you are given the device,
// and keep the answer.
func As[T any](dev Device) (T, bool) { return find[T](dev, Unwrap) }

// Unwrap returns the device that dev wraps, or nil when dev is no wrapper: its
// method Unwrap, if it has one, says so. See [Wrapper].
func Unwrap(dev Device) Device { return unwrap[Device](dev) }

// Same reports whether a and b are one device, whatever it is wrapped in.
// Compare devices with it, and not with ==: [Stream.Device] returns the device
// that made the stream, which a wrapper may lie around. For the same reason use no
// Device as the key of a map: a wrapper may also be of a type that cannot be
// compared.
func Same(a, b Device) bool {
	a, b = innermost(a, Unwrap), innermost(b, Unwrap)
	t := reflect.TypeOf(a)
	return t == reflect.TypeOf(b) && (t == nil || t.Comparable() && a == b)
}

// AsStream is [As] for streams. Backends find their own streams with it, so
// that a wrapped stream works wherever a plain one does.
func AsStream[T any](s Stream) (T, bool) { return find[T](s, unwrap[Stream]) }

// AsEvent is [As] for events.
func AsEvent[T any](e Event) (T, bool) { return find[T](e, unwrap[Event]) }

func find[T any, W comparable](w W, unwrap func(W) W) (t T, ok bool) {
	var none W
	for ; w != none; w = unwrap(w) {
		if t, ok = any(w).(T); ok {
			return t, true
		}
	}
	return t, false
}

func innermost[W comparable](w W, unwrap func(W) W) W {
	var none W
	for next := w; next != none; next = unwrap(w) {
		w = next
	}
	return w
}

func unwrap[W any](w W) (inner W) {
	if u, ok := any(w).(interface{ Unwrap() W }); ok {
		inner = u.Unwrap()
	}
	return inner
}

// Wrapper is what a type embeds to wrap a device: it has every method of the
// device, and [As] finds every ability of it. The type then overrides what it
// changes:
//
//	type counting struct {
//		device.Wrapper
//		allocs atomic.Int64
//	}
//
//	func (c *counting) Alloc(n int64) (device.Ptr, error) {
//		c.allocs.Add(1)
//		return c.Device.Alloc(n)
//	}
//
//	dev := &counting{Wrapper: device.Wrapper{Device: inner}}
//
// A wrapper overrides a capability by having its methods, all of them: As
// finds the wrapper first. A type that embeds [Device] alone has no Unwrap and
// so hides every ability that it does not have itself.
//
// Streams and events are those of the device inside, and work for it, unless
// the wrapper overrides NewStream and NewEvent. What those return must then
// embed [StreamWrapper] and [EventWrapper], for backends accept only what they
// can unwrap to streams and events of their own. Capabilities that take a
// stream, such as [BatchCopier], do not come by a wrapped stream's methods.
type Wrapper struct{ Device }

// Unwrap returns the device inside.
func (w Wrapper) Unwrap() Device { return w.Device }

// StreamWrapper is [Wrapper] for streams.
type StreamWrapper struct{ Stream }

// Unwrap returns the stream inside.
func (w StreamWrapper) Unwrap() Stream { return w.Stream }

// EventWrapper is [Wrapper] for events.
type EventWrapper struct{ Event }

// Unwrap returns the event inside.
func (w EventWrapper) Unwrap() Event { return w.Event }
