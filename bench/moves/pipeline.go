package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/kernels"
	"github.com/pinion-gpu/pinion/transfer"
)

// pipelines measures data that stream through the device, with computing that
// takes as long as the slower of the two copies: the case in which overlap
// gains most and is hardest. A row is the per cent of the ideal time, which
// follows from what each stage takes for one chunk alone, in which nothing
// disturbs it.
func (b *bench) pipelines(ctx context.Context, m *memory) error {
	set, err := kernels.Load(b.dev)
	if err != nil {
		return err
	}
	m.later(set.Close)
	engine, err := b.engine(m)
	if err != nil {
		return err
	}
	var samples []*sample
	for _, memory := range []struct {
		name string
		take func(int64) ([]byte, error)
	}{{"pinned", m.pinned}, {"pageable", m.pageable}} {
		name := "pipeline, " + memory.name
		in, err := memory.take(b.pipeline)
		var out []byte
		if err == nil {
			out, err = memory.take(b.pipeline)
		}
		if err != nil {
			b.skip(name, err)
			continue
		}
		fill(in, 5)
		fill(out, 6) // faults its pages in
		s, err := pipelineSample(ctx, m, &stream{engine: engine, kernels: set, in: in, out: out})
		if err != nil {
			return err
		}
		s.row.Name = name
		samples = append(samples, s)
	}
	return b.inTurn(ctx, samples)
}

// stream is one array on its way through the device: casts of int8 to uint8,
// over and over.
type stream struct {
	engine  *transfer.Engine
	kernels *kernels.Set
	in, out []byte
	casts   float64 // of each byte; the part of the last that is none runs over a part of the chunk
}

// compute queues the casts of a chunk.
func (t *stream) compute(s device.Stream, c transfer.Chunk) error {
	for left := max(int64(t.casts*float64(c.InBytes)), c.InBytes); left > 0; left -= c.InBytes {
		if err := t.kernels.Cast(s, c.Out, dtype.U8, c.In, dtype.I8, min(left, c.InBytes)); err != nil {
			return err
		}
	}
	return nil
}

func (t *stream) run(ctx context.Context) (transfer.PipelineReport, error) {
	return t.engine.Run(ctx, transfer.Pipeline{In: transfer.Bytes(t.in), Out: transfer.Bytes(t.out), Compute: t.compute})
}

// pipelineSample balances t's computing with its copies and prepares its row.
func pipelineSample(ctx context.Context, m *memory, t *stream) (*sample, error) {
	warm, err := t.run(ctx)
	if err != nil {
		return nil, err
	}
	n := warm.ChunkBytes
	from, err := m.device(n)
	if err != nil {
		return nil, err
	}
	to, err := m.device(n)
	if err != nil {
		return nil, err
	}
	stages := [3]func(at int64) error{
		func(at int64) error { return t.engine.H2D(ctx, from, t.in[at:at+n]) },
		func(int64) error {
			return errors.Join(t.compute(m.stream, transfer.Chunk{In: from, InBytes: n, Out: to, OutBytes: n}), m.stream.Synchronize())
		},
		func(at int64) error { return t.engine.D2H(ctx, t.out[at:at+n], to) },
	}
	total := int64(len(t.in))
	var alone [3]time.Duration
	for range 3 { // the later rounds correct for what a launch costs
		for i, stage := range stages {
			if alone[i], err = timeAlone(stage, n, total); err != nil {
				return nil, err
			}
		}
		t.casts = max(t.casts, 1) * float64(max(alone[0], alone[2])) / float64(alone[1])
	}
	if alone[1], err = timeAlone(stages[1], n, total); err != nil {
		return nil, err
	}
	ideal := idealTime(alone, n, total).Seconds()
	var setups []float64
	return &sample{
		row: row{Unit: "%", ChunkBytes: n},
		check: func() error {
			blankOut(t.out)
			_, err := t.run(ctx)
			return errors.Join(err, clampedRight(t.out, t.in))
		},
		run: func() (float64, error) {
			report, err := t.run(ctx)
			setups = append(setups, report.Setup.Seconds())
			return report.Wall.Seconds(), err
		},
		figure: func(wall float64) float64 { return 100 * ideal / wall },
		finish: func(r *row) {
			r.SetupSeconds = median(setups)
			r.GBPerS = float64(total) / 1e9 / ideal * r.Value / 100
		},
	}, nil
}

// timeAlone is the median time of a stage, of those that are warm. Each time is
// of another chunk: a chunk that is in the processor's caches is faster.
func timeAlone(stage func(at int64) error, chunk, total int64) (time.Duration, error) {
	var times []time.Duration
	for i := range int64(12) {
		start := time.Now()
		if err := stage(i % (total / chunk) * chunk); err != nil {
			return 0, err
		}
		times = append(times, max(time.Since(start), 1))
	}
	times = times[2:]
	slices.Sort(times)
	return times[len(times)/2], nil
}

// idealTime is when the last stage is done with all bytes if each chunk enters
// a stage the moment that it has left the one before and the chunk ahead of it
// has left the stage. alone are the times of a full chunk.
func idealTime(alone [3]time.Duration, chunk, total int64) time.Duration {
	var free [3]float64 // when a stage is done with the chunks so far
	for at := int64(0); at < total; at += chunk {
		share := float64(min(chunk, total-at)) / float64(chunk)
		ready := 0.0
		for i, t := range alone {
			ready = max(ready, free[i]) + share*float64(t)
			free[i] = ready
		}
	}
	return time.Duration(free[2])
}

// clampedRight checks that got is sent with negative int8 made zero.
func clampedRight(got, sent []byte) error {
	wrong := make([]error, len(got)/partBytes+1)
	inParts(got, func(i int, part []byte) {
		for k, v := range part {
			if was := sent[i*partBytes+k]; v != byte(max(int8(was), 0)) {
				wrong[i] = fmt.Errorf("byte %d of %d: %#x became %#x", i*partBytes+k, len(got), was, v)
				return
			}
		}
	})
	return errors.Join(wrong...)
}
