package main

// #include "pinion.h"
import "C"

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/vram"
	"github.com/pinion-gpu/pinion/vram/replay"
	"github.com/pinion-gpu/pinion/vram/trace"
)

// replaying is what pinion_memory_replay reads.
type replaying struct {
	Path     string `json:"path"`
	Device   *int   `json:"device"` // of the snapshot
	Capacity int64  `json:"capacity"`
}

// replayed is what a replay found: of Pinion's pool, and of simulations of
// PyTorch's allocator.
type replayed struct {
	Format        trace.Format `json:"format"`
	Events        int64        `json:"events"`
	CapacityBytes int64        `json:"capacity_bytes"`
	PeakLiveBytes int64        `json:"peak_live_bytes"`
	FailedInTrace int64        `json:"failed_in_trace"`
	Pinion        allocated    `json:"pinion"`
	Torch         allocated    `json:"torch"`
	Expandable    allocated    `json:"torch_expandable"`
}

type allocated struct {
	PeakReservedBytes int64   `json:"peak_reserved_bytes"`
	Fragmentation     float64 `json:"fragmentation"`
	OOMs              int64   `json:"ooms"`
}

var texts handles[string]

// pinion_memory_replay replays a trace of allocations, as a task. Its value is a
// text for pinion_memory_text.
//
//export pinion_memory_replay
func pinion_memory_replay(arguments *C.char, n C.int64_t, task *C.uint64_t) (result C.int) {
	defer guard(&result)
	var r replaying
	if err := parse(arguments, n, &r); err != nil {
		return fail(err)
	}
	return start(task, func(id uint64) { texts.take(id) }, func(ctx context.Context) (uint64, error) {
		found, err := r.run(ctx)
		if err != nil {
			return 0, err
		}
		b, err := json.Marshal(found)
		return texts.add(string(b)), err
	})
}

// pinion_memory_text gives the text of a task, once.
//
//export pinion_memory_text
func pinion_memory_text(handle C.uint64_t, out **C.char) (result C.int) {
	defer guard(&result)
	s, ok := texts.take(uint64(handle))
	if !ok {
		return closed("the text")
	}
	*out = text(s)
	return C.PINION_OK
}

func (r *replaying) run(ctx context.Context) (out replayed, err error) {
	in, err := trace.Open(r.Path, trace.Options{Device: r.Device})
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	// The memory is never written, so the host need not have it.
	dev, err := device.Open(fmt.Sprintf("host:%d", r.Capacity))
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	pool, err := replay.NewPool(dev, vram.Options{})
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, pool.Close()) }()
	plain, expandable := replay.NewTorch(r.Capacity, false), replay.NewTorch(r.Capacity, true)
	result, err := replay.Run(ctx, replay.Tee(in.All(), plain, expandable), pool, replay.Options{})
	if err != nil {
		return out, err
	}
	return replayed{
		Format: in.Format(), Events: result.Events, CapacityBytes: r.Capacity, PeakLiveBytes: result.PeakTraceBytes, FailedInTrace: result.FailedInTrace,
		Pinion:     allocated{result.PeakReservedBytes, result.Fragmentation(), result.OOMs},
		Torch:      allocated{plain.PeakReservedBytes, plain.Fragmentation(), plain.OOMs},
		Expandable: allocated{expandable.PeakReservedBytes, expandable.Fragmentation(), expandable.OOMs},
	}, nil
}
