package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/pinion-gpu/pinion/bench/internal/harness"
	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/measure"
	"github.com/pinion-gpu/pinion/loader"
)

// feed is a dataset on its way to the device.
type feed struct {
	m       *harness.Memory
	others  []device.Device // that take batches in turn with m's
	ds      dataset.Dataset
	options loader.Options // without epochs
}

func (f *feed) devices() []device.Device { return append([]device.Device{f.m.Dev}, f.others...) }

// with has work take batches of a new loader of so many epochs.
func (f *feed) with(epochs int, work func(l *loader.Loader) error) error {
	o := f.options
	o.Epochs = epochs
	l, err := loader.NewOn(f.devices(), f.ds, o)
	if err != nil {
		return err
	}
	return errors.Join(work(l), l.Close())
}

// steady returns the seconds that so many batches take in the middle of a run:
// some are skipped first, and the loader has more to do after the last of them.
func (f *feed) steady(ctx context.Context, skip, timed int) (seconds float64, err error) {
	const ahead = 64 // more batches than a loader has under way
	perEpoch := f.ds.Len() / f.options.Batch
	if perEpoch == 0 {
		return 0, fmt.Errorf("%d samples are no batch of %d", f.ds.Len(), f.options.Batch)
	}
	err = f.with((skip+timed+ahead)/perEpoch+1, func(l *loader.Loader) error {
		if err := take(ctx, l, skip); err != nil {
			return err
		}
		start := time.Now()
		err := take(ctx, l, timed)
		seconds = measure.Since(start, time.Second)
		return err
	})
	return seconds, err
}

// take takes n batches and gives them back at once.
func take(ctx context.Context, l *loader.Loader, n int) error {
	for range n {
		b, err := l.Next(ctx)
		if err == io.EOF {
			return io.ErrUnexpectedEOF // a rate of fewer would be wrong
		}
		if err != nil {
			return err
		}
		if err := b.Release(); err != nil {
			return err
		}
	}
	return nil
}

// epoch takes the batches of one epoch and works on each, and returns how many
// samples they had.
func epoch(ctx context.Context, l *loader.Loader, work func(*loader.Batch) error) (samples int, err error) {
	for b, err := range l.Epoch(ctx) {
		if err != nil {
			return samples, err
		}
		samples += b.Shape[0]
		if err := errors.Join(work(b), b.Release()); err != nil {
			return samples, err
		}
	}
	return samples, nil
}

// nothing is the work of a device that does none.
func nothing(*loader.Batch) error { return nil }
