// Package timeline records what happens in a process, on the host and on its devices,
// on one clock: copies and kernels with the times at which the device did them, the
// stages of loaders, waits, moves between tiers, and what memory holds. It writes a
// file for ui.perfetto.dev and chrome://tracing, and says how well the work overlapped.
//
//	r, err := timeline.Start(timeline.Options{})
//	…
//	defer r.Stop()
//	dev = r.Wrap(dev) // before anything else has it
//	…                 // loaders, engines, pools and stores on dev
//	r.Stop()
//	err = r.WriteFile("trace.json")
//	r.Report().Write(os.Stdout)
//
// The command does this for "pinion feed --trace FILE", and for tune, load, bench link,
// bench tier and bench step.
//
// # What is recorded
//
// Loaders, engines of package transfer and stores of package tier tell of their work
// by themselves while a recording is on; there is one at a time in a process. Memory
// of all pools is looked at every 20 ms. What runs on a device is recorded by the
// wrapper around the device ([Recording.Wrap]): each copy, kernel, Go function in stream
// order and memset, with the call that queued it. A graph ([device.Capturer]) is one piece
// of work each time it is launched. Streams have the names that their
// owners give them by [device.Label].
//
// Work on streams that others made ([device.Native.StreamOf]) is not recorded so, nor is
// what other libraries queue, unless Pinion calls them. [Options].Others has NVIDIA's
// CUPTI tell of it: kernels and copies with their times, without their calls.
//
// # One clock
//
// Each piece of work lies between two events of the device. Events tell only the time
// between two of them, so four times a second an anchor is recorded on a stream of its
// own: an event of which the host's clock knows when it was passed, to within half of
// the time that recording it and waiting for it took. [DeviceReport] has the largest
// such error. Work is never shown as having begun before the call that queued it.
//
// Two things follow from events. Times begin when the stream reaches the work: a copy
// that waits for a copy engine which another stream keeps busy counts as running. And
// the gap between two pieces on one stream has the time in it that the device takes
// to pass two events, some microseconds.
//
// # Cost and limits
//
// Without a recording, each stage of a loader and each copy of an engine costs one
// atomic load. With one, a call to the device costs two more events and a lock. A
// recording keeps the newest [Options].Records records; what it drops is counted. At
// most 16,384 pieces of work on a device wait to be timed; what is queued beyond counts
// as untimed. Samples that take less than 0.1 ms are put together, up to a millisecond.
// No call waits for the device.
package timeline
