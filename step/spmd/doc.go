// Package spmd splits the weights of a training step over ranks, each with a device of its
// own: tensor parallelism, for models whose layers are too large, or too slow, for one.
//
//	splits := []spmd.Split{{up, 1}, {down, 0}} // columns of one weight, rows of the next
//	p, err := spmd.Partition(&s, comm.Size(), comm.Rank(), splits)
//	r, err := train.Open(*p.Step, exec, train.Options{Compile: step.Options{Ranks: comm}})
//	part, err := spmd.Cut(data, up.Shape(), p.State[0], comm.Size(), comm.Rank())
//	err = r.Put(p.Step.State[0].Param, part)
//	…
//	fmt.Print(&p.Report)
//
// [Partition] takes a step of package train, and which of its parameters are split along
// which axis. It writes the step anew as that of one rank: the same way forward, way back and
// update, of parts, with sums over ranks where they are needed. All ranks run theirs together,
// with the same batches. Losses and weights are those of one device, but for the order of
// sums: numbers of 16 bits are rounded before ranks add them up.
//
// # What to split
//
// A transformer is split as in Megatron-LM (Shoeybi et al., 2019): the weights of queries,
// keys and values, and of the first product of the perceptron, by columns; that behind
// attention, and the second product, by rows. Ranks then have heads, and hidden units, of
// their own, and add up two values in each block on the way forward, and two on the way back.
// A table of the vocabulary can be split by rows, and the last product by columns.
//
// It is enough to name the weights that are split by columns. What an annotated weight is
// updated with element by element, as its moments, is split like it, and so is a weight whose
// update comes out split.
//
// # How it goes on
//
// Each value of the step is split along an axis, whole on each rank, or partial: each rank
// has a summand. Operations go, in their order, by what their operands are:
//
//   - Element by element, and where values only move, parts stay parts.
//   - A product over a split axis, and a sum along one, are partial. Partial values stay so
//     through what takes summands, and are added up for the first that does not: once, for
//     all that read them, or into parts if they update a weight that is split.
//   - Rows of a table are taken by the rank that has them; others have zeros to add.
//   - Attention is split by heads or by batch.
//   - What goes along a split axis in another way, such as a convolution or a slice of it,
//     has its operands gathered, and each rank does all of it. So nothing is refused, and
//     nothing is wrong, but memory and time are not saved: [Report] lists what is gathered.
//
// # Limits
//
// Ranks are one group: all have the same samples. Parameters of the batch may be split, too,
// along the samples, but not over other ranks than the weights are. Axes have to be divisible
// by the number of ranks, and heads of attention for it to be split by them. Random numbers
// are made by all ranks alike. Nothing compares what ranks were given: steps and annotations
// have to be the same, and each rank has the step of its own number.
package spmd
