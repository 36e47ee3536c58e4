package step

import (
	"context"
	"fmt"
	"slices"

	"github.com/pinion-gpu/pinion/device"
)

// Capture says whether a step is recorded, to launch it again as one.
type Capture int

const (
	// CaptureAuto records a step of at least 16 tasks, where the device can.
	CaptureAuto Capture = iota
	// CaptureAlways records a step however few tasks it has. Where the device cannot,
	// compiling fails with [device.ErrNotSupported], and a run fails that cannot be recorded.
	CaptureAlways
	// CaptureNever queues each task of every run.
	CaptureNever
)

// fewTasks are queued about as fast as a graph is launched.
const fewTasks = 16

// mostReplays is for how many sets of addresses a step is kept. Batches come in turn from a
// few places, weights that are not updated in place go from one to another, and a stage of a
// pipeline has several micro-batches under way.
const mostReplays = 64

// replays are runs of an executable that can come again.
type replays struct {
	capturer device.Capturer // nil: nothing is recorded
	always   bool
	runs     []*replay // newest first
	stats    CaptureStats
}

// replay is a step with buffers at addresses.
type replay struct {
	at    []device.Ptr
	graph device.Graph // nil: it ran once
}

// CaptureStats counts what became of an executable's runs.
type CaptureStats struct {
	Recorded int   // how often the step was recorded, once for each set of addresses
	Launched int   // runs that were one launch
	Queued   int   // runs whose tasks were queued one by one
	Err      error // why a recording failed, after which none is tried; nil: none failed
}

// CaptureStats counts what became of the runs so far.
func (x *Executable) CaptureStats() CaptureStats {
	_ = x.enter(background)
	defer x.leave()
	return x.replays.stats
}

// openReplays finds whether runs of so many tasks are recorded on a device.
func openReplays(c Capture, dev device.Device, tasks int) (replays, error) {
	r := replays{always: c == CaptureAlways}
	if c < CaptureAuto || c > CaptureNever {
		return r, fmt.Errorf("step: %w: Capture is %d", ErrArgument, c)
	}
	if c == CaptureNever || c == CaptureAuto && tasks < fewTasks {
		return r, nil
	}
	can, ok := device.As[device.Capturer](dev)
	switch {
	case ok && can.CanCapture():
		r.capturer = can
	case r.always:
		return r, fmt.Errorf("step: %w: %s does not record work", device.ErrNotSupported, dev.Info().ID)
	}
	return r, nil
}

func (r *replays) close() (err error) {
	for _, run := range r.runs {
		if run.graph != nil {
			err = keepFirst(err, run.graph.Close())
		}
	}
	r.runs = nil
	return err
}

// find returns the run with these addresses, and makes it the newest. The oldest goes for
// one that is not there yet.
func (r *replays) find(at []device.Ptr) (run *replay, again bool, err error) {
	i := slices.IndexFunc(r.runs, func(run *replay) bool { return slices.Equal(run.at, at) })
	switch {
	case i >= 0:
		run, again = r.runs[i], true
		r.runs = slices.Delete(r.runs, i, i+1)
	case len(r.runs) == mostReplays:
		if old := r.runs[mostReplays-1].graph; old != nil {
			err = old.Close()
		}
		r.runs = r.runs[:mostReplays-1]
		fallthrough
	default:
		run = &replay{at: slices.Clone(at)}
	}
	r.runs = slices.Insert(r.runs, 0, run)
	return run, again, err
}

// perform runs the step with buffers at addresses: it is queued the first time, so that
// whatever is prepared on first use is, recorded the second time, and launched from then on.
func (x *Executable) perform(ctx context.Context, at []device.Ptr) error {
	r := &x.replays
	if r.capturer == nil {
		r.stats.Queued++
		return x.queue(ctx, at, nil)
	}
	run, again, err := r.find(at)
	if err != nil {
		return err
	}
	if again && run.graph == nil {
		if run.graph, err = r.capturer.Capture(x.streams[compute], func() error { return x.queue(ctx, at, nil) }); err != nil {
			run.graph = nil
			if ctx.Err() != nil || r.always {
				return err
			}
			r.stats.Err, r.capturer = err, nil
			return keepFirst(r.close(), x.perform(ctx, at))
		}
		r.stats.Recorded++
	}
	if run.graph == nil {
		r.stats.Queued++
		return x.queue(ctx, at, nil)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("step: graph %q: before it is launched: %w", x.graph.Name(), err)
	}
	r.stats.Launched++
	return run.graph.Launch(x.streams[compute])
}
