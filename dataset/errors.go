package dataset

import (
	"errors"

	"github.com/pinion-gpu/pinion/internal/errs"
)

// Errors that callers can tell apart with [errors.Is]. What a function
// returns wraps them with the path and the numbers that explain them. Those
// that images have as well are the same values as in package imaging.
var (
	// ErrEmpty: there are no samples, or samples of no bytes.
	ErrEmpty = errors.New("dataset is empty")
	// ErrFormat: not a dataset or sample of a kind that is read here.
	ErrFormat = errs.ErrFormat
	// ErrTooLarge: a sample beyond a limit of the options.
	ErrTooLarge = errs.ErrTooLarge
	// ErrDamaged: a file is cut short, corrupt, or changed while it was read.
	ErrDamaged = errs.ErrDamaged
	// ErrMismatch: pictures that go with each other, a photo and its mask, are
	// not of one shape.
	ErrMismatch = errors.New("pictures that go together differ")
	// ErrArgument: a sample number or a destination's length that the dataset
	// does not have, or an impossible option.
	ErrArgument = errs.ErrArgument
	// ErrPanic: a function that the caller gave has panicked.
	ErrPanic = errors.New("panic")
	// ErrEnd: a sample behind the last of a dataset of [UnknownLen].
	ErrEnd = errors.New("end of the stream")
	// ErrUnavailable: a server failed or stalled until the client gave up, or
	// its host is unknown.
	ErrUnavailable = errors.New("not available")
)
