package imaging

import "errors"

// Errors that callers can tell apart with [errors.Is]. What a function
// returns wraps them with the numbers that explain them.
var (
	// ErrFormat: not a JPEG, PNG or WebP image, or a variety of one that no
	// decoder here reads (an animated WebP, an arithmetic-coded JPEG).
	ErrFormat = errors.New("format not supported")
	// ErrTooLarge: more pixels than [Options.MaxPixels], more memory than
	// [Options.MaxBytes], or a side longer than 65535.
	ErrTooLarge = errors.New("too large")
	// ErrDamaged: the image is cut short or its data is corrupt.
	ErrDamaged = errors.New("damaged")
	// ErrArgument: a destination of the wrong length, an impossible geometry
	// or image.
	ErrArgument = errors.New("bad argument")
	// ErrClosed: the decoder was closed.
	ErrClosed = errors.New("decoder used after close")
)
