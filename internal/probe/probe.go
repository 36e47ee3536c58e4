// Package probe is where packages tell what takes time in them, for a timeline that
// may want to know. While nobody listens, telling costs one atomic load.
package probe

import (
	"errors"
	"sync/atomic"
	"time"
)

// Row says where on a timeline spans belong. Rows of one group and name are one row,
// whoever tells of them.
type Row struct {
	Group string // such as "loader"
	Name  string // such as "worker 3"
}

// Span is something that took time on the host.
type Span struct {
	Name       string
	Start, End time.Time

	Bytes   int64 // that it moved, or 0
	Batch   int   // that it was for, counted from 1; 0: none
	Samples int   // that it was about, or 0

	Stages Stages
}

// Stages is what the time of a span went to, one after the other.
type Stages struct{ Read, Decode, Resize time.Duration }

// Listener hears of spans when they end. Its methods are called by many goroutines
// at once, and must be quick.
type Listener interface{ Span(Row, Span) }

// ErrTaken: somebody listens already.
var ErrTaken = errors.New("somebody listens already")

type holder struct{ Listener }

var listener atomic.Pointer[holder]

// Listen lets l hear of spans, until stop is called. Calls that began before stop may
// reach l a little later. It fails with [ErrTaken] while somebody else listens.
func Listen(l Listener) (stop func(), err error) {
	h := &holder{l}
	if !listener.CompareAndSwap(nil, h) {
		return nil, ErrTaken
	}
	return func() { listener.CompareAndSwap(h, nil) }, nil
}

// On reports whether somebody listens. Who has to read the clock for a span asks first.
func On() bool { return listener.Load() != nil }

// Now is the time if somebody listens, and else the zero time, which [Since] takes.
func Now() (now time.Time) {
	if On() {
		now = time.Now()
	}
	return now
}

// Tell tells of a span, if somebody listens.
func Tell(r Row, s Span) {
	if On() { // inlined, so that otherwise not even the span is made
		tell(r, s)
	}
}

func tell(r Row, s Span) {
	if h := listener.Load(); h != nil {
		h.Span(r, s)
	}
}

// Since tells of a span from start, which [Now] gave, until now.
func Since(start time.Time, r Row, s Span) {
	if !start.IsZero() {
		since(start, r, s)
	}
}

func since(start time.Time, r Row, s Span) {
	s.Start, s.End = start, time.Now()
	tell(r, s)
}
