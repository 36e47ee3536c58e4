// Package train runs training steps: state that stays on the device, gradients added up
// over micro-batches, losses scaled for f16, a batch size for a budget, inputs of many
// lengths, and sparse weights.
//
//	s := train.Step{Graph: g, Batch: …, State: …, Loss: loss, Gradients: gradients}
//	r, err := train.Open(s, exec, train.Options{Accumulate: 4, Autocast: dtype.BF16})
//	err = r.Put(weights, data)
//	for {
//		result, err := r.Run(ctx, batch)
//		…
//	}
//
// A [Step] is a graph of package step with the meaning of its values. There is no automatic
// differentiation here: what builds the graph, or another package, writes the gradients.
//
//   - [Open] compiles it, as one graph, or as one for each micro-batch and one for the
//     update. The sums of gradients stay on the device, and count in the budget.
//   - Ranks share what they are given: batches, and what [Sharing] says of the state.
//   - [Runner.Save] and [Runner.Load] keep the state, with any number of ranks.
//   - [Scaler] adds loss scaling that adapts to a graph while it is built.
//   - [Fit] finds the largest micro-batch for a budget.
//   - [Buckets] are executables for inputs of different lengths.
//   - [Magnitude] and [TwoOfFour] add masks of weights that stay.
package train
