package device

import (
	"errors"

	"github.com/pinion-gpu/pinion/internal/errs"
)

// Errors that callers can tell apart with [errors.Is]. What a function
// returns wraps them with the numbers that explain them.
var (
	// ErrOutOfMemory: the device has not that much memory left.
	ErrOutOfMemory = errors.New("out of device memory")
	// ErrPinLimit: the system does not allow that much page-locked memory.
	ErrPinLimit = errors.New("page-locked memory limit reached")
	// ErrClosed: the device, stream, event or module was closed.
	ErrClosed = errs.ErrClosed
	// ErrNotSupported: this device cannot do that.
	ErrNotSupported = errors.New("not supported by this device")
	// ErrPointer: not the address of live device memory.
	ErrPointer = errors.New("not live device memory")
	// ErrCapturing: what a stream that is being captured, or a capture, cannot do.
	ErrCapturing = errors.New("not possible in a capture")
	// ErrArgument: an argument that no device could accept.
	ErrArgument = errs.ErrArgument
	// ErrUnavailable: there is no such device on this machine, or it cannot
	// be used (no driver, a driver too old, no memory left for a context).
	ErrUnavailable = errors.New("device unavailable")
)
