package device

// Capturer is a device that records what is queued on streams, instead of running it, and
// launches all of it again as one: a kernel of a few microseconds costs nearly as much to
// queue as to run, and a launch of thousands costs as much as a few.
type Capturer interface {
	// CanCapture reports whether the driver can: CUDA's from 11.4 on. Capture fails with
	// [ErrNotSupported] where it cannot.
	CanCapture() bool

	// Capture runs fn, and records what it queues on s. Nothing of that runs before the
	// graph is launched, then with the addresses and arguments of now. Copies, also those to
	// and from pinned host memory, Memset, kernels, functions of a [Caller], and events can
	// be recorded.
	//
	// Another stream joins the capture when it waits for an event that was recorded in it,
	// and what is queued there from then on is recorded, too. It must be joined again: what
	// it does last has to be before an event that s waits for, if not directly. Events order
	// the work of the graph only. No launch passes them, and they cannot be waited for until
	// they are recorded anew, outside of a capture.
	//
	// In fn, a stream that is being captured can be neither waited for nor closed, nor may
	// it allocate or free ([StreamAllocator]), launch a graph, or begin another capture: each
	// fails with [ErrCapturing]. It cannot wait for events from outside of the capture, either.
	// Host memory in copies has to be pinned, or they may fail with [ErrArgument]. Nobody
	// else may use s or streams that join meanwhile. What waits for the device
	// ([Device.Synchronize], [Device.Free]) does not wait for what is recorded.
	//
	// Capture fails with fn's error, and with [ErrCapturing] if a stream was not joined
	// again, or if something else made the capture invalid; the streams are then as they
	// were before it. fn runs on the caller's goroutine.
	Capture(s Stream, fn func() error) (Graph, error)

	// Capturing reports whether s is being captured, by whomever.
	Capturing(s Stream) bool
}

// Graph is recorded work. Its methods are safe for concurrent use.
type Graph interface {
	// Launch queues all of it on s, of the same device. Other streams that took part in
	// the capture are not involved. Launches of one graph follow one another, also on
	// several streams. The memory that the work names has to be there until it is done.
	Launch(s Stream) error

	// Close gives the graph back. It does not wait: what was launched runs to its end. A
	// second Close does nothing, and Close of the device closes its graphs.
	Close() error
}
