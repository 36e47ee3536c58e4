package trace

import "time"

// Op is what an [Event] does.
type Op uint8

const (
	// Alloc allocates a block of memory.
	Alloc Op = iota
	// Free frees it.
	Free
)

// String returns the word for o in JSON lines.
func (o Op) String() string {
	switch o {
	case Alloc:
		return "alloc"
	case Free:
		return "free"
	}
	return "unknown"
}

// Event is one allocation or free.
type Event struct {
	Op Op

	// Failed is set on an allocation that failed when it was recorded. It has
	// no ID, and no free follows.
	Failed bool

	// ID identifies the allocation, also on its free. No other allocation of
	// the trace has the same ID.
	ID uint64

	// Bytes is what was requested, at least 1. A free has the bytes of its
	// allocation.
	Bytes int64

	// Stream is the stream that uses the memory, or behind whose work the free
	// is ordered: a small number from 0.
	Stream int

	// Time is the time since the first event of the trace that has one. It is 0
	// if the trace does not say.
	Time time.Duration

	// Purpose and Name describe an allocation if the trace does, for example
	// "activations" and "layer3.attention". Frees have none.
	Purpose, Name string
}
