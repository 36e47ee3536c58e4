// Package sampler says in which order samples are visited: an index for every
// position of every epoch.
//
//	order, err := sampler.NewRandom(1_281_167, seed)
//	mine, err := sampler.NewDistributed(order, rank, world, false)
//	batches, err := sampler.NewBatches(mine, 64, true)
//	for k := range batches.Len() {
//		batch = batches.AppendAt(batch[:0], epoch, k)
//		// … read the samples in batch
//	}
//
// # An order is a function
//
// A [Sampler] keeps no position and no list. [Sampler].At computes the index
// at a position of an epoch from the seed and those two numbers, so
//
//   - workers may ask for any position, in any order, at once;
//   - the state of a job is its epoch and position: it resumes in the middle
//     of an epoch at once, with the samples that it would have had;
//   - what is visited depends on the seed, the epoch and the position, and on
//     nothing else. The same seed gives the same order on every machine.
//
// No generator is shared, so there is no counterpart of PyTorch's set_epoch to
// forget: pass the epoch's number.
//
// # Kinds
//
// [Sequential] and [Random] visit each sample once. Random stores no
// permutation: it computes one, a keyed bijection, and its inverse
// ([Random.Position]). A billion samples take as much memory as ten.
//
// [RandomWithReplacement] and [Weighted] draw a given number of indices per
// epoch. Use Weighted to balance classes: give each sample the weight 1 divided
// by the size of its class.
//
// [Blocks] is for samples that are cheap to read together, such as those of a
// tar shard on a web server: it shuffles blocks of them, and samples within a
// window of a few blocks.
//
// # Ranks
//
// [Distributed] takes one rank's part of an order, by the rules of PyTorch's
// DistributedSampler. Wrap the order, then cut batches. At equal global batch
// (batch size times world size) a full global batch holds the same samples
// whatever the number of ranks.
//
// # Batches
//
// [Batches] cuts an order into batches. [ByLength] makes batches of samples of
// similar length, in random order, and [PaddingOf] tells what that saves. Its
// batches belong together, so ranks share them by [DistributedBatches].
//
// # Streams
//
// A stream has no length and no k-th sample. [ShuffleBuffer] shuffles it within
// a window of fixed size, deterministic too, but its state is its items: it
// resumes by going through the stream again.
//
// # Randomness of samples
//
// [Key] gives 64 random bits to each visit of a sample, for crops, mirroring
// and the like.
//
// # Errors and limits
//
// Constructors return [ErrArgument] with the number that is wrong. Methods do
// not fail: outside of an epoch there is the index -1, or an empty batch.
// The random numbers are good enough for statistics; they hide no secrets.
package sampler
