package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/pinion-gpu/pinion/bench/internal/harness"
	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/atomicfile"
	"github.com/pinion-gpu/pinion/internal/measure"
	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/loader"
	"github.com/pinion-gpu/pinion/transfer"
)

var imageSpec = dataset.Spec{Shape: []int{256, 256, 3}, DType: dtype.U8}

// mapped measures images of 256x256x3 bytes, in a file in the page cache and in
// memory, over the link, beside the staged copy of the same bytes.
func (b *bench) mapped(ctx context.Context, m *harness.Memory) error {
	raw, path, err := b.rawImages(ctx, m)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	memory, err := dataset.NewMemory(data, imageSpec, dataset.MemoryOptions{})
	if err != nil {
		return err
	}
	staged, err := b.staged(ctx, m, data)
	if err != nil {
		return err
	}
	samples := []*sample{staged}
	for _, source := range []struct {
		name string
		ds   dataset.Dataset
	}{{"a file", raw}, {"memory", memory}} {
		for _, batch := range b.batches {
			for _, d := range []dtype.DType{dtype.U8, dtype.F16} {
				name := imagesTo(source.name, d, batch)
				samples = append(samples, b.imagesRow(ctx, m, name, source.ds, loader.Options{Batch: batch, DType: d}))
			}
		}
	}
	promised := len(samples)
	const driver = 1 // byte of pinned memory: too little to stage anything
	for _, batch := range b.batches {
		if m.Dev.Info().Integrated {
			break // nothing is pinned or staged there
		}
		name := imagesTo("a file", dtype.U8, batch) + ", slabs not pinned"
		o := loader.Options{Batch: batch, DType: dtype.U8, Pin: loader.PinNever}
		samples = append(samples, b.imagesRow(ctx, m, name, raw, o))
		o.PinBudget = driver
		samples = append(samples, b.imagesRow(ctx, m, name+", driver's copy", raw, o))
	}
	largest := b.batches[len(b.batches)-1]
	for _, ahead := range []int{1, 2, 4, 8} {
		name := fmt.Sprintf("%s, %d read ahead", imagesTo("a file", dtype.U8, largest), ahead)
		samples = append(samples, b.imagesRow(ctx, m, name, raw, loader.Options{Batch: largest, DType: dtype.U8, Prefetch: ahead}))
	}
	if err := b.inTurn(ctx, samples...); err != nil {
		return err
	}
	for _, s := range samples[1:promised] {
		b.share(s.Row.Name+", of the staged copy", s, staged, 1, atLeast(90))
	}
	return nil
}

// imagesTo names rows of images that become batches.
func imagesTo(source string, d dtype.DType, batch int) string {
	return fmt.Sprintf("images in %s to %v batches of %d", source, d, batch)
}

// imagesRow is the row of images on their way over the link, as bytes.
func (b *bench) imagesRow(ctx context.Context, m *harness.Memory, name string, ds dataset.Dataset, o loader.Options, others ...device.Device) *sample {
	o.Shuffle, o.DropLast = true, true
	f := feed{m: m, others: others, ds: ds, options: o}
	batch := o.Batch
	timed := ds.Len() / batch
	return &sample{Sample: measure.Sample{
		Row:   measure.Row{Name: name, By: pinionBy(b.Workers), Unit: "GB/s"},
		Check: func() error { return f.checkImages(ctx, exact(o.DType)) },
		Run: func() (float64, error) {
			seconds, err := f.steady(ctx, 12, timed)
			return float64(timed*batch*ds.Spec().Bytes()) / 1e9 / seconds, err
		},
	}}
}

// staged is the row of one copy of data to the device, by an engine.
func (b *bench) staged(ctx context.Context, m *harness.Memory, data []byte) (*sample, error) {
	engine, err := transfer.New(m.Dev, transfer.Options{Copiers: b.copiers})
	if err != nil {
		return nil, err
	}
	m.Later(engine.Close)
	to, err := m.Alloc(int64(len(data)))
	if err != nil {
		return nil, err
	}
	by := "Pinion's engine"
	if b.copiers > 0 {
		by += ", " + units.Count(b.copiers, "copier")
	}
	return &sample{Sample: measure.Sample{
		Row: measure.Row{Name: "staged copy of ordinary memory", By: by, Unit: "GB/s"},
		Check: func() error {
			half := make([]byte, len(data)/2)
			err := errors.Join(engine.H2D(ctx, to, data), m.Stream.CopyD2H(half, to.Add(int64(len(half)))), m.Stream.Synchronize())
			if err == nil && string(half) != string(data[len(half):2*len(half)]) {
				err = errors.New("what arrived is not what was sent")
			}
			return err
		},
		Run: func() (float64, error) {
			start := time.Now()
			err := engine.H2D(ctx, to, data)
			return float64(len(data)) / 1e9 / measure.Since(start, time.Second), err
		},
	}}, nil
}

// rawImages opens the file of images, which is made if it is not there.
func (b *bench) rawImages(ctx context.Context, m *harness.Memory) (raw *dataset.Raw, path string, err error) {
	if path, err = b.imageFile(ctx); err != nil {
		return nil, "", err
	}
	if raw, err = dataset.OpenRaw(path, imageSpec, dataset.RawOptions{}); err == nil {
		m.Later(raw.Close)
	}
	return raw, path, err
}

// imageFile makes the file of random images, if it is not there.
func (b *bench) imageFile(ctx context.Context) (path string, err error) {
	path = b.imagesFile
	if path == "" {
		path = filepath.Join(b.tmp, "images.raw")
	}
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	fmt.Fprintf(os.Stderr, "writing %s\n", units.Count(b.images, "image"))
	f, err := atomicfile.Create(path, 0o644)
	if err != nil {
		return "", err
	}
	defer f.Discard()
	w := bufio.NewWriterSize(f, 1<<20)
	source := rand.NewChaCha8([32]byte{1})
	image := make([]byte, imageSpec.Bytes())
	for range b.images {
		source.Read(image)
		if _, err = w.Write(image); err != nil || ctx.Err() != nil {
			break
		}
	}
	if err = errors.Join(err, ctx.Err(), w.Flush()); err != nil {
		return "", err
	}
	return path, f.Commit() // on the disk: what is written later would be measured too
}
