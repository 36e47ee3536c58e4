package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/pinion-gpu/pinion/device"
)

// Group is rows that are measured together, with memory of their own.
type Group struct {
	Name    string
	Measure func(context.Context, *Memory) error
	Asked   bool // only measured when asked for by name
}

// Measure measures groups on dev, one after the other: those whose names begin
// with one of the words in only, which are separated by commas, or all if it is
// empty. What a group needs and the device or the machine lacks is noted as
// skipped. How long each group took goes to standard error.
func (d *Document[R]) Measure(ctx context.Context, dev device.Device, only string, groups []Group) error {
	chosen, err := choose(groups, only)
	if err != nil {
		return err
	}
	for _, g := range chosen {
		start := time.Now()
		m, err := NewMemory(dev)
		if err != nil {
			return err
		}
		err = errors.Join(g.Measure(ctx, m), m.Close())
		switch {
		case Impossible(err):
			d.Skip(g.Name, err)
		case err != nil:
			return fmt.Errorf("%s: %w", g.Name, err)
		}
		debug.FreeOSMemory() // gigabytes of the group's ordinary memory
		fmt.Fprintf(os.Stderr, "%-12s %5.1f s\n", g.Name, time.Since(start).Seconds())
	}
	return nil
}

// choose returns the groups that only asks for, in their own order.
func choose(groups []Group, only string) (chosen []Group, err error) {
	words := strings.Split(only, ",")
	found := make([]bool, len(words))
	var names []string
	for _, g := range groups {
		names = append(names, g.Name)
		wanted := false
		for i, word := range words {
			if strings.HasPrefix(g.Name, word) && (word != "" || !g.Asked) {
				wanted, found[i] = true, true
			}
		}
		if wanted {
			chosen = append(chosen, g)
		}
	}
	for i, word := range words {
		if !found[i] {
			return nil, fmt.Errorf("no group of rows begins with %q; there are: %s", word, strings.Join(names, ", "))
		}
	}
	return chosen, nil
}
