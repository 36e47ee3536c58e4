package device

// PeerCopier is a device that copies between its memory and that of another
// device of its backend.
type PeerCopier interface {
	// PeerAccess reports whether bytes go straight between the two devices,
	// over NVLink or PCIe, and not through host memory. It makes the access
	// possible on first use.
	PeerAccess(other Device) bool

	// CopyPeer queues, on a stream of this device, a copy of n bytes at src
	// in the memory of from to dst in this device's memory. It fails with
	// [ErrNotSupported] when from belongs to another backend.
	CopyPeer(s Stream, dst Ptr, from Device, src Ptr, n int64) error
}
