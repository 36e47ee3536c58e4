package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pinion-gpu/pinion/transfer/pipeline"
)

// unordered does all that t does with nothing waiting for anything: all bytes
// come in, all go out and all are computed on at once. A pipeline moves the same
// bytes over the same link and computes the same, but in order, so that no
// pipeline takes less time, however its chunks are cut.
func (t *stream) unordered(ctx context.Context, m *memory, chunk int64) func() (float64, error) {
	return timed(func() error {
		var all errgroup.Group
		all.Go(func() error { return t.engine.H2D(ctx, t.from, t.in) })
		if t.out != nil {
			all.Go(func() error { return t.engine.D2H(ctx, t.out, t.to) })
		}
		all.Go(func() error {
			for at, total := int64(0), int64(len(t.in)); at < total; at += chunk {
				if err := t.compute(m.Stream, t.part(at, min(chunk, total-at))); err != nil {
					return err
				}
			}
			return m.Stream.Synchronize()
		})
		return all.Wait()
	})
}

// part is n bytes at that offset as a chunk, in memory for all of them.
func (t *stream) part(at, n int64) pipeline.Chunk {
	return pipeline.Chunk{Offset: at, In: t.from.Add(at), InBytes: n, Out: t.to.Add(at), OutBytes: n}
}

// balance makes computing take as long as the slower copy.
func (t *stream) balance(ctx context.Context, m *memory, chunk int64) error {
	in := func(at int64) error { return t.engine.H2D(ctx, t.from, t.in[at:at+chunk]) }
	out := func(at int64) error { return t.engine.D2H(ctx, t.out[at:at+chunk], t.to) }
	compute := func(at int64) error {
		return errors.Join(t.compute(m.Stream, t.part(at, chunk)), m.Stream.Synchronize())
	}
	chunks := int64(len(t.in)) / chunk
	for range 3 { // the later rounds correct for what a launch costs
		copied, err := timeAlone(in, chunk, chunks)
		if err != nil {
			return err
		}
		if t.out != nil {
			back, err := timeAlone(out, chunk, chunks)
			if err != nil {
				return err
			}
			copied = max(copied, back)
		}
		computed, err := timeAlone(compute, chunk, chunks)
		if err != nil {
			return err
		}
		t.casts = max(t.casts, 1) * float64(copied) / float64(computed)
	}
	return nil
}

// timeAlone is the median time of a stage, of those that are warm. Each time is
// of another chunk: a chunk that is in the processor's caches is faster.
func timeAlone(stage func(at int64) error, chunk, chunks int64) (time.Duration, error) {
	var times []time.Duration
	for i := range int64(12) {
		start := time.Now()
		if err := stage(i % chunks * chunk); err != nil {
			return 0, err
		}
		times = append(times, max(time.Since(start), 1))
	}
	slices.Sort(times[2:])
	return times[2+len(times[2:])/2], nil
}
