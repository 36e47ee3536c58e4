//go:build !linux

package transfertest

import (
	"os"
	"testing"
)

// Evict does nothing on this system.
func Evict(testing.TB, *os.File) {}
