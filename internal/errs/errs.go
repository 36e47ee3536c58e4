// Package errs holds the errors that several packages have in common. Each
// package exports the ones it returns under its own documentation, as the same
// value, so that errors.Is finds them whichever package's name is asked for.
package errs

import "errors"

var (
	// ErrArgument: an argument or option that cannot be right.
	ErrArgument = errors.New("bad argument")
	// ErrClosed: the thing was closed before.
	ErrClosed = errors.New("used after close")
	// ErrFormat: bytes of a format, or a variety of one, that is not read here.
	ErrFormat = errors.New("format not supported")
	// ErrTooLarge: more than a limit of the options allows.
	ErrTooLarge = errors.New("too large")
	// ErrDamaged: bytes of a known format that are cut short or corrupt.
	ErrDamaged = errors.New("damaged")
)
