// Package device is the seam between Pinion and the hardware: memory on a
// device, streams that work on it in order, and events that order streams and
// measure them. Everything above this package is written once and runs on
// every backend.
//
// # Opening
//
// [Open] takes a device name: "cuda:0" for the first CUDA device, "host" for
// ordinary memory (with a capacity, "host:4GiB"), "auto" for the first device
// that works. Backends register themselves when they are imported; import
// device/all for its effect to have every one of them:
//
//	import (
//		"github.com/pinion-gpu/pinion/device"
//		_ "github.com/pinion-gpu/pinion/device/all"
//	)
//
//	dev, err := device.Open("auto")
//
// # Order
//
// A [Stream] runs its operations in the order they were queued; different
// streams run beside each other. Copies, [Stream.Memset], kernels and
// [Stream.Record] return when the work is queued, and host memory named in
// them must neither change nor go away until the work is done. To know that,
// wait for the stream ([Stream.Synchronize]), for an event recorded behind the
// work ([Event.Synchronize], or [Wait] where a context may cut the wait
// short), or for the device. [Stream.Wait] orders one stream behind another
// without the host.
//
// # Errors
//
// Bad arguments fail at once. Work that fails on the device after it was
// queued reports at the next synchronisation of its stream, of an event
// recorded behind it, or of the device. Callers can handle [ErrOutOfMemory],
// [ErrPinLimit], [ErrClosed], [ErrNotSupported], [ErrPointer], [ErrCapturing],
// [ErrArgument] and [ErrUnavailable] with [errors.Is]; the text around them carries the
// numbers, and for a driver the call, name and code.
//
// # Capabilities
//
// What not every backend can do is a small interface of its own, which [As]
// finds: [Pinner] (page-locked memory), [HostAllocator] (pinned memory made by
// the driver), [Manager] (managed memory), [Mapper] (virtual memory),
// [StreamAllocator] (allocation in stream order), [BatchCopier] (many copies
// in one call), [BoxCopier] (strided copies), [PeerCopier] (copies from another
// device), [FileMover] (files straight to the device), [RangeChecker] (is this
// the device's memory?), [ContextRecorder] (an event behind everything that is
// queued), [Capturer] (work that is recorded, and launched again as one),
// [Launcher] (device kernels), [Caller] (Go functions in stream order), [Sharer]
// (memory that other devices of the host write to) and [Native] (libraries of the
// device's vendor, and streams that they made).
//
//	if pinner, ok := device.As[device.Pinner](dev); ok { … }
//
// Ask once, when the device is handed to you, and keep the answer.
// [Capabilities] names what a device has, for people to read.
//
// # Wrappers
//
// A type that embeds [Wrapper] wraps a device to watch or change some of its
// methods. It keeps every ability of the device inside, for As looks there too.
// So never use a type assertion on a device, and compare devices with [Same].
//
// # Ownership
//
// Addresses are integers ([Ptr]) that the Go runtime knows nothing about:
// what is allocated must be freed. [Device.Close] waits for queued work and
// frees what is left.
package device
