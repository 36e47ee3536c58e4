package loader

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pinion-gpu/pinion/dataset"
)

// ErrTimeout: a sample took longer than [Options.SampleTimeout].
var ErrTimeout = errors.New("sample timed out")

// errStuck: too many reads never came back.
var errStuck = errors.New("reads are stuck")

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
	defer recoverAs(&err, "in the dataset")
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
func (r *reading) guarded(v dataset.Visit, dst [][]byte) error {
	g, l := r.guard, r.loader
	limit := l.options.SampleTimeout
	ctx, cancel := context.WithTimeout(l.ctx, limit)
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
		if err != nil && ctx.Err() != nil && l.ctx.Err() == nil {
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
	stuck := l.stuck.Add(1)
	go func() { // ends when the read does
		<-g.done
		l.stuck.Add(-1)
	}()
	g.leave()
	if l.ctx.Err() == nil && stuck > maxStuck {
		return fmt.Errorf("loader: %w: %d at a time did not return within %v; at last: %w", errStuck, stuck, limit, ErrTimeout)
	}
	err := fmt.Errorf("%w after %v, and was left alone", ErrTimeout, limit)
	if now := g.readers.now.Load(); now > 0 {
		return &targetError{int(now) - 1, err}
	}
	return err
}
