// Package usercode guards the loader against code that is not its own: a
// dataset, a sampler or a callback. What panics there becomes an error.
package usercode

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// ErrPanic: code of the user panicked.
var ErrPanic = errors.New("panic")

// Recover turns a panic into an error that says where it happened, with the
// stack. Use it with defer.
func Recover(err *error, where string) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%w %s: %v\n%s", ErrPanic, where, p, debug.Stack())
	}
}
