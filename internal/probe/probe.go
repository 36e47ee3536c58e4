// Package probe is where packages tell what takes time in them, for those who may want
// to know: a timeline of this process ([Listen]), and tools such as Nsight Systems, by
// ranges of NVTX. While nobody does, telling costs one atomic load.
package probe

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pinion-gpu/pinion/internal/nvtx"
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

// audience is who hears of spans.
type audience struct {
	listener Listener // or nil
	tool     bool     // by ranges
}

var (
	present  atomic.Pointer[audience] // nil: nobody
	changing sync.Mutex
	tool     = nvtx.Wanted()
)

func init() { admit(nil) }

// admit makes l the listener; nil: there is none. The caller holds changing.
func admit(l Listener) {
	if l == nil && !tool {
		present.Store(nil)
		return
	}
	present.Store(&audience{l, tool})
}

// Listen lets l hear of spans, until stop is called. Calls that began before stop may
// reach l a little later. It fails with [ErrTaken] while somebody else listens.
func Listen(l Listener) (stop func(), err error) {
	changing.Lock()
	defer changing.Unlock()
	if a := present.Load(); a != nil && a.listener != nil {
		return nil, ErrTaken
	}
	admit(l)
	mine := present.Load()
	return func() {
		changing.Lock()
		defer changing.Unlock()
		if present.Load() == mine {
			admit(nil)
		}
	}, nil
}

// Mark is the beginning of a span. The zero Mark is one of which nobody wants to know.
type Mark struct {
	start time.Time
	tool  uint64 // the range that a tool has of it
}

// Begin marks the beginning of a span, which has that name in tools, if somebody wants
// to know. End has to follow, on this goroutine or another.
func Begin(r Row, name string) (m Mark) {
	if present.Load() != nil { // inlined
		m = begin(r, name)
	}
	return m
}

func begin(r Row, name string) (m Mark) {
	if a := present.Load(); a != nil && a.tool {
		m.tool = nvtx.Start(r.Group + " " + r.Name + ": " + name)
	}
	m.start = time.Now()
	return m
}

// End tells of the span from m, which Begin gave, until now. Where s has times, those
// are told.
func (m Mark) End(r Row, s Span) {
	if !m.start.IsZero() {
		m.end(r, s)
	}
}

func (m Mark) end(r Row, s Span) {
	if s.End.IsZero() {
		s.Start, s.End = m.start, time.Now()
	}
	nvtx.End(m.tool)
	if a := present.Load(); a != nil && a.listener != nil {
		a.listener.Span(r, s)
	}
}
