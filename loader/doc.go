// Package loader turns a dataset into batches in device memory, ahead of the
// program that uses them.
//
//	ld, err := loader.New(dev, photos, loader.Options{Batch: 64, Shuffle: true, Epochs: 90})
//	defer ld.Close()
//	for range 90 {
//		for b, err := range ld.Epoch(ctx) {
//			if err != nil {
//				return err
//			}
//			// … queue work on b.Data and b.DeviceLabels on stream, then:
//			b.Release(stream)
//		}
//		// … the next epoch's first batches are there already
//	}
//
// [Loader.Next] gives batches one by one, [Loader.All] those of all epochs. A
// loop that is left early ends its epoch: the next one begins with a new epoch,
// while [Loader.Rest] goes on in the old one.
//
// # How a batch is made
//
// Workers (goroutines) read samples straight into a slab: one batch of host
// memory, pinned where that pays. When its last sample is there, the slab is
// queued to the device in one asynchronous copy, with labels behind the samples.
// Images are sent as bytes, or as samples of 16 bits, and become normalised
// floats in NCHW order on the device. There are several device buffers, so that
// one batch is copied and transformed while another is used; events on the
// device, not the host, keep a buffer from being overwritten too early.
//
// [NewOn] deals batches out to several devices in turn.
//
// What a batch takes of a device is known before anything is allocated. One that
// does not fit is a [BatchError], which says how many samples would; with
// [AutoBatch] a batch has as many as all device buffers have room for.
//
// # Order
//
// What is in a batch, and everything random about its samples, depends on the
// seed, the epoch, the index of each sample, and nothing else. Workers, prefetch,
// pinning, devices and restarts change nothing, nor does the number of ranks as
// long as Batch times World stays the same. Batches come in the order of the
// sampler, whichever worker is first; with Unordered, those of an epoch come as
// they become complete.
//
// [Loader.State] is where a loader is, as a page of JSON. A loader that gets it
// as Resume goes on there at once: orders are functions (see package sampler),
// so nothing is read or drawn again. A state of another dataset, order or batch
// size fails with [ErrState].
//
// A dataset of unknown length ([dataset.UnknownLen]), such as a compressed tar or
// a pipe, is read in order, from its first sample to its last. One that is a
// [dataset.Repeater], as a file is and a pipe is not, is read again for each epoch;
// nothing of the next epoch is read before the end of the one before it.
//
// # Targets
//
// [Options].Targets are datasets whose sample i goes with sample i of the
// dataset: masks, boxes, rows of tokens. They are read in the same visit, so that
// a mask is cropped and mirrored as its photo is. They cross the link in the same
// copy, and lie in [Batch].Targets as they were read, until the batch is
// released.
//
// # Samples of different lengths
//
// Samples of a ragged dataset are padded to the longest of their batch, or to
// PadTo; those of a target with zeros to the longest of the batch.
// [Batch].Lengths and masks say what is data. The batches of package sampler's
// ByLength keep padding small.
//
// # Memory
//
// The loader takes Prefetch+1 slabs of host memory and DeviceBuffers batches of
// device memory (and as many of raw bytes, for images) for each device when it
// is made, and none after that, except for buffers on demand if MaxDeviceBuffers
// allows it. If there is less memory, it works with fewer, down to one of each.
// Batches that are held when the loader is closed keep their memory until they
// are released.
//
// # Errors
//
// A sample that cannot be read is a [SampleError]: its file or that of a target
// is damaged, code of the dataset panics, or the time limit is over. The error
// ends the loader after the batches before it; or the sample is left out ([Skip])
// or replaced by another ([Replace]), and listed by [Loader.Unread].
// [Options].Decide chooses for each. %+v prints the stack of a panic. An epoch of which everything is left out
// ends the loader with [ErrNoSamples].
package loader
