package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/pinion-gpu/pinion/bench/internal/harness"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/transfer"
)

type options struct {
	device  string
	file    string
	only    string // beginning of the names of groups
	copiers int
	core    int // for queued copies; below 0: any
	quick   bool
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
	dev   device.Device
	model *transfer.Model // nil: rules of thumb
}

// measure measures dev, one group of rows after the other. Each group takes its
// memory and gives it back.
func measure(ctx context.Context, dev device.Device, o options) (*document, error) {
	b := &bench{options: o, sizes: fullSizes, document: newDocument(dev, 7), dev: dev}
	b.Copiers = o.copiers
	if o.quick {
		b.sizes, b.Repeats = quickSizes, 1
	}
	groups, err := b.groups()
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(groups, func(g group) bool { return g.chooses }) {
		if err := b.calibrate(ctx); err != nil {
			return nil, err
		}
	}
	for _, group := range groups {
		start := time.Now()
		m, err := newMemory(dev)
		if err != nil {
			return nil, err
		}
		err = errors.Join(group.measure(ctx, m), m.Close())
		switch {
		case harness.Impossible(err):
			b.skip(group.name, err)
		case err != nil:
			return nil, fmt.Errorf("%s: %w", group.name, err)
		}
		debug.FreeOSMemory() // gigabytes of the group's ordinary memory
		fmt.Fprintf(os.Stderr, "%-12s %5.1f s\n", group.name, time.Since(start).Seconds())
	}
	return b.document, nil
}

// group is rows that are measured together.
type group struct {
	name    string
	measure func(context.Context, *memory) error
	chooses bool // paths, by the model of the link
	asked   bool // only measured when asked for
}

// groups are those that o.only asks for.
func (b *bench) groups() (chosen []group, err error) {
	var names []string
	for _, g := range []group{
		{name: "scattered", measure: b.scattered, chooses: true},
		// On one core, the same as the peer's: see h200.sh.
		{name: "queued", measure: b.queued, asked: true},
		{name: "pageable", measure: b.pageable, chooses: true},
		{name: "pipeline", measure: b.pipelines, chooses: true},
		{name: "file", measure: b.files, chooses: true},
		// In turn with a peer, too.
		{name: "disk", measure: b.disk, chooses: true, asked: true},
		{name: "peer", measure: b.peer},
		{name: "chosen path", measure: b.choices, chooses: true},
	} {
		names = append(names, g.name)
		if strings.HasPrefix(g.name, b.only) && (b.only != "" || !g.asked) {
			chosen = append(chosen, g)
		}
	}
	if chosen == nil {
		return nil, fmt.Errorf("no group of rows begins with %q; there are: %s", b.only, strings.Join(names, ", "))
	}
	return chosen, nil
}

// calibrate finds or makes the model that engines choose by.
func (b *bench) calibrate(ctx context.Context) error {
	if b.rules {
		b.model = &transfer.Model{} // an empty one, not the one on the disk
		return nil
	}
	model, _, err := transfer.ModelOf(ctx, b.dev, transfer.CalibrateOptions{})
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
