package vram

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/callstack"
)

// EventKind says what happened.
type EventKind uint8

const (
	EventAlloc       EventKind = iota // a block became live
	EventFree                         // a block was freed
	EventReady                        // a pending block became free: the streams that used it are done
	EventMap                          // chunks, or a segment, were mapped at Address
	EventUnmap                        // chunks, or a segment, were unmapped
	EventOutOfMemory                  // an allocation of Bytes failed; Address is how many bytes the device had free
)

// Event is an entry of the history.
type Event struct {
	Kind    EventKind
	Purpose Purpose
	Stream  int32         // number of the stream, by first use; 0 is no stream
	Time    time.Duration // since the pool was made
	Address device.Ptr
	Bytes   int64  // of the block, rounded, or of what was mapped
	Asked   int64  // bytes asked for; 0 for EventMap and EventUnmap
	Name    string // of the allocation
	Stack   Stack  // of the allocation, if it was recorded
}

// Stack is a call stack as program counters, for runtime.CallersFrames.
type Stack []uintptr

// history is a ring of events.
type history struct {
	mu     sync.Mutex
	ring   []Event
	events int64 // logged so far
}

func newHistory(n int) *history { return &history{ring: make([]Event, n)} }

// log adds an event, if the pool keeps any. An event takes 80 bytes.
func (p *Pool) log(e Event) {
	h := p.history
	if h == nil {
		return
	}
	h.mu.Lock()
	e.Time = time.Since(p.start) // with the lock, so that events are in order
	h.ring[h.events%int64(len(h.ring))] = e
	h.events++
	h.mu.Unlock()
}

// logMapped logs that memory comes to addresses, or leaves them.
func (p *Pool) logMapped(at device.Ptr, bytes int64, there bool) {
	kind := EventMap
	if !there {
		kind = EventUnmap
	}
	p.log(Event{Kind: kind, Address: at, Bytes: bytes})
}

// list returns the events in the ring, by time, and how many were overwritten.
func (h *history) list() (events []Event, dropped int64) {
	if h == nil {
		return nil, 0
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	n := min(h.events, int64(len(h.ring)))
	events = make([]Event, 0, n)
	for i := h.events - n; i < h.events; i++ {
		events = append(events, h.ring[i%int64(len(h.ring))])
	}
	return events, h.events - n
}

// Caller returns the innermost frame; ok is false for an empty stack.
func (s Stack) Caller() (frame runtime.Frame, ok bool) {
	if len(s) == 0 {
		return frame, false
	}
	frame, _ = runtime.CallersFrames(s).Next()
	return frame, true
}

// recordAlloc records the call stack and the event of an allocation, as the
// options say, or as whoever looks for leaks wants. The lock of the shard is held.
func (p *Pool) recordAlloc(b *block) {
	mode := p.options.Stacks
	if mode == StacksAll || mode == StacksSampled && (b.bytes >= 1<<20 || rand.Uint32()%64 == 0) || callstack.Wanted() {
		b.stack = callstack.Here(1) // without Alloc
	}
	p.log(Event{Kind: EventAlloc, Purpose: b.purpose, Stream: b.owner.number(), Address: b.ptr, Bytes: b.bytes, Asked: b.requested, Name: b.name, Stack: b.stack})
}
