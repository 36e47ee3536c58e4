package trace

import (
	"errors"
	"iter"
	"math/rand/v2"
)

// CyclesOptions are the parameters of [Cycles].
type CyclesOptions struct {
	// Cycles is how often everything is allocated and freed. Default 100.
	Cycles int
	// Bytes is what is live at the peak of each cycle. Default 8 GiB.
	Bytes int64
	// Min and Max are the smallest and largest allocation in bytes. Default
	// 4 MiB and 1 GiB (but at most Bytes, and Max at least Min).
	Min, Max int64
	// Seed chooses the sizes and the order of frees.
	Seed uint64
}

// Cycles allocates blocks on stream 0 whose sizes are uniform in Min to Max,
// until exactly Bytes are live (the last block takes what is left, which may
// be less than Min), and frees all of them in random order; then the next
// cycle does the same with other sizes. It is a service that handles requests
// of different shapes with the same total.
//
// Every cycle needs the same memory. An allocator that keeps blocks of the
// sizes that it has seen reserves more with each.
//
// Errors wrap [ErrArgument].
func Cycles(o CyclesOptions) (iter.Seq[Event], error) {
	defaults(&o.Cycles, 100)
	defaults(&o.Bytes, 8<<30)
	defaults(&o.Min, min(4<<20, o.Bytes))
	defaults(&o.Max, min(max(1<<30, o.Min), o.Bytes))
	err := errors.Join(atLeast("Cycles", o.Cycles, 1), atLeast("Min", o.Min, 1),
		atLeast("Max", o.Max, o.Min), atLeast("Bytes", o.Bytes, o.Max))
	if err != nil {
		return nil, err
	}
	return generate(o.Seed, func(e *emitter, rng *rand.Rand) {
		for n := 0; n < o.Cycles && !e.stopped; n++ {
			var live []Event
			for e.live < o.Bytes && !e.stopped {
				size := min(o.Min+rng.Int64N(o.Max-o.Min+1), o.Bytes-e.live)
				live = append(live, e.alloc(Event{Bytes: size}))
			}
			for len(live) > 0 && !e.stopped {
				live = e.freeRandom(rng, live)
			}
		}
	}), nil
}
