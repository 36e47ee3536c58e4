// Package usercode guards the loader against code that is not its own: a
// dataset, a sampler or a callback. What panics there, or ends its goroutine,
// becomes an error.
package usercode

import (
	"errors"
	"fmt"

	"github.com/pinion-gpu/pinion/internal/panicked"
)

// ErrGoexit: code of the user ended its goroutine, as [runtime.Goexit] and the
// FailNow of a test do.
var ErrGoexit = errors.New("runtime.Goexit was called")

// Recover turns a panic into an error that says where it happened; %+v adds the
// stack. Use it with defer.
func Recover(err *error, where string) {
	if p := recover(); p != nil {
		*err = panicked.WithStack(fmt.Errorf("%s: %w", where, panicked.Error(p)))
	}
}

// Apart returns what fn returns. It runs fn in a goroutine of its own, so that
// fn may end it: that is [ErrGoexit].
func Apart(fn func() error) error {
	done := make(chan error, 1)
	go func() {
		err := ErrGoexit
		defer func() { done <- err }()
		err = fn()
	}()
	return <-done
}
