// Package managed holds arrays in managed (unified) memory: the host sees them as
// slices, the device at an address, and where the two have memory of their own,
// the driver moves the pages to whoever touches them.
//
//	weights, err := managed.New[float32](dev, 1<<20, managed.Options{})
//	defer weights.Free()
//	host, err := weights.Slice()      // []float32
//	...                               // fill it
//	err = weights.Prefetch(stream, device.OnDevice)
//	p, err := weights.Ptr()           // for kernels on that stream
//
// Managed memory is for convenience: data of which the device touches little, and
// nobody knows which; structures that point into themselves; code that is being
// ported. A page that is missing is a fault, and data that comes by faults comes
// at a fraction of the speed of the link. [Array.Prefetch] moves pages before they
// are missed, to the device nearly as fast as a copy of pinned memory, to the host
// at a fraction of that. For data that streams through the device, packages
// transfer and vram are faster and say what happens when.
//
// New refuses arrays for which the device has no room. Such an array would work,
// with pages that push each other out, at the speed of faults.
//
// # Order
//
// The slice is memory that the device may be writing. The host may read it when
// the work that writes it is done, and write it when the work that uses it is
// done: synchronise the stream in between, or wait for an event.
//
// # Devices
//
// Every call works on every device that has managed memory, the host backend
// included, where nothing migrates. Prefetches and advice are hints: where the
// device does not take them, they do nothing.
package managed
