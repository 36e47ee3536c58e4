package read

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/loader/internal/slab"
	"github.com/pinion-gpu/pinion/loader/internal/usercode"
)

// ErrTimeout: a sample took longer than its time limit.
var ErrTimeout = errors.New("sample timed out")

// ErrStuck: too many reads never came back.
var ErrStuck = errors.New("reads are stuck")

// maxStuck is how many reads may be stuck at a time.
const maxStuck = 64

// guard reads samples in a goroutine of its own and into memory of its own, so
// that a read that never comes back can be left alone: nothing of the loader
// is touched by it any more.
type guard struct {
	readers *readers
	visits  chan guarded
	done    chan error
	buffer  []byte   // the goroutine's during a visit
	places  [][]byte // parts of it: of a sample, and of its targets
	timing  dataset.Timing
	ended   chan struct{} // closed when the goroutine is about to end
}

// guarded is a visit that a guard is asked for.
type guarded struct {
	ctx   context.Context
	visit dataset.Visit
}

func newGuard(r *readers) *guard {
	g := &guard{readers: r, visits: make(chan guarded), done: make(chan error, 1), ended: make(chan struct{})}
	go g.serve()
	return g
}

// serve reads until there are no more visits.
func (g *guard) serve() {
	defer close(g.ended)
	defer g.readers.close()
	for v := range g.visits {
		g.done <- g.read(v)
	}
}

func (g *guard) read(v guarded) (err error) {
	over := false
	defer func() {
		if !over {
			g.done <- usercode.ErrGoexit
		}
	}()
	err = g.readSafely(v)
	over = true
	return err
}

func (g *guard) readSafely(v guarded) (err error) {
	defer usercode.Recover(&err, "in the dataset")
	return g.readers.read(v.ctx, v.visit, g.places)
}

// take makes places of those sizes.
func (g *guard) take(sizes [][]byte) {
	bytes := 0
	for _, s := range sizes {
		bytes += len(s)
	}
	if cap(g.buffer) < bytes {
		g.buffer = make([]byte, bytes)
	}
	g.places = g.places[:0]
	rest := g.buffer[:bytes]
	for _, s := range sizes {
		g.places = append(g.places, rest[:len(s):len(s)])
		rest = rest[len(s):]
	}
}

// close ends a goroutine that has nothing to do.
func (g *guard) close() {
	g.leave()
	<-g.ended
}

// leave lets the goroutine end, when it comes back from what it does.
func (g *guard) leave() { close(g.visits) }

// guarded reads a sample with its targets within the time limit. A guard that
// does not come back in time is left alone, and the next sample gets a new one.
func (r *Reader) guarded(v dataset.Visit, dst [][]byte) error {
	g, w := r.guard, r.workers
	limit := w.source.Timeout
	ctx, cancel := context.WithTimeout(w.ctx, limit)
	defer cancel()
	timing := v.Timing
	v.Timing = &g.timing
	g.timing = dataset.Timing{}
	g.take(dst)
	g.visits <- guarded{ctx, v}
	// Not ctx, which Close ends: the dataset is in use until the read is over.
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case err := <-g.done:
		if errors.Is(err, usercode.ErrGoexit) {
			r.guard = nil // its goroutine is over
		}
		if err != nil && ctx.Err() != nil && w.ctx.Err() == nil {
			return fmt.Errorf("%w after %v: %w", ErrTimeout, limit, err)
		}
		if err != nil {
			return err
		}
		for i, place := range g.places {
			copy(dst[i], place)
		}
		if timing != nil {
			timing.Read += g.timing.Read
			timing.Decode += g.timing.Decode
			timing.Resize += g.timing.Resize
		}
		return nil
	case <-late.C:
	}
	r.guard = nil
	stuck := w.stuck.Add(1)
	go func() { // ends when the read does
		<-g.done
		w.stuck.Add(-1)
	}()
	g.leave()
	if w.ctx.Err() == nil && stuck > maxStuck {
		return fmt.Errorf("%w: %d at a time did not return within %v; the last: %w", ErrStuck, stuck, limit, ErrTimeout)
	}
	err := fmt.Errorf("%w after %v, and was left alone", ErrTimeout, limit)
	if now := g.readers.now.Load(); now > 0 {
		return &slab.TargetError{Target: int(now) - 1, Err: err}
	}
	return err
}
