package nvjpeg

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/imaging"
	"github.com/pinion-gpu/pinion/internal/errs"
)

// ErrClosed: the decoder was closed.
var ErrClosed = fmt.Errorf("nvjpeg: decoder %w", errs.ErrClosed)

// Error is a failed call of the library. [errors.Is] matches it with the
// sentinel of the same meaning of package imaging or device.
type Error struct {
	Call   string // such as "nvjpegDecodeBatched"
	Status int    // nvjpegStatus_t
}

// statusNames are those of nvjpegStatus_t without their prefix.
var statusNames = [...]string{"SUCCESS", "NOT_INITIALIZED", "INVALID_PARAMETER", "BAD_JPEG",
	"JPEG_NOT_SUPPORTED", "ALLOCATOR_FAILURE", "EXECUTION_FAILED", "ARCH_MISMATCH",
	"INTERNAL_ERROR", "IMPLEMENTATION_NOT_SUPPORTED", "INCOMPLETE_BITSTREAM"}

func (e *Error) Error() string {
	name := "unknown status"
	if e.Status >= 0 && e.Status < len(statusNames) {
		name = "NVJPEG_STATUS_" + statusNames[e.Status]
	}
	return fmt.Sprintf("%s: %s (%d)", e.Call, name, e.Status)
}

// Is makes errors.Is(err, imaging.ErrDamaged) and the like work.
func (e *Error) Is(target error) bool {
	switch e.Status {
	case statusBadJPEG, statusIncomplete:
		return target == imaging.ErrDamaged
	case statusNotSupported:
		return target == imaging.ErrFormat
	case statusAllocator:
		return target == device.ErrOutOfMemory
	case statusArchMismatch, statusNotImplemented:
		return target == device.ErrNotSupported
	case statusInvalidParameter:
		return target == device.ErrArgument
	}
	return false
}

// ofPicture reports whether a call failed because of a picture, and not
// because of the device or of how the library is used.
func ofPicture(err error) bool {
	return errors.Is(err, imaging.ErrDamaged) || errors.Is(err, imaging.ErrFormat)
}

func check(call string, result uintptr) error {
	if status := int(int32(result)); status != 0 {
		return &Error{Call: call, Status: status}
	}
	return nil
}

// RefusedError is what [Decoder.Decode] returns when it left pictures out. All
// others are decoded.
type RefusedError struct {
	Pictures []Refusal // in the order of the pictures
}

// Refusal is why one picture was not decoded: an error that matches
// [imaging.ErrFormat], [imaging.ErrDamaged] or [imaging.ErrTooLarge].
type Refusal struct {
	Index int // in the pictures given to Decode
	Err   error
}

func (e *RefusedError) Error() string {
	const told = 3
	var b strings.Builder
	fmt.Fprintf(&b, "nvjpeg: %d pictures not decoded", len(e.Pictures))
	for i, r := range e.Pictures {
		if i == told {
			b.WriteString("; …")
			break
		}
		fmt.Fprintf(&b, "; picture %d: %v", r.Index, r.Err)
	}
	return b.String()
}

// Unwrap returns the reasons.
func (e *RefusedError) Unwrap() []error {
	list := make([]error, len(e.Pictures))
	for i, r := range e.Pictures {
		list[i] = r.Err
	}
	return list
}
