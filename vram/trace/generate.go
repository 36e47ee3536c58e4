package trace

import (
	"fmt"
	"iter"
	"math/rand/v2"

	"github.com/pinion-gpu/pinion/internal/units"
)

// emitter yields the events of a generator. Once the consumer has stopped, it
// does nothing more.
type emitter struct {
	yield   func(Event) bool
	stopped bool
	nextID  uint64
	live    int64 // bytes
}

// generate makes a sequence of a function that emits one. Each iteration has
// its own emitter and random numbers, and so the same events.
func generate(seed uint64, emit func(*emitter, *rand.Rand)) iter.Seq[Event] {
	return func(yield func(Event) bool) {
		emit(&emitter{yield: yield, nextID: 1}, rand.New(rand.NewPCG(seed, 0)))
	}
}

func (e *emitter) alloc(event Event) Event {
	event.ID = e.nextID
	e.nextID++
	e.live += event.Bytes
	e.stopped = e.stopped || !e.yield(event)
	return event
}

func (e *emitter) free(event Event) {
	e.live -= event.Bytes
	event.Op, event.Purpose, event.Name = Free, "", ""
	e.stopped = e.stopped || !e.yield(event)
}

// freeRandom frees one of the blocks, each as likely as another, and returns
// the rest in another order.
func (e *emitter) freeRandom(rng *rand.Rand, blocks []Event) []Event {
	i, last := rng.IntN(len(blocks)), len(blocks)-1
	e.free(blocks[i])
	blocks[i] = blocks[last]
	return blocks[:last]
}

// defaults replaces a value of 0.
func defaults[T int | int64](value *T, by T) {
	if *value == 0 {
		*value = by
	}
}

// quantity prints a number of bytes, which is an int64 here, or of anything else.
func quantity[T int | int64](value T) string {
	if bytes, ok := any(value).(int64); ok {
		return units.Bytes(bytes)
	}
	return fmt.Sprint(value)
}

// atLeast fails for a named value below a limit.
func atLeast[T int | int64](name string, value, limit T) error {
	if value < limit {
		return fmt.Errorf("trace: %w: %s is %s, but must be at least %s", ErrArgument, name, quantity(value), quantity(limit))
	}
	return nil
}
