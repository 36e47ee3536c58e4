package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pinion-gpu/pinion/bench/internal/harness"
	"github.com/pinion-gpu/pinion/dataset/photos"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/imaging"
	"github.com/pinion-gpu/pinion/internal/measure"
	"github.com/pinion-gpu/pinion/loader"
)

const batch = 64

// document is what is printed.
type document struct {
	harness.Document[measure.Row]
	Files   int `json:"files"`
	Folders int `json:"folders"`
}

// measureAll lists once as a newly started program would, and then times repeats,
// which leave garbage and warm caches.
func measureAll(ctx context.Context, dev device.Device, o options) (*document, error) {
	d := &document{Document: harness.NewDocument[measure.Row](dev, "folder", o.repeats)}
	if err := d.once(ctx, dev, o.dir); err != nil {
		return nil, err
	}
	list := &measure.Sample{
		Row:   measure.Row{Name: "list", Unit: "s"},
		Check: func() error { return nil }, // once has looked
		Run: func() (float64, error) {
			start := time.Now()
			_, err := open(ctx, o.dir)
			return measure.Since(start, time.Second), err
		},
	}
	first := &measure.Sample{
		Row:   measure.Row{Name: "list and first batch", Unit: "s"},
		Check: func() error { return nil },
		Run: func() (float64, error) {
			start := time.Now()
			photos, err := open(ctx, o.dir)
			if err != nil {
				return 0, err
			}
			return firstBatch(ctx, dev, photos, start)
		},
	}
	return d, harness.Add(ctx, &d.Document, []*measure.Sample{list, first})
}

// once lists the folder and reads a batch, with the system's caches as it finds
// them.
func (d *document) once(ctx context.Context, dev device.Device, dir string) error {
	before, start := harness.HeapBytes(), time.Now()
	photos, err := open(ctx, dir)
	if err != nil {
		return err
	}
	listing := measure.Since(start, time.Second)
	list := harness.HeapBytes() - before
	d.Files, d.Folders = photos.Len(), len(photos.Classes())
	names := 0
	for i := range photos.Len() {
		names += len(photos.Name(i))
	}
	reading, err := firstBatch(ctx, dev, photos, time.Now())
	if err != nil {
		return err
	}
	d.figure("first list", listing, "s")
	d.figure("first list and first batch", listing+reading, "s")
	n := float64(photos.Len())
	d.figure("list in memory", float64(list)/n, "bytes/file")
	d.figure("paths", float64(names)/n, "bytes/file")
	_, peak, err := harness.Resident()
	if err != nil {
		d.Skip("peak memory", err)
		return nil
	}
	d.figure("peak memory", float64(peak)/(1<<20), "MiB")
	return nil
}

// figure adds a row that needs no repeats.
func (d *document) figure(name string, value float64, unit string) {
	d.Rows = append(d.Rows, measure.NewRow(name, "", unit, []float64{value}))
}

// open lists the folder. Samples are as small as the pictures, so that files are
// measured and not resizing.
func open(ctx context.Context, dir string) (*photos.Images, error) {
	return photos.Open(ctx, dir, photos.Options{Transform: imaging.CenterCrop(32)})
}

// firstBatch starts a loader, waits for its first batch and stops it. It returns
// the time from start until the batch was there.
func firstBatch(ctx context.Context, dev device.Device, photos *photos.Images, start time.Time) (seconds float64, err error) {
	l, err := loader.New(dev, photos, loader.Options{Batch: batch, Shuffle: true, Seed: 1})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	b, err := l.Next(ctx)
	if err != nil {
		return 0, err
	}
	seconds = measure.Since(start, time.Second)
	if want := min(batch, photos.Len()); b.Shape[0] != want {
		return 0, fmt.Errorf("a batch of %d samples, want %d", b.Shape[0], want)
	}
	return seconds, b.Release()
}
