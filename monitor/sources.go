package monitor

import (
	"reflect"
	"slices"
	"strings"

	"github.com/pinion-gpu/pinion/internal/live"
	"github.com/pinion-gpu/pinion/loader"
	"github.com/pinion-gpu/pinion/pinned"
	"github.com/pinion-gpu/pinion/tier"
	"github.com/pinion-gpu/pinion/transfer"
	"github.com/pinion-gpu/pinion/vram"
)

// source is all values of type T in the process: those that are open, and what those
// did that were closed.
type source[T, S any] struct {
	read   func(*T) S
	closed []S // the lock of the list of T guards it
}

func newSource[T, S any](read func(*T) S) *source[T, S] {
	s := &source[T, S]{read: read}
	live.OnRemove(func(x *T) { s.closed = merge(s.closed, s.read(x), true) })
	return s
}

// take reads all, with one element per device.
func (s *source[T, S]) take() []S {
	list := []S{}
	live.View(func(all []*T) {
		for _, c := range s.closed {
			list = merge(list, c, true)
		}
		for _, x := range all {
			list = merge(list, s.read(x), false)
		}
	})
	slices.SortFunc(list, func(a, b S) int { return compareLabels(reflect.ValueOf(a), reflect.ValueOf(b)) })
	return list
}

var (
	pools       = newSource(readVRAM)
	pinnedPools = newSource(readPinned)
	engines     = newSource(readTransfer)
	stores      = newSource(readTier)
	loaders     = newSource(readLoader)
)

func readVRAM(p *vram.Pool) VRAM {
	s := p.Stats()
	v := VRAM{
		Device: p.Device().Info().ID, Pools: 1,
		ReservedBytes: s.Reserved.Current, AllocatedBytes: s.Allocated.Current, RequestedBytes: s.Requested.Current,
		ActiveBytes: s.Active.Current, FreeBytes: s.Free, FragmentedBytes: s.Fragmented, LargestFreeBytes: s.LargestFree,
		Blocks: s.Blocks.Current, Allocations: s.Blocks.Allocated, Frees: s.Blocks.Freed, AllocationBytes: s.Allocated.Allocated,
		DriverCalls: s.Calls.Total(), Retries: s.Retries, OutOfMemory: s.OutOfMemory,
	}
	for _, u := range s.Purposes {
		if u.Allocated.Allocated > 0 {
			v.Purposes = append(v.Purposes, Purpose{
				Purpose: u.Purpose.String(), AllocatedBytes: u.Allocated.Current, RequestedBytes: u.Requested.Current,
				AllocationBytes: u.Allocated.Allocated,
			})
		}
	}
	return v
}

func readPinned(p *pinned.Pool) Pinned {
	s := p.Stats()
	return Pinned{
		Device: s.Device, Pools: 1, BudgetBytes: s.BudgetBytes,
		ReservedBytes: s.ReservedBytes, PageableBytes: s.PageableBytes, RegisteredBytes: s.RegisteredBytes,
		ActiveBytes: s.ActiveBytes, RequestedBytes: s.RequestedBytes, PendingBytes: s.PendingBytes,
		FreeBytes: s.FreeBytes, LostBytes: s.LostBytes,
		Segments: int64(s.Segments), Buffers: int64(s.Buffers), PendingBuffers: int64(s.PendingBuffers),
		Hits: s.Reuses, Misses: s.Allocs - s.Reuses, Failures: s.Failures, Waits: s.Waits,
		SegmentAllocations: s.SegmentAllocs, PinSeconds: s.PinTime.Seconds(),
	}
}

func readTransfer(e *transfer.Engine) Transfer {
	s := e.Stats()
	t := Transfer{Device: e.Device().Info().ID, Engines: 1, Waiting: int64(s.Waiting)}
	for _, w := range s.Traffic {
		t.Traffic = append(t.Traffic, Traffic{
			Direction: w.Direction, Path: w.Path, Active: w.Active, Copies: w.Copies, Failed: w.Failed, Bytes: w.Bytes,
		})
	}
	return t
}

func readTier(store *tier.Store) Tier {
	s := store.Stats()
	t := Tier{
		Device: store.Device().Info().ID, Stores: 1,
		Arrays: int64(s.Arrays), ArrayBytes: s.Bytes, HeldBytes: s.PinnedBytes, AheadBytes: s.AheadBytes,
		Leases: int64(s.Leases), Waiting: int64(s.Waiting),
		Uses: s.Uses, UseBytes: s.UsedBytes, Misses: s.Misses, MissBytes: s.MissedBytes,
		Waits: s.Waits, WaitSeconds: s.WaitTime.Seconds(),
		Fills: s.Fills, FillBytes: s.FilledBytes, Prefetches: s.Prefetches, WastedBytes: s.WastedBytes,
		WriteBacks: s.WriteBacks, WriteBackBytes: s.WrittenBytes, SavedBytes: s.SavedBytes, FetchedBytes: s.FetchedBytes,
		Evictions: s.Evictions, ReclaimedBytes: s.ReclaimedBytes, Strays: s.Strays,
	}
	for _, l := range s.Levels {
		t.Levels = append(t.Levels, Level{Tier: l.Name, UsedBytes: l.Used, BudgetBytes: l.Budget})
	}
	return t
}

func readLoader(x *loader.Loader) Loader {
	s := x.Stats()
	var ids []string
	for _, dev := range x.Devices() {
		ids = append(ids, dev.Info().ID)
	}
	l := Loader{
		Device: strings.Join(ids, ","), Loaders: 1, Devices: int64(s.Devices), Workers: int64(s.Workers),
		Slabs: int64(s.Slabs), Reading: int64(s.Reading), Ready: int64(s.Ready), DeviceBuffers: int64(s.DeviceBuffers),
		HostBytes: s.HostBytes, StagingBytes: s.StagingBytes, DeviceBytes: s.DeviceBytes,
		Samples: s.Samples, Batches: s.Batches, FailedSamples: s.Errors, ReplacedSamples: s.Replaced,
		H2DBytes: s.BytesToDevice, DeviceWaitSeconds: s.DeviceWait.Seconds(),
	}
	for _, g := range s.Stages {
		l.Stages = append(l.Stages, Stage{Stage: g.Name, Where: g.Where, Seconds: g.Time.Seconds()})
	}
	return l
}
