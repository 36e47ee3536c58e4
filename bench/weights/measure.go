package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/pinion-gpu/pinion/bench/internal/harness"
	"github.com/pinion-gpu/pinion/checkpoint"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/measure"
	"github.com/pinion-gpu/pinion/safetensors"
	"github.com/pinion-gpu/pinion/transfer"
)

const by = "Pinion"

// target is what the first row has to reach, on an H200.
const target = 46.0

// row is one figure.
type row struct {
	measure.Row
	AtLeast *float64 `json:"at_least,omitempty"`
}

// sample is a row to be measured.
type sample struct {
	measure.Sample
	atLeast *float64
}

func (s *sample) Result() row { return row{s.Sample.Result(), s.atLeast} }

// document is what is printed.
type document struct {
	harness.Document[row]
	Bytes   int64 `json:"bytes"` // of the model
	Tensors int   `json:"tensors"`
	Copiers int   `json:"copiers"`
}

// bench is a run.
type bench struct {
	options
	*document
	dev   device.Device
	paths []string // of the model's files
}

// measureAll measures dev, one group of rows after the other.
func measureAll(ctx context.Context, dev device.Device, o options) (d *document, err error) {
	b := &bench{options: o, dev: dev, document: &document{Document: harness.NewDocument[row](dev, "weights", 7), Copiers: o.copiers}}
	if o.Quick {
		b.Repeats = 1
		if o.model == "" {
			folder, err := os.MkdirTemp("", "weights")
			if err != nil {
				return nil, err
			}
			defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
			b.model = filepath.Join(folder, "model")
			if err := generate(ctx, b.model, 16<<20); err != nil {
				return nil, err
			}
		}
	}
	ck, err := safetensors.Open(b.model)
	if err != nil {
		return nil, fmt.Errorf("--model: %w", err)
	}
	b.Bytes, b.Tensors = ck.Bytes(), len(ck.Tensors())
	for _, f := range ck.Files() {
		b.paths = append(b.paths, f.Path())
	}
	if err := ck.Close(); err != nil {
		return nil, err
	}
	err = b.Measure(ctx, dev, o.Only, []harness.Group{
		{Name: "cached", Measure: b.cached},
		// A disk drifts: in turn with peers.
		{Name: "disk", Measure: b.disk, Asked: true},
		{Name: "cold", Measure: b.cold, Asked: true},
	})
	return b.document, err
}

// cached measures a model that was read before.
func (b *bench) cached(ctx context.Context, m *harness.Memory) error {
	engine, err := b.engine()
	if err != nil {
		return err
	}
	m.Later(engine.Close)
	const name = "load in page cache"
	load := b.loading(ctx, name, checkpoint.Options{}, engine)
	load.Check = func() error { return b.check(ctx, engine) }
	least := target
	load.atLeast = &least
	fresh := b.loading(ctx, name+", engine made anew", checkpoint.Options{}, nil)
	cast := b.loading(ctx, name+", cast to f16", checkpoint.Options{Floats: dtype.F16}, engine)
	layers := b.sample(name+", streamed layer by layer", nil, func() error { return b.stream(ctx, engine) })
	return harness.Add(ctx, &b.Document, []*sample{load, fresh, cast, layers})
}

// disk measures a load from the disk, for the documents about disks.
func (b *bench) disk(ctx context.Context, m *harness.Memory) error {
	b.What = "disk"
	return b.uncached(ctx, m, "disk h2d, checkpoint")
}

// cold measures the same beside what PyTorch's users do.
func (b *bench) cold(ctx context.Context, m *harness.Memory) error {
	return b.uncached(ctx, m, "load from disk")
}

// uncached measures a model whose pages are dropped from the page cache.
func (b *bench) uncached(ctx context.Context, m *harness.Memory, name string) error {
	b.Repeats = min(b.Repeats, 3)
	engine, err := b.engine()
	if err != nil {
		return err
	}
	m.Later(engine.Close)
	s := b.loading(ctx, name, checkpoint.Options{}, engine)
	load := s.Run
	s.Run = func() (float64, error) {
		for _, path := range b.paths {
			f, err := os.Open(path)
			if err != nil {
				return 0, err
			}
			if err := errors.Join(harness.DropPages(f), f.Close()); err != nil {
				return 0, err
			}
		}
		return load()
	}
	return harness.Add(ctx, &b.Document, []*sample{s})
}

func (b *bench) engine() (*transfer.Engine, error) {
	return transfer.New(b.dev, transfer.Options{Copiers: b.copiers})
}

// sample makes the row of one way to bring all bytes to the device.
func (b *bench) sample(name string, check func() error, run func() error) *sample {
	return &sample{Sample: measure.Sample{
		Row:   measure.Row{Name: name, By: by, Unit: "GB/s"},
		Check: check,
		Run: func() (float64, error) {
			start := time.Now()
			err := run()
			return time.Since(start).Seconds(), err
		},
		Figure: func(seconds float64) float64 { return float64(b.Bytes) / 1e9 / seconds },
	}}
}

// loading makes the row of a load by engine, or by one that is made for it if
// that is nil. The time to close it and to free the memory does not count.
func (b *bench) loading(ctx context.Context, name string, o checkpoint.Options, engine *transfer.Engine) *sample {
	s := b.sample(name, nil, nil)
	s.Run = func() (seconds float64, err error) {
		start := time.Now()
		e := engine
		if e == nil {
			if e, err = b.engine(); err != nil {
				return 0, err
			}
			defer func() { err = errors.Join(err, e.Close()) }()
		}
		ck, err := safetensors.Open(b.model)
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, ck.Close()) }()
		w, err := checkpoint.Load(ctx, ck, o, checkpoint.Target{Engine: e})
		if err != nil {
			return 0, err
		}
		return time.Since(start).Seconds(), w.Close()
	}
	return s
}

// stream brings all layers through two buffers.
func (b *bench) stream(ctx context.Context, e *transfer.Engine) (err error) {
	ck, err := safetensors.Open(b.model)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ck.Close()) }()
	for _, err := range checkpoint.Stream(ctx, ck, checkpoint.StreamOptions{}, checkpoint.Target{Engine: e}) {
		if err != nil {
			return err
		}
	}
	return nil
}

// check loads the model and compares every byte with the files, which then are
// in the page cache.
func (b *bench) check(ctx context.Context, e *transfer.Engine) (err error) {
	ck, err := safetensors.Open(b.model)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ck.Close()) }()
	w, err := checkpoint.Load(ctx, ck, checkpoint.Options{}, checkpoint.Target{Engine: e})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	const part = 64 << 20
	got, want := make([]byte, part), make([]byte, part)
	for _, t := range ck.Tensors() {
		on, ok := w.Find(t.Name)
		if !ok || on.Bytes != t.Bytes {
			return fmt.Errorf("%q is %+v on the device", t.Name, on)
		}
		r := t.Data()
		for done := int64(0); done < t.Bytes; {
			n := min(part, t.Bytes-done)
			if err := e.D2H(ctx, got[:n], on.Ptr.Add(done)); err != nil {
				return err
			}
			if _, err := io.ReadFull(r, want[:n]); err != nil {
				return err
			}
			if !bytes.Equal(got[:n], want[:n]) {
				return fmt.Errorf("%q: other bytes from %d on", t.Name, done)
			}
			done += n
		}
	}
	return nil
}
