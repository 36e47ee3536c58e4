package trace

import (
	"errors"
	"iter"
	"math/bits"
	"math/rand/v2"
)

// StreamsOptions are the parameters of [Streams].
type StreamsOptions struct {
	// Count is how many allocations there are. Default 10,000.
	Count int
	// Streams is how many streams there are, numbered from 0. Default 4.
	Streams int
	// Min and Max are the smallest and largest allocation in bytes. Default
	// 512 B and 256 MiB (or Min if that is more).
	Min, Max int64
	// Live is how many bytes may be live at a time, at least Max. Default
	// 8 GiB, or Max if that is more.
	Live int64
	// Seed chooses sizes, streams and the order.
	Seed uint64
}

// Streams allocates Count blocks on several streams and frees them in random
// order, as copies, kernels and collectives that run beside each other do.
//
// In turns it frees a random live block (with probability 1/2, if there is
// one) and allocates one, after as many more random frees as it needs to stay
// within Live. The stream is uniform. For the size, a power of two of those
// between Min and Max is drawn, and a size uniform between it and its double,
// so that there are as many blocks of 1 to 2 KiB as of 1 to 2 MiB. A block is
// freed on its own stream. At the end the rest is freed in random order.
//
// Errors wrap [ErrArgument].
func Streams(o StreamsOptions) (iter.Seq[Event], error) {
	defaults(&o.Count, 10_000)
	defaults(&o.Streams, 4)
	defaults(&o.Min, 512)
	defaults(&o.Max, max(256<<20, o.Min))
	defaults(&o.Live, max(8<<30, o.Max))
	err := errors.Join(atLeast("Count", o.Count, 1), atLeast("Streams", o.Streams, 1),
		atLeast("Min", o.Min, 1), atLeast("Max", o.Max, o.Min), atLeast("Live", o.Live, o.Max))
	if err != nil {
		return nil, err
	}
	return generate(o.Seed, func(e *emitter, rng *rand.Rand) {
		var live []Event
		for n := 0; n < o.Count && !e.stopped; n++ {
			if len(live) > 0 && rng.IntN(2) == 0 {
				live = e.freeRandom(rng, live)
			}
			size := octaves(rng, o.Min, o.Max)
			for e.live > o.Live-size {
				live = e.freeRandom(rng, live)
			}
			live = append(live, e.alloc(Event{Bytes: size, Stream: rng.IntN(o.Streams)}))
		}
		for len(live) > 0 && !e.stopped {
			live = e.freeRandom(rng, live)
		}
	}), nil
}

// octaves draws a size of least to most: first a power of two, then a size up
// to twice that. It takes no logarithm, whose last bits differ by machine.
func octaves(rng *rand.Rand, least, most int64) int64 {
	first := bits.Len64(uint64(least)) - 1
	last := max(first, bits.Len64(uint64(most-1))-1)
	octave := int64(1) << (first + rng.IntN(last-first+1))
	low, high := max(least, octave), min(most-octave, octave)+octave
	return low + rng.Int64N(high-low+1)
}
