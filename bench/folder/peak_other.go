//go:build !linux

package main

import "errors"

// peakBytes is the most memory that this process has had.
func peakBytes() (int64, error) { return 0, errors.ErrUnsupported }
