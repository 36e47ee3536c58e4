package trace

import (
	"errors"
	"iter"
	"math/rand/v2"
)

// GrowingOptions are the parameters of [Growing].
type GrowingOptions struct {
	// Model is the size of the model.
	Model Model
	// Steps is the number of training steps. Default 30.
	Steps int
	// From and To are the number of samples of the first and the last step,
	// To at least From. Default 64 and 96 (or From if that is more).
	From, To int
	// Seed chooses the sizes of workspaces.
	Seed uint64
}

// Growing is [Steps] with a batch that grows from From to To samples in equal
// parts, rounded down. Every activation of a step is a little larger than in
// the step before, so that no block of that step can be used again: the
// classic case in which caching allocators reserve many times what is live. With
// the defaults, 26.6 GB are live at the peak.
//
// Errors wrap [ErrArgument].
func Growing(o GrowingOptions) (iter.Seq[Event], error) {
	defaults(&o.Steps, 30)
	defaults(&o.From, 64)
	defaults(&o.To, max(96, o.From))
	err := errors.Join(atLeast("Steps", o.Steps, 1), atLeast("From", o.From, 1), atLeast("To", o.To, o.From), o.Model.check(o.To))
	if err != nil {
		return nil, err
	}
	return generate(o.Seed, func(e *emitter, rng *rand.Rand) {
		o.Model.train(e, rng, func(yield func(int) bool) {
			for step := range o.Steps {
				if !yield(o.From + grown(o.To-o.From, step, o.Steps)) {
					return
				}
			}
		})
	}), nil
}

// grown is the part of a growth that is reached in a step, counted from 0.
func grown(growth, step, steps int) int {
	if steps == 1 {
		return 0
	}
	parts := steps - 1
	return growth/parts*step + growth%parts*step/parts // without a product that overflows
}
