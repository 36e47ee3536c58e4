package device

// Manager is a device with managed (unified) memory, which migrates between
// host and device by page faults or by request.
type Manager interface {
	// CanManage reports whether the device supports managed memory.
	CanManage() bool

	// AllocManaged allocates n bytes that host (as a slice) and device (at
	// the address) see at the same place. [Device.Free] frees it. Keep the
	// sum below the device's memory.
	AllocManaged(n int64) (Ptr, []byte, error)

	// Prefetch queues the migration of n bytes at p to the device, or with
	// toHost to the host.
	Prefetch(s Stream, p Ptr, n int64, toHost bool) error
}
