//go:build !unix

package atomicfile

import (
	"errors"
	"io"
)

var errLocked = errors.New("held by another process")

// lockFolder cannot lock a folder here.
func lockFolder(string) (io.Closer, error) { return nil, errors.ErrUnsupported }
