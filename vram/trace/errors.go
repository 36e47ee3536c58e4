package trace

import (
	"errors"

	"github.com/pinion-gpu/pinion/internal/errs"
)

// Errors that callers can tell apart with [errors.Is]. What a function returns
// wraps them with the line, what is wrong with it, and its text.
var (
	// ErrFormat: not a trace of a format that is read here.
	ErrFormat = errors.New("not an allocation trace")
	// ErrMalformed: a line or entry that is damaged, or that contradicts those
	// before it: a free of a block that is not live, an allocation of one that
	// is, or of no bytes.
	ErrMalformed = errors.New("malformed trace")
	// ErrTooLarge: a snapshot beyond Options.MaxSnapshotBytes.
	ErrTooLarge = errs.ErrTooLarge
	// ErrArgument: an impossible option, or a device that the snapshot lacks.
	ErrArgument = errs.ErrArgument
)
