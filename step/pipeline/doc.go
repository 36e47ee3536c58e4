// Package pipeline runs a training step in stages, each on a rank with a device of its own,
// for models whose weights one device cannot hold.
//
//	r, err := pipeline.Open(s, exec, comm, pipeline.Options{Micro: 16}) // on each rank
//	err = r.Put(weights, data)
//	for {
//		result, err := r.Run(ctx, batch)
//		…
//	}
//
// The step is the one that package train runs on one device: a [train.Step], whose graph
// has the way forward, the way back, and the update. Results are those of [train.Open] with
// as many micro-batches: the same sums in the same order.
//
// # Stages
//
// What the loss is made of is the way forward. [Open] cuts it, in the order of the graph,
// into as many stages as there are ranks, or Chunks times as many: stage s is on rank s
// modulo the ranks. The slowest stage, with its part of the way back, takes as little time
// as can be, or up to 5 % more where that makes stages more even, or less crosses between
// them. With a Budget, state, sums of gradients, and what micro-batches keep for the way
// back fit it, by estimate. [Plan] says what a cut would be, and runs nothing.
//
// The rest follows from the cut:
//
//   - A value that a later stage reads goes from stage to stage until it is there, and is
//     kept for the way back where that reads it.
//   - An operation of the way back runs in the highest stage that has all the values and
//     weights that it reads, or lower if less is sent then. Gradients go from stage to stage
//     downwards.
//   - What depends on no batch, such as constants, is computed in each pass that wants it.
//     Without a Budget, weights in another type are made once for all micro-batches, and
//     stages have them besides.
//   - Tensors of a batch are made on all ranks, and kept where they are read.
//
// # State
//
// A state that the update replaces is on the rank where its gradient is added up, with the
// moments that the optimizer has of it. Other ranks that read it get what is new after each
// update: embeddings that the first and the last stage share. What an update makes of the
// gradients of several ranks, such as their norm, ranks compute each for themselves, of
// small values that they tell each other; an update that needs large ones is refused.
//
// What is made anew with each micro-batch ([train.State].Each) is in the stage that computes
// it, and no other may read it. If it depends on no batch, as the state of random numbers
// does, each stage that reads it has one of its own.
//
// # Order
//
// [Schedule] is the order of passes: 1F1B, or the interleaved one for several Chunks. 1F1B is
// the eager one, if the same cut fits the Budget with the micro-batches that it has under way.
// [Bubble] is how long ranks then wait, and [Simulate] the same with the times of stages and
// sends. While a pass runs, the rank receives what others send meanwhile.
//
// # Limits
//
// Options.Budget counts each state where its gradient is added up. A state that other ranks
// read besides, such as a tied table, and means of weights that an update keeps, are there
// as well, or on the weight's rank; and tensors of batches that wait for the way back are
// not counted. With several stages on a rank, each keeps memory for as many micro-batches as
// it has under way at most, though not all stages have at once.
//
// What depends on no batch is computed where it is read. So a penalty on the weights in the
// loss has the last rank hold all of them: add it to the gradients instead. And random
// numbers of all layers are drawn in each stage that draws any.
//
// # Checkpoints
//
// [Runner.Save] and [Runner.Load] are for any number of ranks, however they cut the step;
// package train's runner reads and writes the same. [Runner.Get] puts state together on all
// ranks.
//
// # Failures
//
// Open compares the steps and the cuts of all ranks. What cannot be right is an error on all
// ranks. A rank that fails in a step aborts its communicator, which tells nobody else: whoever
// started the ranks aborts those of the others, as parallel/auto does.
package pipeline
