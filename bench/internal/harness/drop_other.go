//go:build !linux

package harness

import (
	"errors"
	"os"
)

// DropPages fails on this system.
func DropPages(*os.File) error { return errors.ErrUnsupported }
