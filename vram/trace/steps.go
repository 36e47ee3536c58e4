package trace

import (
	"errors"
	"iter"
	"math/rand/v2"
)

// StepsOptions are the parameters of [Steps].
type StepsOptions struct {
	// Model is the size of the model.
	Model Model
	// Steps is the number of training steps. Default 20.
	Steps int
	// Batch is the number of samples of a step. Default 64.
	Batch int
	// Seed chooses the sizes of workspaces. All else is fixed by the model.
	Seed uint64
}

// Steps trains a transformer for some steps, on stream 0.
//
// At first it allocates, for an embedding and four matrices a layer, the
// weights, the gradients of the weights, and two moments of the optimizer
// (purposes "weights", "gradients", "optimizer"). They stay to the end.
//
// Each step allocates two tensors of token numbers ("batch"), then the eight
// activations of each layer in order and the logits ("activations"). Then it
// goes back: starting from the gradient of the logits, it frees an activation,
// allocates the gradient of the one below and frees the gradient above. Each
// layer uses a workspace of a size uniform in 1 to Model.Workspace in either
// direction, which is freed at once ("workspace"). Sizes are those of a batch
// of Batch samples with elements of 2 bytes, moments of 4, token numbers of 8.
// The step frees all that it allocates; the rest is freed at the end. With the
// defaults, 19.1 GB are live at the peak.
//
// Errors wrap [ErrArgument].
func Steps(o StepsOptions) (iter.Seq[Event], error) {
	defaults(&o.Steps, 20)
	defaults(&o.Batch, 64)
	err := errors.Join(atLeast("Steps", o.Steps, 1), atLeast("Batch", o.Batch, 1), o.Model.check(o.Batch))
	if err != nil {
		return nil, err
	}
	return generate(o.Seed, func(e *emitter, rng *rand.Rand) {
		o.Model.train(e, rng, func(yield func(int) bool) {
			for range o.Steps {
				if !yield(o.Batch) {
					return
				}
			}
		})
	}), nil
}
