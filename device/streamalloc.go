package device

// StreamAllocator is a device whose driver allocates and frees in the order of
// a stream, from a pool of memory that it keeps for this device. Neither waits
// for the host where the pool has room. Without it, allocate with
// [Device.Alloc] and free behind a synchronisation.
type StreamAllocator interface {
	// CanAllocAsync reports whether the driver has such a pool. All else here
	// fails with [ErrNotSupported] where it does not.
	CanAllocAsync() bool

	// AllocAsync allocates n > 0 bytes, aligned to 256 bytes at least, for
	// work that is queued on s from now on. Another stream may use them once
	// it waits for an event that was recorded on s after this call. The
	// content is undefined. What was freed earlier on s is used again without
	// waiting for it where the driver can; on the host it may wait. It fails
	// with [ErrOutOfMemory] when n bytes are not available.
	AllocAsync(s Stream, n int64) (Ptr, error)

	// FreeAsync frees what AllocAsync gave, once the work that is queued on s
	// so far is done. Work of other streams that uses it must be ordered
	// before by events, and nothing that is queued later may use it. It fails
	// with [ErrPointer] for any other address, one that is freed already
	// included. [Device.Free] frees such memory too, and waits.
	FreeAsync(s Stream, p Ptr) error

	// SetReleaseThreshold sets how many bytes the pool keeps for later
	// allocations, free ones included, when a stream, an event or the device
	// is waited for: what it has above that and is free goes back to the
	// device. It is 0 at first, which makes a loop that synchronises allocate
	// anew each time. A device whose pool keeps nothing ignores it.
	SetReleaseThreshold(n int64) error

	// TrimPool gives free memory of the pool back to the device until the pool
	// has no more than keep bytes, or none that is free.
	TrimPool(keep int64) error
}
