package pipeline

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/transfer"
)

// Pipeline says what goes through a device, and what is done to it there.
// [Run] carries it out.
type Pipeline struct {
	// In is what goes through the device: [Bytes], or another [Source].
	In Source

	// Out takes the results; each item of In becomes one of Out, in the same
	// order. Nil copies nothing back, for reductions. Out may be the very
	// memory of In if the items of both have one size; otherwise the two must
	// not overlap.
	Out Sink

	// Compute queues work on s that reads c.In and writes c.Out. It must not
	// wait for s, and the addresses are its own only until that work is done.
	// It is called once for each chunk, in order, from one goroutine, which is
	// not the one that called Run. An error or a panic ends the run.
	Compute func(s device.Stream, c Chunk) error

	// ItemBytes is what a chunk boundary must not cut, such as a row of a
	// matrix. The size of In is a multiple of it. Default: 1.
	ItemBytes int64

	// OutItemBytes is the bytes of Out for each item of In. Default: ItemBytes.
	OutItemBytes int64

	// ChunkBytes is the size of a chunk, in bytes of In; a multiple of
	// ItemBytes. The last chunk may be smaller. Default: what balances the
	// cost of a chunk, as the model of the link has it, against the first copy
	// in and the last copy out, which nothing hides: between 1 and 256 MiB of
	// the larger of In and Out, one item at least, and in half of the device's
	// free memory if 1 MiB fits there.
	ChunkBytes int64

	// Buffers is the number of chunks that device memory is taken for, In and
	// Out each, 1 to 16. Two overlap everything when all chunks take the same
	// time, three even out differences (and InPlace needs three to overlap
	// everything); one overlaps next to nothing. Default: 3.
	Buffers int

	// InPlace has Compute write its result over its input: c.Out is c.In. It
	// halves the device memory. Items of In and Out must have one size.
	InPlace bool

	// Progress, if set, is called after each chunk with the bytes of In that
	// are through, from the goroutine that called Run, the last time with
	// done == total.
	Progress func(done, total int64)
}

// Chunk is one piece of the data on the device.
type Chunk struct {
	Index  int   // from 0
	Offset int64 // in In, bytes

	In      device.Ptr // aligned to 256 bytes
	InBytes int64

	Out      device.Ptr // aligned to 256 bytes; 0 without Pipeline.Out
	OutBytes int64
}

// Run streams p.In through the device and returns when everything is done, or
// when it failed or ctx ended: then what is queued is waited for, and the
// engine and its device stay usable. In every case all that Run took is given
// back, and nothing touches In and Out any more. Several runs may go on at
// once. Close the engine only after Run has returned.
//
// Bad options fail with [device.ErrArgument], chunks that do not fit with
// [device.ErrOutOfMemory]. The error of a chunk names its index and offset. The
// report tells of the chunks that got through, also beside an error: Out then
// holds their results, and after them, for at most twice Buffers chunks, old
// or new bytes.
//
// Files ([FileRange], [NewFile]) are looked at before anything is copied.
func Run(ctx context.Context, e *transfer.Engine, p Pipeline) (report Report, err error) {
	began := time.Now()
	// A copy of nothing fails when the context has ended or the engine is closed.
	if err := e.H2D(ctx, 0, nil); err != nil {
		return report, err
	}
	plan, err := p.plan(e.Device(), chunkSeconds(e, p.In))
	if err != nil {
		return report, err
	}
	if err := p.checkFiles(); err != nil {
		return report, fmt.Errorf("transfer: pipeline: %w", err)
	}
	out, ok := p.Out.(NewFile)
	if !ok {
		return stream(ctx, e, &p, plan, began)
	}
	d, err := out.create()
	if err != nil {
		return report, fmt.Errorf("transfer: pipeline: %w", err)
	}
	defer func() { err = errors.Join(err, d.file.Discard()) }() // also when Progress panics
	p.Out = d.part()
	if report, err = stream(ctx, e, &p, plan, began); err != nil {
		return report, err
	}
	if err := d.commit(); err != nil {
		return report, fmt.Errorf("transfer: pipeline: %w", err)
	}
	return report, nil
}

// checkFiles looks whether files have the bytes that the run is to read or can
// take those that it is to write.
func (p *Pipeline) checkFiles() error {
	if f, ok := p.In.(FileRange); ok {
		if err := f.check(false); err != nil {
			return fmt.Errorf("input: %w", err)
		}
	}
	if f, ok := p.Out.(FileRange); ok {
		if err := f.check(true); err != nil {
			return fmt.Errorf("output: %w", err)
		}
	}
	return nil
}

// stream carries out a checked pipeline.
func stream(ctx context.Context, e *transfer.Engine, p *Pipeline, plan layout, began time.Time) (report Report, err error) {
	if plan.chunks == 0 {
		return report, nil
	}
	r := newRun(ctx, e, p, plan)
	defer func() { // also when Progress panics
		closeErr := r.close()
		runtime.KeepAlive(p) // the driver may use In and Out to the end
		report = r.summary()
		switch {
		case r.err != nil:
			err = r.err
		case len(r.times) < plan.chunks:
			err = ctx.Err()
		default:
			err = closeErr
		}
	}()
	if err := r.open(); err != nil {
		r.fail(-1, err)
		return report, err
	}
	r.setup = time.Since(began)
	r.start()
	r.retire()
	return report, nil
}
