//go:build !unix

package fdpass

import (
	"errors"
	"net"
	"os"
)

// Send is for Unix only.
func Send(*net.UnixConn, []byte, *os.File) error { return errors.ErrUnsupported }

// Receive is for Unix only.
func Receive(*net.UnixConn, []byte) (*os.File, error) { return nil, errors.ErrUnsupported }
