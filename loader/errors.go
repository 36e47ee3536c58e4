package loader

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/loader/internal/read"
	"github.com/pinion-gpu/pinion/loader/internal/slab"
)

// Errors that callers can tell apart with [errors.Is].
var (
	// ErrHeld: Next was called while the caller holds every device buffer
	// that the next batch could be in.
	ErrHeld = errors.New("every device buffer is held by the caller")
	// ErrReleased: a batch was released more often than it was held.
	ErrReleased = errors.New("batch already released")
	// ErrNoSamples: every sample of an epoch was left out, see [Skip].
	ErrNoSamples = errors.New("nothing can be read")
	// ErrTimeout: a sample took longer than [Options].SampleTimeout.
	ErrTimeout = read.ErrTimeout
	// ErrTooLong: a sample is longer than there is room for.
	ErrTooLong = slab.ErrTooLong
)

var errClosed = fmt.Errorf("loader: %w", device.ErrClosed)

// ErrorPolicy says what happens when a sample cannot be read.
type ErrorPolicy int

const (
	// Fail ends the loader with an error that names the sample.
	Fail ErrorPolicy = iota
	// Skip leaves the sample out: its batch is smaller, and not delivered if
	// nothing is left of it. An epoch of which nothing is left ends the loader
	// with [ErrNoSamples], which wraps the [SampleError] of the first sample that
	// was left out. Each rank looks at its own part alone, without what DropLast
	// cuts off. An epoch that Resume enters after its first batch never counts as
	// empty, since nobody knows what came before.
	Skip
	// Replace puts another sample in its place, drawn from the seed, the
	// epoch and the index of the one that cannot be read.
	Replace
)

// SampleError is a sample that could not be read. It wraps the reason.
type SampleError struct {
	Index int // of the sample
	// Name of the sample in the dataset, or of the target that was at fault.
	Name  string
	Epoch int
	Batch int // number within the epoch
	Err   error
}

// Error names the sample, once.
func (e *SampleError) Error() string {
	text := e.Err.Error()
	if strings.Contains(text, e.Name) {
		return fmt.Sprintf("loader: sample %d: %s", e.Index, text)
	}
	return fmt.Sprintf("loader: sample %d: %s: %s", e.Index, e.Name, text)
}

// Unwrap returns the reason.
func (e *SampleError) Unwrap() error { return e.Err }

// unread remembers samples that were left out or replaced.
type unread struct {
	mu   sync.Mutex
	list []*SampleError
	seen map[unreadKey]bool
}

// unreadKey tells a sample from its targets.
type unreadKey struct {
	index int
	name  string
}

// add remembers an error of a sample that is not known yet, up to most of
// them; below 0 all.
func (u *unread) add(err error, most int) {
	var sample *SampleError
	if !errors.As(err, &sample) {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	key := unreadKey{sample.Index, sample.Name}
	if u.seen[key] || most >= 0 && len(u.list) >= most {
		return
	}
	if u.seen == nil {
		u.seen = map[unreadKey]bool{}
	}
	u.seen[key] = true
	u.list = append(u.list, sample)
}

// Unread returns the samples that were left out or replaced so far: each once,
// however many epochs it was in, with its first error, in the order in which
// they were found. There are at most [Options].KeepErrors. It may be called at
// any time from any goroutine.
func (l *Loader) Unread() []*SampleError {
	l.unread.mu.Lock()
	defer l.unread.mu.Unlock()
	return slices.Clone(l.unread.list)
}
