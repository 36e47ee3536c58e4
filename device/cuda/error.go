package cuda

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/dl"
)

// Error is a failed driver call. [errors.Is] matches it with the device
// package's sentinel of the same meaning.
type Error struct {
	Call string // such as "cuMemAlloc"
	Code int    // CUresult
	Name string // such as "CUDA_ERROR_OUT_OF_MEMORY"
	Text string // the driver's description
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s: %s (%d): %s", e.Call, e.Name, e.Code, e.Text)
}

// Is makes errors.Is(err, device.ErrOutOfMemory) and the like work.
func (e *Error) Is(target error) bool {
	if e.Code >= resultCaptureUnsupported && e.Code <= resultCaptureWrongThread {
		return target == device.ErrCapturing
	}
	switch e.Code {
	case resultOutOfMemory:
		return target == device.ErrOutOfMemory
	case resultNotSupported:
		return target == device.ErrNotSupported
	case resultInvalidValue:
		return target == device.ErrArgument
	}
	return false
}

// check makes an error of a driver call's result.
func check(call string, result uintptr) error {
	code := int(int32(result))
	if code == 0 {
		return nil
	}
	e := &Error{Call: call, Code: code, Name: "unknown error", Text: "the driver does not know this code"}
	var name, text uintptr
	if api.getErrorName.Call(uintptr(code), uintptr(unsafe.Pointer(&name))) == 0 {
		e.Name = dl.GoString(name)
	}
	if api.getErrorString.Call(uintptr(code), uintptr(unsafe.Pointer(&text))) == 0 {
		e.Text = dl.GoString(text)
	}
	return e
}

// is reports whether err is a driver error with that code.
func is(err error, code int) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == code
}
