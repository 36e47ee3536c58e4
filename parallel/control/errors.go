package control

import (
	"errors"
	"fmt"

	"github.com/pinion-gpu/pinion/internal/errs"
)

// Errors that callers can tell apart with errors.Is.
var (
	// ErrArgument: an option, or data of an exchange, that cannot be right.
	ErrArgument = errs.ErrArgument
	// ErrClosed: the group was closed before.
	ErrClosed = errs.ErrClosed
	// ErrDisagree: ranks do not have the same value.
	ErrDisagree = errors.New("ranks disagree")
	// ErrTimeout: not all ranks have come in time.
	ErrTimeout = errors.New("not all ranks have come")
)

// RankError is the end of a run, or of an exchange, by one of its ranks.
type RankError struct {
	Rank   int
	Name   string // host and process, or what [Options].Name said; "" if it has never come
	Reason string
}

// Error names the rank, its host and process, and the reason.
func (e *RankError) Error() string { return called(e.Rank, e.Name) + ": " + e.Reason }

// called is how errors call a rank.
func called(rank int, name string) string {
	if name == "" {
		return fmt.Sprintf("rank %d", rank)
	}
	return fmt.Sprintf("rank %d (%s)", rank, name)
}
