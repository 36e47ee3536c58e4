package main

// #include <stdlib.h>
// #include "pinion.h"
import "C"

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"runtime/debug"
	"syscall"
	"unsafe"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/errs"
	"github.com/pinion-gpu/pinion/loader"
	"github.com/pinion-gpu/pinion/pinned"
	"github.com/pinion-gpu/pinion/vram/trace"
)

// codes are the codes of errors. The first that an error is counts, so what is
// about memory, files and devices comes before what is about samples.
var codes = []struct {
	err  error
	code C.int
}{
	{device.ErrOutOfMemory, C.PINION_DEVICE_MEMORY},
	{device.ErrPinLimit, C.PINION_HOST_MEMORY},
	{pinned.ErrBudget, C.PINION_HOST_MEMORY},
	{syscall.ENOMEM, C.PINION_HOST_MEMORY},
	{loader.ErrHeld, C.PINION_HELD},
	{loader.ErrState, C.PINION_STATE},
	{loader.ErrNoSamples, C.PINION_SAMPLE},
	{device.ErrUnavailable, C.PINION_UNAVAILABLE},
	{device.ErrNotSupported, C.PINION_UNSUPPORTED},
	{errs.ErrClosed, C.PINION_CLOSED},
	{fs.ErrNotExist, C.PINION_NOT_FOUND},
	{fs.ErrPermission, C.PINION_PERMISSION},
	{errs.ErrArgument, C.PINION_ARGUMENT},
	{trace.ErrArgument, C.PINION_ARGUMENT},
	{dataset.ErrEmpty, C.PINION_DATA},
	{dataset.ErrUnavailable, C.PINION_UNAVAILABLE},
	{errs.ErrFormat, C.PINION_DATA},
	{trace.ErrFormat, C.PINION_DATA},
	{trace.ErrMalformed, C.PINION_DATA},
	{errs.ErrTooLarge, C.PINION_DATA},
	{errs.ErrDamaged, C.PINION_DATA},
}

// code is the code of an error.
func code(err error) C.int {
	var sample *loader.SampleError
	if errors.As(err, &sample) {
		return C.PINION_SAMPLE
	}
	for _, c := range codes {
		if errors.Is(err, c.err) {
			return c.code
		}
	}
	return C.PINION_ERROR
}

// detail is what a program may want to know about an error.
func detail(err error) string {
	var sample *loader.SampleError
	if !errors.As(err, &sample) {
		return ""
	}
	text, _ := json.Marshal(map[string]any{"index": sample.Index, "name": sample.Name, "epoch": sample.Epoch, "batch": sample.Batch})
	return string(text)
}

// fail notes an error for pinion_message and returns its code: PINION_OK for nil.
func fail(err error) C.int {
	if err == nil {
		return C.PINION_OK
	}
	return note(code(err), err.Error(), detail(err))
}

// closed is what a handle that is no longer valid gives.
func closed(what string) C.int { return note(C.PINION_CLOSED, what+" is closed", "") }

func note(code C.int, message, detail string) C.int {
	// Strings of Go are not the C library's to keep: it copies them.
	C.pn_fail((*C.char)(unsafe.Pointer(unsafe.StringData(message))), C.size_t(len(message)),
		(*C.char)(unsafe.Pointer(unsafe.StringData(detail))), C.size_t(len(detail)))
	return code
}

// guard turns a panic into PINION_INTERNAL. Every exported function defers it.
func guard(result *C.int) {
	if code, text := recovered(recover()); code != C.PINION_OK {
		*result = note(code, text, "")
	}
}

// recovered is what a panic says, if there is one.
func recovered(r any) (C.int, string) {
	if r == nil {
		return C.PINION_OK, ""
	}
	return C.PINION_INTERNAL, fmt.Sprintf("%v\n%s", r, debug.Stack())
}

// text is a string for the caller, who frees it with pinion_free.
func text(s string) *C.char { return C.CString(s) }

// parse decodes a JSON argument.
func parse(s *C.char, n C.int64_t, v any) error {
	if err := json.Unmarshal(unsafe.Slice((*byte)(unsafe.Pointer(s)), int(n)), v); err != nil {
		return fmt.Errorf("%w: %w", errs.ErrArgument, err)
	}
	return nil
}

// pinion_test_panic is for the tests: what a fault in Go does to the process.
//
//export pinion_test_panic
func pinion_test_panic() (result C.int) {
	defer guard(&result)
	var p *C.int
	return *p
}
