// Package loader turns a dataset into batches in device memory, ahead of the
// program that uses them.
//
//	ld, err := loader.New(dev, photos, loader.Options{Batch: 64, Shuffle: true})
//	defer ld.Close()
//	for {
//		b, err := ld.Next(ctx)
//		if err == io.EOF {
//			break
//		}
//		// … queue work on b.Data on stream, then:
//		b.Release(stream)
//	}
//
// # How a batch comes about
//
// Workers (goroutines) read samples straight into a slab: one batch of host
// memory, pinned where that pays. When the last sample of a slab is there, it
// is queued to the device in one asynchronous copy; images are sent as bytes
// and become normalised floats in NCHW order there. Device buffers are doubled,
// so one batch is copied and transformed while another is used; events on the
// device, not the host, keep a buffer from being overwritten too early.
//
// Batches come in the order of the sampler, whichever worker is first, so the
// number of workers, the depth of prefetch and pinning change nothing but
// speed.
//
// # Memory
//
// The loader takes Prefetch+1 slabs of host memory and DeviceBuffers batches
// of device memory (and as many of raw bytes, for images) when it is made, and
// none after that: epochs may go on for ever. Where less memory is to be had
// it works with fewer, down to one of each.
//
// # Errors
//
// A sample that cannot be read ends the loader with an error that names it,
// after the batches before it; with [Skip] it is left out of its batch and
// counted.
package loader
