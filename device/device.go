package device

import (
	"context"
	"time"
)

// Ptr is an address in device memory. Zero is no address. It is an integer,
// not a Go pointer: it keeps nothing alive and arithmetic on it is allowed
// inside one allocation.
type Ptr uint64

// Add returns the address n bytes after p.
func (p Ptr) Add(n int64) Ptr { return p + Ptr(n) }

// Device is one place with memory of its own where work runs. All its methods
// are safe for concurrent use.
type Device interface {
	// Info describes the device. It does not change while the device is open.
	Info() Info

	// Memory reports the device's memory as it is now.
	Memory() (Memory, error)

	// Alloc allocates n > 0 bytes, aligned to 256 bytes at least. The content
	// is undefined. It fails with [ErrOutOfMemory] when n bytes are not
	// available.
	Alloc(n int64) (Ptr, error)

	// Free returns memory that Alloc (or [Manager.AllocManaged], or
	// [StreamAllocator.AllocAsync]) returned. It waits until queued work is
	// done. An address that is not the start of a live allocation fails with
	// [ErrPointer], as does one that was freed.
	Free(p Ptr) error

	// NewStream makes a stream. Close it when you are done.
	NewStream() (Stream, error)

	// NewEvent makes an event. Close it when you are done.
	NewEvent(flags EventFlags) (Event, error)

	// Synchronize waits until everything queued on the device's streams so
	// far is done, and reports the first error of it.
	Synchronize() error

	// Close waits for queued work, closes the device's streams and events and
	// frees its memory. Everything that belongs to the device fails with
	// [ErrClosed] afterwards; a second Close does nothing.
	Close() error

	// Closed reports whether Close was called. It costs next to nothing.
	Closed() bool
}

// Stream is a queue of work that runs in order. All its methods are safe for
// concurrent use; operations queued by several goroutines run in the order in
// which they were accepted.
type Stream interface {
	// Device returns the device that the stream belongs to.
	Device() Device

	// CopyH2D queues a copy of src to device memory at dst. From pinned
	// memory the copy is asynchronous; from pageable memory the backend may
	// block until it has read src. Either way src must not change, nor become
	// garbage, until the copy is done.
	CopyH2D(dst Ptr, src []byte) error

	// CopyD2H queues a copy of len(dst) bytes of device memory at src into
	// dst, which must not be touched until the copy is done.
	CopyD2H(dst []byte, src Ptr) error

	// CopyD2D queues a copy of n bytes inside the device. The ranges must not
	// overlap.
	CopyD2D(dst, src Ptr, n int64) error

	// Memset queues setting n bytes at dst to value.
	Memset(dst Ptr, value byte, n int64) error

	// Record queues a mark in e that is passed when all earlier work of the
	// stream is done. An event can be recorded again: it then stands for the
	// newest mark.
	Record(e Event) error

	// Wait makes later work of this stream wait for the newest mark of e, of
	// whichever stream. The host does not wait. An event that was never
	// recorded holds nothing up.
	Wait(e Event) error

	// Synchronize waits until everything queued on the stream so far is done
	// and reports its first error.
	Synchronize() error

	// Close waits for queued work and releases the stream. A second Close
	// does nothing.
	Close() error
}

// EventFlags choose what an event costs and how it is waited for.
type EventFlags uint32

const (
	// EventNoTiming makes an event that cannot be used with [Event.Since];
	// recording and waiting are cheaper.
	EventNoTiming EventFlags = 1 << iota
	// EventBlockingSync makes [Event.Synchronize] sleep instead of spin: a
	// few microseconds later, but with the processor free for others.
	EventBlockingSync
)

// Event is a mark in a stream. All its methods are safe for concurrent use.
type Event interface {
	// Done reports whether the newest mark is passed, without waiting. It is
	// true for an event that was never recorded. An error beside true is that
	// of the work before the mark, which is over; beside false it says why
	// the question has no answer.
	Done() (bool, error)

	// Synchronize waits until the newest mark is passed and reports the first
	// error of the work before it.
	Synchronize() error

	// Since returns the time on the device between the newest mark of start
	// and that of this event. Both must be passed and made with timing.
	Since(start Event) (time.Duration, error)

	// Close releases the event; work that waits for it is not disturbed. A
	// second Close does nothing.
	Close() error
}

// Memory is the memory of a device at one moment, in bytes.
type Memory struct {
	TotalBytes int64 // all of it
	FreeBytes  int64 // what the backend says an allocation could still get
}

// Wait waits for e like [Event.Synchronize], but returns ctx's error as soon
// as ctx is done. The work behind the event is not stopped by that: memory it
// uses remains in use.
func Wait(ctx context.Context, e Event) error {
	if ctx.Done() == nil {
		return e.Synchronize()
	}
	// The driver's waits cannot be interrupted, so this one polls: hot for as
	// long as a small copy takes, then at a pace that costs next to nothing and
	// is late by a hundredth of what it waited for.
	const hot = 50 * time.Microsecond
	start := time.Now()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		done, err := e.Done()
		if done || err != nil {
			return err
		}
		if waited := time.Since(start); waited > hot {
			time.Sleep(min(max(waited/100, 20*time.Microsecond), time.Millisecond))
		}
	}
}
