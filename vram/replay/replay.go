package replay

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"runtime"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/vram/trace"
)

// Options of a replay. The zero value works.
type Options struct {
	// Progress is called every 256 events with the number of events so far.
	// Default: none.
	Progress func(events int64)

	// Tidy calls [vram.Pool.Tidy] between events, outside of the times that are
	// measured, as a program does that has time. Default: not.
	Tidy bool

	// AtEnd is called after the last event, to look at the allocator: blocks
	// that the trace does not free are still live. Its error is returned as it is.
	// Default: none.
	AtEnd func() error
}

// Result is what a replay measured.
type Result struct {
	Events int64 // of the trace

	PeakLiveBytes     int64 // granted and not freed
	PeakReservedBytes int64 // that the allocator had from the device
	PeakTraceBytes    int64 // live at the peak of the recorded run: what the trace needs

	OOMs int64 // allocations that failed here, and had succeeded when they were recorded

	// LeastOOMBytes is the smallest amount that was too much for the
	// allocator: the least, over the allocations that OOMs counts, of the bytes
	// asked for and those that were live then. 0 if there were none.
	LeastOOMBytes int64

	// FailedInTrace counts the allocations that had failed when they were
	// recorded, and FailedGranted those of them that succeeded here; these are
	// freed at once. The recorded run went on without them, so they count
	// neither as OOMs nor as what the trace needs.
	FailedInTrace, FailedGranted int64

	Counts

	AllocP50, AllocP99 time.Duration // of allocations that were granted
	FreeP50            time.Duration
	Elapsed            time.Duration // of the whole run, with reading the trace
}

// Fragmentation is the peak of the reserved bytes divided by that of the live
// bytes: 1 at best, and 0 if nothing was live.
func (r *Result) Fragmentation() float64 {
	if r.PeakLiveBytes == 0 {
		return 0
	}
	return float64(r.PeakReservedBytes) / float64(r.PeakLiveBytes)
}

// beyond is more than any device has. Larger allocations count as out of memory
// without being tried: allocators may reject them as a bad argument.
const beyond = 1 << 60

// pause is how many events pass between two checks of the context.
const pause = 256

// Run replays the events on a, which the caller has to close. Blocks that are
// live at the end, or when Run fails, are freed; the result covers neither that
// nor Options.AtEnd.
//
// An error of events is returned as it is. Other errors name the event and wrap
// the allocator's error, the context's error, or [trace.ErrMalformed] for events
// that contradict those before.
func Run(ctx context.Context, events iter.Seq2[trace.Event, error], a Allocator, o Options) (Result, error) {
	runtime.GC() // which collects what came before, outside of all times
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
	traceBytes uint64 // live in the recorded run
}

// allocation is one that was not freed yet.
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
		err := r.event(ctx, e)
		if p, ok := r.a.(*Pool); ok && err == nil {
			err = p.settle() // outside of all times: the next event finds the same in every run
			if err == nil && o.Tidy {
				_, err = p.pool.Tidy(ctx)
			}
		}
		if err != nil {
			return fmt.Errorf("replay: event %d: %s of %s: %w", r.Events, e.Op, units.Bytes(e.Bytes), err)
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
		r.traceBytes -= uint64(allocation.bytes)
		return r.free(allocation, e)
	}
	if e.Failed {
		return r.retry(ctx, e)
	}
	if _, ok := r.live[e.ID]; ok {
		return fmt.Errorf("%w: %d is already live", trace.ErrMalformed, e.ID)
	}
	allocation, err := r.alloc(ctx, e)
	if err != nil {
		return err
	}
	r.live[e.ID] = allocation
	r.traceBytes += uint64(e.Bytes)
	r.PeakTraceBytes = max(r.PeakTraceBytes, int64(min(r.traceBytes, math.MaxInt64)))
	if !allocation.granted {
		r.OOMs++
		if need := min(r.liveBytes+e.Bytes, beyond); r.LeastOOMBytes == 0 || need < r.LeastOOMBytes {
			r.LeastOOMBytes = need
		}
	}
	return nil
}

// retry tries an allocation that had failed when it was recorded.
func (r *replay) retry(ctx context.Context, e trace.Event) error {
	r.FailedInTrace++
	allocation, err := r.alloc(ctx, e)
	if err != nil || !allocation.granted {
		return err
	}
	r.FailedGranted++
	return r.free(allocation, e)
}

// alloc allocates. Out of memory is no error here: the allocation is then not
// granted.
func (r *replay) alloc(ctx context.Context, e trace.Event) (allocation, error) {
	if e.Bytes <= 0 {
		return allocation{}, trace.ErrMalformed
	}
	if e.Bytes > beyond {
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
	case !errors.Is(err, device.ErrOutOfMemory):
		return allocation{}, err
	}
	r.PeakReservedBytes = max(r.PeakReservedBytes, r.a.Reserved())
	return allocation{handle, e.Bytes, e.Stream, err == nil}, nil
}

// free frees an allocation that was granted.
func (r *replay) free(x allocation, e trace.Event) error {
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
