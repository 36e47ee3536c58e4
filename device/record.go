package device

// ContextRecorder is a device that marks the end of everything that is queued
// on it, no matter by whom. It is the way to learn when work is done on streams
// that you have no handle of, such as those of another library.
//
// Where the device cannot, name the streams ([Native.StreamOf]) and record an
// event on each, or use [Device.Synchronize].
type ContextRecorder interface {
	// CanRecordAll reports whether the driver has the call: CUDA's from 12.5
	// on. RecordAll fails with [ErrNotSupported] where it does not.
	CanRecordAll() bool

	// RecordAll queues a mark in e that is passed when all is done that is
	// queued so far, on every stream of the device: for CUDA, all those of the
	// process's primary context, such as another library's and the default
	// stream. It waits for nothing itself. The event must be made with
	// [EventNoTiming]; others fail with [ErrArgument].
	//
	// CUDA refuses while any of those streams is being captured into a graph,
	// and thereby makes that capture invalid. So call it only for users who
	// asked for it.
	RecordAll(e Event) error
}
