package device

// Launcher is a device that runs compiled kernels.
type Launcher interface {
	// ImageFormat is the portable form of device code that LoadModule takes.
	ImageFormat() ImageFormat

	// LoadModule loads a module from an image of that format, or from one that
	// was compiled for this very device: for CUDA, PTX text or a cubin.
	LoadModule(image []byte) (Module, error)
}

// ImageFormat is a form of device code.
type ImageFormat string

// PTX is NVIDIA's portable assembly, as text.
const PTX ImageFormat = "PTX"

// Module is a loaded set of kernels.
type Module interface {
	// Kernel finds a kernel by its unmangled name.
	Kernel(name string) (Kernel, error)
	// Close unloads the module; no launch of its kernels may be queued.
	Close() error
}

// Kernel is a device function that can be launched.
type Kernel interface {
	// Launch queues the kernel on s with args as its parameters. The types
	// and order in args must be those of the kernel: the device cannot check
	// them.
	Launch(s Stream, grid Grid, args *Args) error
}

// Grid is the shape of a launch: blocks of threads, and bytes of dynamic
// shared memory for each block.
type Grid struct {
	BlocksX, BlocksY, BlocksZ int // zero counts as one
	Threads                   int // a block, in one dimension
	SharedBytes               int
}

// Caller is a device whose kernels are Go functions: the host backend.
type Caller interface {
	// Call queues fn on s. An error or panic of fn is the stream's error at
	// the next synchronisation. fn must not wait for its own stream, nor free
	// device memory or unreserve addresses, which wait for all of them.
	Call(s Stream, fn func() error) error

	// Bytes is device memory as a slice, valid until it is freed or unmapped
	// and to be used only inside a function that Call runs. It fails with
	// [ErrPointer] when the range is not inside one live allocation, nor all
	// mapped by a [Mapper].
	Bytes(p Ptr, n int64) ([]byte, error)
}
