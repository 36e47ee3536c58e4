package tune

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pinion-gpu/pinion/internal/units"
)

// Pipeline is what a search tries settings on.
type Pipeline interface {
	// Need predicts the memory that a setting takes. It fails with
	// [ErrDoesNotFit] where there is less than that; the setting is then not
	// tried.
	Need(s Setting) (Memory, error)

	// Try runs the pipeline with s and measures it in its steady state. Memory
	// that is not to be had is [ErrDoesNotFit]; any other error ends the
	// search.
	Try(ctx context.Context, s Setting, r Run) (Measurement, error)
}

// Run says how a setting is tried.
type Run struct {
	For  time.Duration // how long to measure
	Step bool          // whether each batch is used as long as the device would
}

// Memory is what a setting takes, in bytes.
type Memory struct {
	PinnedBytes int64 `json:"pinned_bytes"`
	HostBytes   int64 `json:"host_bytes"` // pinned and pageable
	DeviceBytes int64 `json:"device_bytes"`
}

// Measurement is how a trial went.
type Measurement struct {
	Took       time.Duration // all of the trial, what was not measured included
	Elapsed    time.Duration // the part that was measured: everything below is of it
	Samples    int64
	Batches    int64
	DeviceWait time.Duration // how long the consumer waited for a batch
	Step       time.Duration // how long it used batches
	LinkBytes  int64         // copied to the device
	Stages     []Stage
}

// Stage is the time spent in one stage. Those of workers are summed over all
// of them; "idle" is what workers waited for something to do.
type Stage struct {
	Name  string // "read", "decode", "resize", "idle"; "h2d", "transform"
	Where string // "worker" or "device"
	Time  time.Duration
}

// PerSecond is the rate in samples a second.
func (m *Measurement) PerSecond() float64 {
	if m.Elapsed <= 0 {
		return 0
	}
	return float64(m.Samples) / m.Elapsed.Seconds()
}

// waitFraction is the share of the time that the consumer waited.
func (m *Measurement) waitFraction() float64 {
	if m.Elapsed <= 0 {
		return 0
	}
	return m.DeviceWait.Seconds() / m.Elapsed.Seconds()
}

// ErrDoesNotFit: a setting needs more memory than there is.
var ErrDoesNotFit = errors.New("does not fit")

// DoesNotFitError says which memory is short. It is an [ErrDoesNotFit].
type DoesNotFitError struct {
	What                  string // "device memory", "pinned memory", …
	AskedBytes, FreeBytes int64
	Cause                 error // what the trial failed with; nil where it was not tried
}

func (e *DoesNotFitError) Error() string {
	text := fmt.Sprintf("%v: %s of %s needed, %s free", ErrDoesNotFit, units.Bytes(e.AskedBytes), e.What, units.Bytes(e.FreeBytes))
	if e.Cause != nil {
		text += ": " + e.Cause.Error()
	}
	return text
}

func (e *DoesNotFitError) Unwrap() []error { return []error{ErrDoesNotFit, e.Cause} }
