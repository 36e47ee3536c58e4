// Package measure times things side by side: the measuring part of `pinion
// bench` and of the programs in bench/.
//
// A [Sample] is one thing to time. [Plan.Run] checks every sample, warms it up,
// and then times all of them in turn, one repeat of each after the other, so
// that a machine that drifts drifts for all of them. The result of a sample is a
// [Row]: the median of its repeats with the least and the most.
//
//	skipped, err := measure.Plan{Repeats: 7}.Run(ctx, []*measure.Sample{staged, pinned})
//
// What the device or the machine cannot do is no error: the sample is skipped,
// and the others go on without it.
package measure
