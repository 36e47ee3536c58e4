package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/pinion-gpu/pinion/bench/internal/harness"
	"github.com/pinion-gpu/pinion/device"
)

type options struct {
	device string
	only   string // beginning of the names of groups
	quick  bool
}

// sizes are how much of everything there is.
type sizes struct {
	iterations int           // of a loop
	tensor     int64         // bytes, of a loop of one tensor
	tensors    int           // of an iteration with small ones
	smallest   int64         // of the small ones
	largest    int64         // of the small ones
	blocks     []int64       // bytes of a block whose calls are timed
	callTime   time.Duration // of one repeat of calls, about
	gaps       int           // between small blocks
	firstBytes int64         // of the first block of a pool
}

var (
	fullSizes = sizes{iterations: 100, tensor: 400e6, tensors: 50, smallest: 1 << 10, largest: 4 << 20,
		blocks: []int64{4 << 10, 1 << 20, 64 << 20}, callTime: 20 * time.Millisecond, gaps: 65536, firstBytes: 1 << 30}
	quickSizes = sizes{iterations: 6, tensor: 400e3, tensors: 5, smallest: 1 << 10, largest: 64 << 10,
		blocks: []int64{4 << 10, 64 << 10}, callTime: time.Millisecond, gaps: 512, firstBytes: 4 << 20}
)

// bench is a run.
type bench struct {
	options
	sizes
	*document
	dev device.Device
}

// measure measures dev, one group of rows after the other. Each group takes its
// memory and gives it back.
func measure(ctx context.Context, dev device.Device, o options) (*document, error) {
	b := &bench{options: o, sizes: fullSizes, document: newDocument(dev, 7), dev: dev}
	if o.quick {
		b.sizes, b.Repeats = quickSizes, 1
	}
	groups := []struct {
		name    string
		measure func(context.Context, *harness.Memory) error
	}{
		{"loops", b.loops},
		{"calls", b.calls},
		{"holes", b.holes},
		{"first", b.first},
	}
	var names []string
	measured := false
	for _, g := range groups {
		names = append(names, g.name)
		if !strings.HasPrefix(g.name, o.only) {
			continue
		}
		measured = true
		start := time.Now()
		m, err := harness.NewMemory(dev)
		if err != nil {
			return nil, err
		}
		if err := errors.Join(g.measure(ctx, m), m.Close()); err != nil {
			return nil, fmt.Errorf("%s: %w", g.name, err)
		}
		fmt.Fprintf(os.Stderr, "%-6s %5.1f s\n", g.name, time.Since(start).Seconds())
	}
	if !measured {
		return nil, fmt.Errorf("no group of rows begins with %q; there are: %s", o.only, strings.Join(names, ", "))
	}
	return b.document, nil
}
