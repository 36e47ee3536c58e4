package device

// API is a vendor's programming interface.
type API string

// CUDA is NVIDIA's.
const CUDA API = "CUDA"

// Native is a device whose vendor's libraries can work on its memory and
// streams: for CUDA, nvJPEG and the like. WithContext and WithStream run fn on a thread
// where the device's context is current, return its error, and hold the device
// open meanwhile. So fn must not call methods of the device, its streams or
// its events, and must not wait for another goroutine that does.
type Native interface {
	// API says whose libraries those are.
	API() API

	// StreamOf makes a stream of the vendor's handle of one that exists, for
	// CUDA a CUstream in the device's primary context such as PyTorch's
	// torch.cuda.current_stream().cuda_stream, zero included, which is the
	// default stream. It stays its maker's, and must exist for as long as the
	// result is used: Close, also that of the device, neither waits for its
	// work nor destroys it. A handle that is none, or one of another context,
	// fails with [ErrArgument] where the driver can tell.
	StreamOf(handle uintptr) (Stream, error)

	// WithContext runs fn.
	WithContext(fn func() error) error

	// WithStream runs fn with the vendor's handle of s, for CUDA a CUstream,
	// which is valid until fn returns. What fn queues there runs in the order
	// of the stream.
	WithStream(s Stream, fn func(handle uintptr) error) error
}
