package device

// RangeChecker is a device that knows where its memory lies. A kernel that is
// given a wrong address may make the device unusable, so those who launch one
// on an address that came from elsewhere ask first.
type RangeChecker interface {
	// CheckRange fails with [ErrPointer] when not all of the n bytes at p are
	// memory of this device, no matter who in the process allocated it, or pinned
	// memory that is mapped for it. Copies need no check: they fail by
	// themselves.
	CheckRange(p Ptr, n int64) error
}
