package loader

import (
	"errors"
	"time"

	"github.com/pinion-gpu/pinion/device"
)

// inFlight is a batch on its way to the device, and the event after which its
// slab is free.
type inFlight struct {
	batch *Batch
	place place
	free  device.Event
}

// finish waits for the batches on their way to the device, in order. It gives
// their slabs back and marks them as complete.
func (n *feeder) finish() {
	for p := range n.copied {
		// If the device fails, Next reports it. A copy may still read the slab
		// then, so it is not given back.
		hot := 20 * time.Microsecond
		if p.batch.buffer.queued < smallCopy {
			hot = 100 * time.Microsecond // small batches follow each other closely
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
			n.loader.finished.Add(1)
		}
		p.batch.late = err
		close(p.batch.complete)
	}
}

// await waits for an event: it polls for some time, then sleeps.
func await(e device.Event, hot time.Duration) error {
	for start := time.Now(); time.Since(start) < hot; {
		if done, err := e.Done(); done || err != nil {
			return err
		}
	}
	return e.Synchronize()
}

// Only one of several copies below this size is timed: reading the device's
// clock takes longer than they do.
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
