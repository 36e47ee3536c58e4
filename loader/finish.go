package loader

import (
	"errors"
	"time"

	"github.com/pinion-gpu/pinion/device"
)

// inFlight is a batch on its way to the device, and the event behind which its
// slab is free.
type inFlight struct {
	batch *Batch
	place place
	free  device.Event
}

// finish waits for what is on its way to the device, in order: slabs go back to
// the workers, and batches are complete.
func (n *feeder) finish() {
	for p := range n.copied {
		// Where the device fails, Next reports it. The slab must not be
		// written while a copy may read it, so it stays away then.
		hot := 20 * time.Microsecond
		if p.batch.buffer.queued < smallCopy {
			hot = 100 * time.Microsecond // the next one is not far
		}
		err := await(p.free, hot)
		if err == nil {
			n.free <- p.place
		}
		d := p.batch.buffer
		if p.free != d.events.complete {
			err = errors.Join(err, await(d.events.complete, hot))
		}
		if err == nil {
			n.loader.counters.moved(d)
		}
		p.batch.late = err
		close(p.batch.complete)
	}
}

// await waits for an event: hot for some time, then asleep.
func await(e device.Event, hot time.Duration) error {
	for start := time.Now(); time.Since(start) < hot; {
		if done, err := e.Done(); done || err != nil {
			return err
		}
	}
	return e.Synchronize()
}

// Copies below this size are timed now and then only: reading the clock of the
// device takes longer than they do.
const (
	smallCopy  = 1 << 20
	smallTimed = 16 // one of so many
)

// timing is how many batches the times of the next one stand for, 0 for none.
func (n *feeder) timing(bytes int) int {
	if bytes >= smallCopy {
		return 1
	}
	n.small++
	if n.small%smallTimed == 1 {
		return smallTimed
	}
	return 0
}
