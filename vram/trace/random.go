package trace

import (
	"errors"
	"iter"
	"math/rand/v2"
)

// RandomOptions are the parameters of [Random].
type RandomOptions struct {
	// Count is how many allocations there are. Default 10,000.
	Count int
	// Max is the largest allocation in bytes. Default 1 GiB.
	Max int64
	// Live is how many bytes may be live at a time, at least Max. Default
	// 16 GiB, or Max if that is more.
	Live int64
	// Seed chooses the sizes and the order. Every seed, 0 too, gives another
	// trace.
	Seed uint64
}

// Random allocates Count blocks on stream 0 whose sizes are uniform in 1 to
// Max. Before an allocation that would take the live bytes above Live, live
// blocks chosen at random are freed until it fits. At the end the rest is
// freed in random order.
//
// Memory stays almost full and lifetimes have nothing to do with sizes or with
// each other, which is the hardest case for an allocator that cannot move
// blocks.
//
// Errors wrap [ErrArgument].
func Random(o RandomOptions) (iter.Seq[Event], error) {
	defaults(&o.Count, 10_000)
	defaults(&o.Max, 1<<30)
	defaults(&o.Live, max(16<<30, o.Max))
	err := errors.Join(atLeast("Count", o.Count, 1), atLeast("Max", o.Max, 1), atLeast("Live", o.Live, o.Max))
	if err != nil {
		return nil, err
	}
	return generate(o.Seed, func(e *emitter, rng *rand.Rand) {
		var live []Event
		for n := 0; n < o.Count && !e.stopped; n++ {
			size := 1 + rng.Int64N(o.Max)
			for e.live > o.Live-size {
				live = e.freeRandom(rng, live)
			}
			live = append(live, e.alloc(Event{Bytes: size}))
		}
		for len(live) > 0 && !e.stopped {
			live = e.freeRandom(rng, live)
		}
	}), nil
}
