package imaging

import "github.com/pinion-gpu/pinion/internal/errs"

// Errors that callers can tell apart with [errors.Is]. What a function
// returns wraps them with the numbers that explain them.
var (
	// ErrFormat: not a JPEG, PNG or WebP image, or a variety of one that no
	// decoder here reads (an animated WebP, an arithmetic-coded JPEG).
	ErrFormat = errs.ErrFormat
	// ErrTooLarge: more pixels than [Options.MaxPixels], more memory than
	// [Options.MaxBytes], or a side longer than 65535.
	ErrTooLarge = errs.ErrTooLarge
	// ErrDamaged: the image is cut short or its data is corrupt.
	ErrDamaged = errs.ErrDamaged
	// ErrArgument: a destination of the wrong length, an impossible geometry
	// or image.
	ErrArgument = errs.ErrArgument
	// ErrClosed: the decoder was closed.
	ErrClosed = errs.ErrClosed
)
