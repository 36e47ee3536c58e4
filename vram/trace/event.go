package trace

import "time"

// Op is what an [Event] does.
type Op uint8

const (
	// Alloc makes a block of memory.
	Alloc Op = iota
	// Free gives it back.
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

	// Failed is set on an allocation that was asked for and not granted. It
	// has no ID, and no free follows.
	Failed bool

	// ID names the allocation, and the same one on its free. No other
	// allocation of the trace has it, before or after.
	ID uint64

	// Bytes is what was requested, at least 1. A free has the bytes of its
	// allocation.
	Bytes int64

	// Stream is the stream that uses the memory, or that the free is ordered
	// behind: a small number from 0.
	Stream int

	// Time is when it happened, since the first event of the trace that has a
	// time. It is 0 where the trace does not say.
	Time time.Duration

	// Purpose and Name describe an allocation where the trace does, for
	// example "activations" and "layer3.attention". Frees have none.
	Purpose, Name string
}
