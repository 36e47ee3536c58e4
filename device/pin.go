package device

// PinFlags ask for properties of page-locked host memory. Backends for which
// a property means nothing ignore it.
type PinFlags uint32

const (
	// PinMapped makes the memory readable and writable by kernels at the
	// address that [Pinner.Mapped] returns (zero-copy).
	PinMapped PinFlags = 1 << iota
	// PinPortable makes the memory count as pinned in every context of the
	// process, not only for this device.
	PinPortable
	// PinWriteCombined makes memory that the host should only write, in
	// order: host reads of it are very slow. Only [HostAllocator.AllocHost]
	// takes it.
	PinWriteCombined
)

// Pinner is a device that page-locks host memory, so that copies need no
// staging and run asynchronously.
type Pinner interface {
	// Pin page-locks b, which must start and end on a page boundary, lie
	// outside the Go heap and not be pinned already. It fails with
	// [ErrPinLimit] when the system does not allow that much locked memory.
	Pin(b []byte, flags PinFlags) error

	// Unpin undoes Pin of the same b. Queued copies must be done.
	Unpin(b []byte) error

	// Pinned reports whether the first and the last byte of b are pinned for
	// this device, no matter who pinned them.
	Pinned(b []byte) bool

	// Mapped returns the address by which the device reaches pinned memory.
	Mapped(b []byte) (Ptr, error)

	// CanMap reports whether Mapped can work on this device.
	CanMap() bool
}

// HostAllocator is a device whose driver allocates pinned host memory itself:
// slower than [Pinner] on memory of one's own, but the only way to
// write-combined memory.
type HostAllocator interface {
	// AllocHost allocates n > 0 bytes of pinned memory. It fails with
	// [ErrPinLimit] when the system does not allow that much.
	AllocHost(n int64, flags PinFlags) ([]byte, error)

	// FreeHost frees the memory that AllocHost returned. Queued copies must
	// be done.
	FreeHost(b []byte) error
}
