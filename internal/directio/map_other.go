//go:build !unix

package directio

import (
	"errors"
	"fmt"
	"os"
	"runtime"
)

// Map is for Unix.
func Map(*os.File, int64, int64) (b []byte, unmap func() error, err error) {
	return nil, nil, fmt.Errorf("%w: files are not mapped on %s", errors.ErrUnsupported, runtime.GOOS)
}
