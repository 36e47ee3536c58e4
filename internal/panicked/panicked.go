// Package panicked makes errors of panics in code that is not its caller's own.
// Such an error is one line; %+v adds the stack.
//
//	defer func() {
//		if p := recover(); p != nil {
//			err = panicked.Error(p)
//		}
//	}()
//
// Errors that wrap it do not know of %+v: see [WithStack].
package panicked

import (
	"errors"
	"fmt"
	"io"
	"runtime/debug"
)

// panicError is a panic, with the stack that it left.
type panicError struct {
	value any
	stack []byte
}

// Error returns what a panic with that value is as an error. Call it where the
// panic is recovered. The error wraps the value if that is an error itself.
func Error(value any) error { return &panicError{value, debug.Stack()} }

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

func (e *panicError) Unwrap() error {
	err, _ := e.value.(error)
	return err
}

func (e *panicError) Format(s fmt.State, verb rune) { format(s, verb, e, e.stack) }

// WithStack returns err such that %+v prints the stack of the panic in it. It
// is for the outermost error, which a caller sees; one without a panic is
// returned as it is.
func WithStack(err error) error {
	var p *panicError
	if !errors.As(err, &p) {
		return err
	}
	return &withStack{err, p.stack}
}

type withStack struct {
	error
	stack []byte
}

func (e *withStack) Unwrap() error { return e.error }

func (e *withStack) Format(s fmt.State, verb rune) { format(s, verb, e, e.stack) }

func format(s fmt.State, verb rune, err error, stack []byte) {
	if verb == 'q' {
		fmt.Fprintf(s, "%q", err.Error())
		return
	}
	io.WriteString(s, err.Error())
	if verb == 'v' && s.Flag('+') {
		fmt.Fprintf(s, "\n%s", stack)
	}
}
