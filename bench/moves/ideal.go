package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pinion-gpu/pinion/transfer/pipeline"
)

// stageTimes are what the stages of a pipeline take for a full chunk, each
// measured when nothing else goes on. Copies in and out at once share the link,
// in any program, so their time is measured too.
type stageTimes struct {
	in, compute, out time.Duration // alone
	both             time.Duration // one chunk in and one out, at once; 0: as if they were alone
}

// ideal is when the last stage is done with all bytes if each chunk enters a
// stage the moment that it has left the one before and the chunk ahead of it
// has left the stage. A chunk comes in beside one that goes out from the third
// on, and goes out beside one that comes in up to the last but two.
func (t stageTimes) ideal(chunk, total int64) time.Duration {
	var free [3]float64 // when a stage is done with the chunks so far
	chunks := (total + chunk - 1) / chunk
	for k := range chunks {
		stages := [3]time.Duration{t.in, t.compute, t.out}
		if k >= 2 {
			stages[0] = max(t.in, t.both)
		}
		if k < chunks-2 {
			stages[2] = max(t.out, t.both)
		}
		share := float64(min(chunk, total-k*chunk)) / float64(chunk)
		ready := 0.0
		for i, d := range stages {
			ready = max(ready, free[i]) + share*float64(d)
			free[i] = ready
		}
	}
	return time.Duration(free[2])
}

// balance makes computing take as long as the slower copy, and returns what the
// stages then take.
func (t *stream) balance(ctx context.Context, m *memory, chunk int64) (times stageTimes, err error) {
	from, err := m.Alloc(chunk)
	if err != nil {
		return times, err
	}
	to, err := m.Alloc(chunk)
	if err != nil {
		return times, err
	}
	in := func(at int64) error { return t.engine.H2D(ctx, from, t.in[at:at+chunk]) }
	out := func(at int64) error { return t.engine.D2H(ctx, t.out[at:at+chunk], to) }
	compute := func(int64) error {
		err := t.compute(m.Stream, pipeline.Chunk{In: from, InBytes: chunk, Out: to, OutBytes: chunk})
		return errors.Join(err, m.Stream.Synchronize())
	}
	chunks := int64(len(t.in)) / chunk
	for range 3 { // the later rounds correct for what a launch costs
		if times.in, err = timeAlone(in, chunk, chunks); err != nil {
			return times, err
		}
		if t.out != nil {
			if times.out, err = timeAlone(out, chunk, chunks); err != nil {
				return times, err
			}
		}
		if times.compute, err = timeAlone(compute, chunk, chunks); err != nil {
			return times, err
		}
		t.casts = max(t.casts, 1) * float64(max(times.in, times.out)) / float64(times.compute)
	}
	if times.compute, err = timeAlone(compute, chunk, chunks); err != nil || t.out == nil {
		return times, err
	}
	times.both, err = timeTogether(in, out, chunk, chunks)
	return times, err
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
	return middle(times[2:]), nil
}

// timeTogether is the time for a chunk of each of two copies that go on at
// once. It is that of several chunks in a row, so that it does not count when
// one copy starts or ends a little after the other.
func timeTogether(in, out func(at int64) error, chunk, chunks int64) (time.Duration, error) {
	const rounds, row = 6, 4
	var times []time.Duration
	for i := range int64(rounds) {
		several := func(stage func(at int64) error) error {
			for k := range int64(row) {
				if err := stage((i*row + k) % chunks * chunk); err != nil {
					return err
				}
			}
			return nil
		}
		done := make(chan error, 1)
		start := time.Now()
		go func() { done <- several(out) }()
		if err := errors.Join(several(in), <-done); err != nil {
			return 0, err
		}
		times = append(times, max(time.Since(start)/row, 1))
	}
	return middle(times[1:]), nil
}

func middle(times []time.Duration) time.Duration {
	slices.Sort(times)
	return times[len(times)/2]
}
