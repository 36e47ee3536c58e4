package pickle

import "errors"

// Errors that callers can tell apart with [errors.Is]. What a function returns
// wraps them with the opcode and its offset.
var (
	// ErrMalformed: not a pickle, damaged, cut short, nested beyond MaxDepth,
	// or a container that holds itself.
	ErrMalformed = errors.New("malformed pickle")
	// ErrNotPlain: the pickle holds more than plain data, such as objects of a
	// class.
	ErrNotPlain = errors.New("pickle is not plain data")
	// ErrType: a value that Encode does not write.
	ErrType = errors.New("type cannot be pickled")
)
