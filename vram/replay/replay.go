package replay

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/vram/trace"
)

// Options of a replay. The zero value works.
type Options struct {
	// Progress is called now and then with the number of events so far.
	// Default: none.
	Progress func(events int64)

	// AtEnd is called behind the last event, while what the trace leaves live
	// still is: to look at the allocator. Its error is returned as it is.
	// Default: none.
	AtEnd func() error
}

// Result is what a replay measured.
type Result struct {
	Events int64 // of the trace

	PeakLiveBytes     int64 // granted and not freed
	PeakReservedBytes int64 // that the allocator had from the device
	PeakTraceBytes    int64 // what would have been live at the peak if no allocation had failed

	OOMs int64 // allocations that failed

	// LeastOOMBytes is the smallest amount that was too much for the
	// allocator: over all allocations that failed, the bytes asked for and
	// those that were live then. 0 where none failed.
	LeastOOMBytes int64

	// FailedInTrace are allocations that failed when the trace was recorded,
	// and FailedGranted those of them that succeeded here. They are freed at
	// once.
	FailedInTrace, FailedGranted int64

	Counts

	AllocP50, AllocP99 time.Duration // of allocations that were granted
	FreeP50            time.Duration
	Elapsed            time.Duration // of all, reading the trace included
}

// Fragmentation is the peak of the reserved bytes over that of the live ones: 1
// at best, and 0 where nothing was live.
func (r *Result) Fragmentation() float64 {
	if r.PeakLiveBytes == 0 {
		return 0
	}
	return float64(r.PeakReservedBytes) / float64(r.PeakLiveBytes)
}

// beyond is more than any device has. Allocations of more are out of memory
// without being tried: allocators may take them for a mistake.
const beyond = 1 << 60

// pause is how many events pass between looks at the context.
const pause = 256

// Run replays the events on a, which stays the caller's to close. What the
// trace leaves live is freed at the end, as it is when Run fails; nothing of
// that, or of Options.AtEnd, is in the result.
//
// An error of events is returned as it is. Others name the event, and wrap
// what the allocator returned, the context's error, or [trace.ErrMalformed] for
// events that make no sense.
func Run(ctx context.Context, events iter.Seq2[trace.Event, error], a Allocator, o Options) (Result, error) {
	r := replay{a: a, watch: newStopwatch(), live: map[uint64]allocation{}}
	err := r.run(ctx, events, o)
	r.Elapsed = r.watch.now()
	r.Counts = a.Counts()
	if err == nil && o.AtEnd != nil {
		err = o.AtEnd()
	}
	if err := errors.Join(err, r.freeRest()); err != nil {
		return Result{}, err
	}
	r.AllocP50, r.AllocP99 = r.allocs.quantile(0.5), r.allocs.quantile(0.99)
	r.FreeP50 = r.frees.quantile(0.5)
	return r.Result, nil
}

// replay is a run under way.
type replay struct {
	Result
	a             Allocator
	watch         stopwatch
	allocs, frees histogram

	live       map[uint64]allocation // by ID
	liveBytes  int64
	traceBytes uint64 // with those that failed: readers bound only what is granted
}

// allocation is one whose free has not come yet.
type allocation struct {
	handle  Handle
	bytes   int64
	stream  int
	granted bool
}

func (r *replay) run(ctx context.Context, events iter.Seq2[trace.Event, error], o Options) error {
	for e, err := range events {
		if err != nil {
			return err
		}
		if r.Events%pause == 0 {
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("replay: after %d events: %w", r.Events, err)
			}
			if o.Progress != nil {
				o.Progress(r.Events)
			}
		}
		r.Events++
		if err := r.event(ctx, e); err != nil {
			return fmt.Errorf("replay: event %d: %s of %d bytes: %w", r.Events, e.Op, e.Bytes, err)
		}
	}
	return nil
}

func (r *replay) event(ctx context.Context, e trace.Event) error {
	if e.Op == trace.Free {
		allocation, ok := r.live[e.ID]
		if !ok {
			return fmt.Errorf("%w: %d is not live", trace.ErrMalformed, e.ID)
		}
		delete(r.live, e.ID)
		return r.free(allocation, e)
	}
	if e.Failed {
		r.FailedInTrace++
		allocation, err := r.alloc(ctx, e)
		if allocation.granted {
			r.FailedGranted++
		}
		if err != nil {
			return err
		}
		return r.free(allocation, e)
	}
	if _, ok := r.live[e.ID]; ok {
		return fmt.Errorf("%w: %d is already live", trace.ErrMalformed, e.ID)
	}
	allocation, err := r.alloc(ctx, e)
	if err == nil {
		r.live[e.ID] = allocation
	}
	return err
}

// alloc allocates. Out of memory is no error here.
func (r *replay) alloc(ctx context.Context, e trace.Event) (allocation, error) {
	if e.Bytes <= 0 {
		return allocation{}, trace.ErrMalformed
	}
	if e.Bytes > beyond {
		r.short(beyond)
		r.ask(e)
		return allocation{bytes: e.Bytes}, nil
	}
	start := r.watch.now()
	handle, err := r.a.Alloc(ctx, e)
	took := r.watch.since(start)
	switch {
	case err == nil:
		r.allocs.add(took)
		r.liveBytes += e.Bytes
		r.PeakLiveBytes = max(r.PeakLiveBytes, r.liveBytes)
	case errors.Is(err, device.ErrOutOfMemory):
		r.short(r.liveBytes + e.Bytes)
	default:
		return allocation{}, err
	}
	r.ask(e)
	r.PeakReservedBytes = max(r.PeakReservedBytes, r.a.Reserved())
	return allocation{handle, e.Bytes, e.Stream, err == nil}, nil
}

// short counts an allocation that failed when so many bytes would have been
// live with it.
func (r *replay) short(need int64) {
	r.OOMs++
	if r.LeastOOMBytes == 0 || need < r.LeastOOMBytes {
		r.LeastOOMBytes = need
	}
}

// ask counts what the trace asks for.
func (r *replay) ask(e trace.Event) {
	r.traceBytes += uint64(e.Bytes)
	r.PeakTraceBytes = max(r.PeakTraceBytes, int64(min(r.traceBytes, math.MaxInt64)))
}

// free frees an allocation that was granted.
func (r *replay) free(x allocation, e trace.Event) error {
	r.traceBytes -= uint64(x.bytes)
	if !x.granted {
		return nil
	}
	r.liveBytes -= x.bytes
	start := r.watch.now()
	err := r.a.Free(x.handle, e)
	r.frees.add(r.watch.since(start))
	return err
}

// freeRest frees what is live, outside of all figures.
func (r *replay) freeRest() error {
	var errs []error
	for id, x := range r.live {
		if x.granted {
			errs = append(errs, r.a.Free(x.handle, trace.Event{Op: trace.Free, ID: id, Bytes: x.bytes, Stream: x.stream}))
		}
	}
	return errors.Join(errs...)
}
