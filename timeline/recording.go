package timeline

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pinion-gpu/pinion/internal/errs"
	"github.com/pinion-gpu/pinion/internal/probe"
)

// Errors that callers can tell apart with errors.Is.
var (
	// ErrActive: another recording is on in this process.
	ErrActive = errors.New("a recording is on")
	// ErrArgument: an option that cannot be right.
	ErrArgument = errs.ErrArgument
)

// Options tune a [Recording]. The zero value works.
type Options struct {
	// Records is how many records are kept: spans of the host, pieces of work of a
	// device with their calls, and changes of counters. Each takes 88 bytes, when it
	// is made. When there are more, the oldest go, and [Recording.Dropped] counts
	// them. At least 4096. Default: 1,048,576, which is 88 MiB.
	Records int

	// Every is how often work that has ended is collected, and the amounts of memory
	// are looked at. Default: 20 ms.
	Every time.Duration

	// Others records as well what other libraries of the process, such as PyTorch,
	// queue on NVIDIA GPUs, and Pinion on devices that were not wrapped: by CUPTI,
	// where that can be had. [Recording.Others] says why not. Default: false, since
	// in most programs of Go nothing else queues work.
	Others bool
}

// Recording is what happens in this process while it is on. Its methods are safe for
// concurrent use.
type Recording struct {
	began time.Time // zero of its clock
	every time.Duration
	on    atomic.Bool

	rows atomic.Pointer[map[probe.Row]*row] // of the host; changed under mu

	mu     sync.Mutex
	store  store
	clocks map[string]int64 // errors of the clocks of devices

	list struct {
		sync.Mutex
		devices []*wrapped
	}
	others      *others // nil: othersError says why
	othersError error

	amounts  amounts
	quit     chan struct{}
	ended    chan struct{}
	stopping sync.Once
	deaf     func()

	untimed atomic.Int64 // pieces of work without device times
}

var current atomic.Pointer[Recording]

// Current is the recording that is on in this process, or nil.
func Current() *Recording { return current.Load() }

// Start begins a recording. There is one at a time: another fails with [ErrActive].
// Stop it.
func Start(o Options) (*Recording, error) {
	if o.Records == 0 {
		o.Records = 1 << 20
	}
	if o.Every == 0 {
		o.Every = 20 * time.Millisecond
	}
	if o.Records < chunkRecords || o.Records > math.MaxInt32 {
		return nil, fmt.Errorf("timeline: %w: Records is %d, want %d to %d", ErrArgument, o.Records, chunkRecords, math.MaxInt32)
	}
	if o.Every < 0 {
		return nil, fmt.Errorf("timeline: %w: Every is %v, which is below 0", ErrArgument, o.Every)
	}
	r := &Recording{
		began: time.Now(), every: o.Every, clocks: map[string]int64{}, store: store{most: (o.Records + chunkRecords - 1) / chunkRecords},
		quit: make(chan struct{}), ended: make(chan struct{}),
	}
	r.rows.Store(&map[probe.Row]*row{})
	stop, err := probe.Listen(r)
	if err != nil {
		return nil, fmt.Errorf("timeline: %w", ErrActive)
	}
	r.deaf = stop
	r.on.Store(true)
	r.othersError = errNotAsked
	if o.Others {
		r.others, r.othersError = startOthers(r)
	}
	current.Store(r)
	go r.run()
	return r, nil
}

// Stop ends the recording, once the devices have done what they are doing or after
// a second. What was recorded stays. Devices that it wrapped go on as they are. A
// second Stop does nothing.
func (r *Recording) Stop() {
	r.stopping.Do(func() {
		r.on.Store(false)
		r.deaf()
		close(r.quit)
		<-r.ended
		current.CompareAndSwap(r, nil)
	})
	<-r.ended
}

// errNotAsked: [Options].Others was not set.
var errNotAsked = fmt.Errorf("timeline: %w: work of other libraries was not asked for", ErrArgument)

// Others tells whether the work of other libraries is recorded: the error says why not.
func (r *Recording) Others() error { return r.othersError }

// Now is the time on the recording's clock: since it began.
func (r *Recording) Now() time.Duration { return time.Since(r.began) }

// Began is when the recording's clock was zero.
func (r *Recording) Began() time.Time { return r.began }

// Dropped is how many of the oldest records are gone since there were more than
// [Options].Records.
func (r *Recording) Dropped() int64 {
	r.flush()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.store.dropped
}

// Untimed is how many pieces of work have no device times: more was queued at once
// than is timed, or they had not ended when the recording did.
func (r *Recording) Untimed() int64 { return r.untimed.Load() }

func (r *Recording) at(t time.Time) int64 { return int64(t.Sub(r.began)) }

func (r *Recording) now() int64 { return int64(time.Since(r.began)) }

// Span implements [probe.Listener].
func (r *Recording) Span(row probe.Row, s probe.Span) {
	if !r.on.Load() {
		return
	}
	start := max(r.at(s.Start), 0) // it may have begun before
	x := record{
		start: start, end: max(r.at(s.End), start), bytes: s.Bytes, batch: int32(s.Batch), count: int32(s.Samples),
		read: int64(s.Stages.Read), decode: int64(s.Stages.Decode), resize: int64(s.Stages.Resize),
	}
	r.rowOf(row).span(s.Name, x)
}

func (r *Recording) put(list ...record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range list {
		r.store.put(list[i])
	}
}

func (r *Recording) row(group, name string) int32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.store.row(group, name)
}

func (r *Recording) name(name string) int32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.store.name(name)
}

// clock notes by how much the times of a device may be off.
func (r *Recording) clock(id string, bound int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clocks[id] = max(r.clocks[id], bound)
}
