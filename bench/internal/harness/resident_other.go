//go:build !linux

package harness

import "errors"

// Resident is how much of this process's memory the system holds now, and at
// most until now, in bytes. It fails with [errors.ErrUnsupported] where the
// system does not tell.
func Resident() (now, peak int64, err error) { return 0, 0, errors.ErrUnsupported }
