package vram

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/errs"
	"github.com/pinion-gpu/pinion/internal/units"
)

var (
	// ErrClosed: the pool was closed.
	ErrClosed = fmt.Errorf("pool %w", errs.ErrClosed)

	// ErrFreed: the block was freed before.
	ErrFreed = errors.New("block is not live")

	// ErrForeign: the block or address belongs to another pool, or to none.
	ErrForeign = errors.New("not memory of this pool")

	// ErrLimit: a purpose would exceed its limit. It comes inside an
	// [OutOfMemoryError].
	ErrLimit = errors.New("limit of the purpose")
)

// OutOfMemoryError says why an allocation failed and what would have helped.
// errors.Is finds [device.ErrOutOfMemory] in it, and [ErrLimit] if a limit is
// the reason.
type OutOfMemoryError struct {
	Device  string
	Asked   int64 // bytes
	Purpose Purpose
	Name    string
	Stats   Stats         // at the time of the failure
	Memory  device.Memory // of the device, all programs together
	Holders []Holder      // the largest holders, by purpose and name
	Advice  []string      // sentences
	cause   error
}

// Holder is the live memory of one purpose and name.
type Holder struct {
	Purpose   Purpose
	Name      string
	Blocks    int64
	Allocated int64 // bytes
}

// Error is one line; [OutOfMemoryError.Report] has the rest.
func (e *OutOfMemoryError) Error() string {
	s := &e.Stats
	return fmt.Sprintf("vram: %v: asked for %s (%v) on %s: allocated %s, reserved %s, free %s (largest block %s), device has %s of %s left",
		e.cause, units.Bytes(e.Asked), e.Purpose, e.Device, units.Bytes(s.Allocated.Current), units.Bytes(s.Reserved.Current),
		units.Bytes(s.Free), units.Bytes(s.LargestFree), units.Bytes(e.Memory.FreeBytes), units.Bytes(e.Memory.TotalBytes))
}

// Unwrap returns the causes.
func (e *OutOfMemoryError) Unwrap() []error { return []error{device.ErrOutOfMemory, e.cause} }

// outOfMemory returns the error of an allocation that failed.
func (p *Pool) outOfMemory(n int64, use Use, cause error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.outOfMemoryLocked(n, use, cause)
}

// outOfMemoryLocked is outOfMemory with Pool.mu held.
func (p *Pool) outOfMemoryLocked(n int64, use Use, cause error) error {
	p.failed.Add(1)
	e := &OutOfMemoryError{Device: p.dev.Info().ID, Asked: n, Purpose: use.Purpose, Name: use.Name, cause: cause}
	e.Memory, _ = p.dev.Memory()
	p.freezeLocked(func() {
		e.Stats = p.stats()
		at := map[Holder]int{}
		p.each(func(b *block) {
			key := Holder{Purpose: b.purpose, Name: b.name}
			i, there := at[key]
			if !there {
				i = len(e.Holders)
				at[key] = i
				e.Holders = append(e.Holders, key)
			}
			e.Holders[i].Blocks++
			e.Holders[i].Allocated += b.bytes
		})
	})
	slices.SortFunc(e.Holders, func(a, b Holder) int {
		return cmp.Or(cmp.Compare(b.Allocated, a.Allocated), cmp.Compare(a.Purpose, b.Purpose), cmp.Compare(a.Name, b.Name))
	})
	e.Holders = e.Holders[:min(len(e.Holders), 10)]
	e.Advice = e.advise()
	p.log(Event{Kind: EventOutOfMemory, Purpose: use.Purpose, Address: device.Ptr(e.Memory.FreeBytes), Bytes: blockBytes(n), Asked: n, Name: use.Name})
	return e
}

// LeakError lists the blocks that were live when the pool was closed.
type LeakError struct {
	Leaks []BlockInfo // the largest first
	Bytes int64       // requested, of all of them
}

// Error names the largest leaks, and where they were allocated if that was
// recorded.
func (e *LeakError) Error() string {
	var w strings.Builder
	fmt.Fprintf(&w, "vram: %s (%s in all) not freed:", units.Count(len(e.Leaks), "block"), units.Bytes(e.Bytes))
	for i, l := range e.Leaks {
		if i == 10 {
			fmt.Fprintf(&w, "\n\tand %d more", len(e.Leaks)-i)
			break
		}
		fmt.Fprintf(&w, "\n\t%s of %v", units.Bytes(l.Requested), l.Purpose)
		if l.Name != "" {
			fmt.Fprintf(&w, " (%s)", l.Name)
		}
		if l.Since > 0 {
			fmt.Fprintf(&w, ", allocated %v after the pool was made", l.Since.Round(time.Millisecond))
		}
		if f, ok := l.Stack.Caller(); ok {
			fmt.Fprintf(&w, " from %s (%s:%d)", f.Function, f.File, f.Line)
		}
	}
	return w.String()
}

// leaks ends the life of all live blocks and lists them. Pool.mu is held, and the
// pool is closed.
func (p *Pool) leaks() *LeakError {
	for _, s := range p.shards.list() { // waits for goroutines that hold one
		s.mu.Lock()
		p.publish(s)
		s.mu.Unlock()
	}
	e := &LeakError{}
	p.each(func(b *block) {
		life := b.life.Load()
		info := b.info()
		if life&1 == 1 && b.take(life) {
			e.Leaks = append(e.Leaks, info)
			e.Bytes += info.Requested
		}
	})
	slices.SortFunc(e.Leaks, func(a, b BlockInfo) int {
		return cmp.Or(cmp.Compare(b.Requested, a.Requested), cmp.Compare(a.Since, b.Since), cmp.Compare(a.Address, b.Address))
	})
	return e
}

func (e *LeakError) err() error {
	if len(e.Leaks) == 0 {
		return nil
	}
	return e
}
