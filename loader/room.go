package loader

import (
	"fmt"
	"math"
	"sort"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/pagemem"
	"github.com/pinion-gpu/pinion/internal/sysmem"
	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/loader/internal/usercode"
)

// AutoBatch, as [Options].Batch, is the largest batch that there is room for:
// DeviceBuffers of it fit into what every device has free, less a sixteenth that
// is left for others, or into DeviceBudget; Prefetch+1 of it fit, as bytes, into
// half of the host memory that is available, and one into PinBudget. It is no
// larger than an epoch. [Stats] tells what it is and why.
//
// The same room gives the same batch; more room another one, and so other
// batches of samples. A loader that resumes takes the batch of the state. Several
// ranks need batches of one size, and Batches have sizes of their own, so neither
// goes with AutoBatch.
const AutoBatch = -1

// spare is the part of a device's free memory that AutoBatch leaves: for decoded
// pictures, which take more than at first where they are large, and for others.
const spare = 16

// BatchError is a batch that does not fit into the memory of a device. It is a
// [device.ErrOutOfMemory].
type BatchError struct {
	Device    string // its name
	Batch     int    // samples
	NeedBytes int64  // of the device, for one batch
	FreeBytes int64  // what there is: free on the device, or less by DeviceBudget
	Budget    bool   // it is less by DeviceBudget

	// Fits is how many samples a batch may have, with one device buffer; FitsAll
	// with all of Buffers, which overlap copies with work. 0: not even one.
	Fits, FitsAll, Buffers int

	Err error // from the device; nil where it was not asked
}

func (e *BatchError) Error() string {
	have := "are free"
	if e.Budget {
		have = "are allowed by DeviceBudget"
	}
	return fmt.Sprintf("loader: %v: one batch of %s needs %s on %s, where %s %s: %s", device.ErrOutOfMemory,
		units.Count(e.Batch, "sample"), units.Bytes(e.NeedBytes), e.Device, units.Bytes(e.FreeBytes), have, e.WhatFits())
}

// WhatFits says in words how large a batch may be: "24 fit, or 8 with all 3
// device buffers".
func (e *BatchError) WhatFits() string {
	switch {
	case e.Fits == 0:
		return "not even one sample fits"
	case e.Fits == 1:
		return "1 fits"
	case e.FitsAll == 0 || e.Buffers == 1:
		return fmt.Sprintf("%d fit", e.Fits)
	}
	return fmt.Sprintf("%d fit, or %d with all %d device buffers", e.Fits, e.FitsAll, e.Buffers)
}

// Unwrap returns [device.ErrOutOfMemory] and the device's own error.
func (e *BatchError) Unwrap() []error {
	if e.Err == nil {
		return []error{device.ErrOutOfMemory}
	}
	return []error{device.ErrOutOfMemory, e.Err}
}

// slabBytes is the size of a slab for batches of that many samples.
func (l *Loader) slabBytes(batch int) int64 {
	layout := l.layout
	layout.Largest = batch
	return layout.Bytes()
}

// needs is the device memory of one buffer for batches of that many samples, and
// what that takes of the device, which gives whole pages.
func (n *feeder) needs(batch int) (bytes, taken int64) {
	page := int64(2 << 20) // drivers give large pages
	if n.dev.Info().Integrated {
		page = pagemem.PageSize()
	}
	parts := []int64{n.loader.slabBytes(batch)}
	if n.form.queue != nil {
		parts = append(parts, int64(batch)*n.form.sampleBytes)
	}
	for _, part := range parts {
		bytes += part
		taken += (part + page - 1) / page * page
	}
	return bytes, taken
}

// room is how much memory there is for device buffers, and whether that is by
// DeviceBudget.
func (n *feeder) room() (bytes int64, budget bool, err error) {
	memory, err := n.dev.Memory()
	if err != nil {
		return 0, false, err
	}
	if most := n.loader.options.DeviceBudget; most > 0 && most < memory.FreeBytes {
		return most, true, nil
	}
	return memory.FreeBytes, false, nil
}

// inBudget fails when DeviceBudget has no room for another buffer.
func (n *feeder) inBudget() error {
	most := n.loader.options.DeviceBudget
	_, taken := n.needs(n.loader.order.largest)
	if made := int64(len(n.made)); most > 0 && taken > most/(made+1) {
		return fmt.Errorf("loader: %w: DeviceBudget is %s, and %s take %s", device.ErrOutOfMemory,
			units.Bytes(most), units.Count(made+1, "device buffer"), units.Bytes((made+1)*taken))
	}
	return nil
}

// inRoom is the largest batch of which so many buffers fit into that much device
// memory; 0 is none.
func (n *feeder) inRoom(room int64, buffers int) int {
	one, _ := n.needs(1)
	return largest(room/one, func(batch int) bool {
		_, taken := n.needs(batch)
		return taken <= room/int64(buffers)
	})
}

// largest is the largest batch of at most so many samples that fits; 0 is none.
// Whatever is smaller than one that fits, fits too.
func largest(most int64, fits func(batch int) bool) int {
	return sort.Search(int(min(most, math.MaxInt32)), func(i int) bool { return !fits(i + 1) })
}

// tooLarge is the error of a batch that got no device memory.
func (n *feeder) tooLarge(batch int, cause error) error {
	room, budget, err := n.room()
	if err != nil {
		return cause
	}
	bytes, _ := n.needs(batch)
	buffers := n.loader.options.DeviceBuffers
	e := &BatchError{
		Device: n.dev.Info().ID, Batch: batch, NeedBytes: bytes, FreeBytes: room, Budget: budget,
		Fits: n.inRoom(room, 1), FitsAll: n.inRoom(room, buffers), Buffers: buffers, Err: cause,
	}
	if cause != nil && e.Fits >= batch { // there is room by now
		return fmt.Errorf("loader: device memory for one batch of %s: %w", units.Count(batch, "sample"), cause)
	}
	return e
}

// sharing is how many feeders have the memory of n's device, itself included: a
// device may be named more than once.
func (l *Loader) sharing(n *feeder) (count int64) {
	for _, other := range l.feeders {
		if id := n.dev.Info().UUID; device.Same(other.dev, n.dev) || id != "" && id == other.dev.Info().UUID {
			count++
		}
	}
	return count
}

// chooseBatch makes AutoBatch a number, and says why it is that one.
func (l *Loader) chooseBatch() (err error) {
	defer usercode.Recover(&err, "loader: in the sampler")
	o := &l.options
	batch, why := math.MaxInt32, "as large as batches may be"
	atMost := func(n int, reason string) {
		if n < batch {
			batch, why = n, reason
		}
	}
	switch {
	case o.Sampler != nil:
		atMost(max(1, o.Sampler.Len()), "an epoch has no more samples")
	case !l.endless:
		atMost(l.samples, "an epoch has no more samples")
	}
	onHost := int64(0) // devices whose buffers are host memory
	for _, n := range l.feeders {
		room, budget, err := n.room()
		if err != nil {
			return err
		}
		all, reason := room, fmt.Sprintf("the %s of DeviceBudget", units.Bytes(room))
		if !budget {
			reason = fmt.Sprintf("the %s free on %s, less a sixteenth", units.Bytes(room), n.dev.Info().ID)
			room = (room - room/spare) / l.sharing(n)
		}
		fits := n.inRoom(room, o.DeviceBuffers)
		if fits == 0 && n.inRoom(all, 1) == 0 {
			return n.tooLarge(1, nil)
		}
		// One sample with fewer buffers is better than none.
		atMost(max(fits, 1), fmt.Sprintf("%s of it fit into %s", units.Count(o.DeviceBuffers, "device buffer"), reason))
		if n.dev.Info().Integrated {
			onHost++
		}
	}
	if available := sysmem.Available() / 2; available > 0 {
		slabs := int64(max(o.Prefetch, 2)+1) * int64(len(l.feeders))
		atMost(max(1, largest(int64(batch), func(batch int) bool {
			_, taken := l.feeders[0].needs(batch)
			return l.slabBytes(batch)*slabs+onHost*taken*int64(o.DeviceBuffers) <= available
		})), fmt.Sprintf("more would not fit into %s of host memory", units.Bytes(available)))
	}
	if o.Pin != PinNever && o.PinBudget > 0 {
		atMost(max(1, largest(int64(batch), func(batch int) bool {
			return pagemem.RoundUp(l.slabBytes(batch)) <= o.PinBudget
		})), fmt.Sprintf("one fits into %s of PinBudget", units.Bytes(o.PinBudget)))
	}
	o.Batch, l.batchWhy = batch, why
	return nil
}
