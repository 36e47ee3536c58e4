package main

import (
	"context"
	"fmt"

	"github.com/pinion-gpu/pinion/bench/internal/harness"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/transfer"
	"github.com/pinion-gpu/pinion/transfer/calibrate"
	"github.com/pinion-gpu/pinion/transfer/linkmodel"
)

type options struct {
	harness.Options
	file    string
	copiers int
	core    int  // for queued copies; below 0: any
	rules   bool // no model
}

// sizes are the bytes of what is moved.
type sizes struct {
	arena     int64 // that blocks are scattered over
	blocks    int64 // all blocks of a batch
	bulk      int64 // ordinary memory
	pipeline  int64 // through a pipeline, in and out each
	fileBytes int64 // of the file, at most
	fileWrite int64 // of the file that is written, at most
	choice    int64 // the largest copy that a path is chosen for
}

var (
	fullSizes = sizes{arena: 1 << 30, blocks: 256 << 20, bulk: 1 << 30, pipeline: 2 << 30, fileBytes: 4 << 30, fileWrite: 2 << 30, choice: 1 << 30}
	// Little enough to be pinned where hardly anything may be.
	quickSizes = sizes{arena: 2 << 20, blocks: 512 << 10, bulk: 8 << 20, pipeline: 2 << 20, fileBytes: 64 << 20, fileWrite: 4 << 20, choice: 256 << 10}
)

// bench is a run.
type bench struct {
	options
	sizes
	*document
	dev device.Device

	modelled bool             // it was tried
	model    *linkmodel.Model // nil: rules of thumb
}

// measureAll measures dev, one group of rows after the other.
func measureAll(ctx context.Context, dev device.Device, o options) (*document, error) {
	b := &bench{options: o, sizes: fullSizes, document: newDocument(dev, 7), dev: dev}
	b.Copiers = o.copiers
	if o.Quick {
		b.sizes, b.Repeats = quickSizes, 1
	}
	err := b.Measure(ctx, dev, o.Only, []harness.Group{
		{Name: "scattered", Measure: b.choosing(b.scattered)},
		// On one core, the same as the peer's: see h200.sh.
		{Name: "queued", Measure: group(b.queued), Asked: true},
		{Name: "pageable", Measure: b.choosing(b.pageable)},
		{Name: "pipeline", Measure: b.choosing(b.pipelines)},
		{Name: "file", Measure: b.choosing(b.files)},
		// In turn with a peer, too.
		{Name: "disk", Measure: b.choosing(b.disk), Asked: true},
		{Name: "peer", Measure: group(b.peer)},
		{Name: "chosen path", Measure: b.choosing(b.choices)},
	})
	return b.document, err
}

// group gives rows their memory.
func group(measure func(context.Context, *memory) error) func(context.Context, *harness.Memory) error {
	return func(ctx context.Context, m *harness.Memory) error { return measure(ctx, &memory{m}) }
}

// choosing is a group whose paths are chosen by the model of the link, which is
// made for the first of them.
func (b *bench) choosing(measure func(context.Context, *memory) error) func(context.Context, *harness.Memory) error {
	calibrated := func(ctx context.Context, m *memory) error {
		if !b.modelled {
			b.modelled = true
			if err := b.calibrate(ctx); err != nil {
				return err
			}
		}
		return measure(ctx, m)
	}
	return group(calibrated)
}

// calibrate finds or makes the model that engines choose by.
func (b *bench) calibrate(ctx context.Context) error {
	if b.rules {
		b.model = &linkmodel.Model{} // an empty one, not the one on the disk
		return nil
	}
	model, _, err := calibrate.LoadOrRun(ctx, b.dev, calibrate.Options{})
	switch {
	case model != nil: // also when it could not be saved
		b.model, b.Calibrated = model, true
	case !harness.Impossible(err):
		return fmt.Errorf("calibrate: %w", err)
	}
	return nil
}

// engine makes the engine of a group.
func (b *bench) engine(m *memory) (*transfer.Engine, error) {
	return m.engine(transfer.Options{Copiers: b.copiers, Model: b.model})
}
