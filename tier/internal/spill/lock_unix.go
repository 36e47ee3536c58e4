//go:build unix

package spill

import (
	"os"

	"golang.org/x/sys/unix"
)

// nameless: an open file can lose its name.
const nameless = true

// lock marks a file as used for as long as this process has it open.
func lock(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }

// abandoned reports whether nobody uses a file.
func abandoned(name string) bool {
	f, err := os.OpenFile(name, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	info, err := f.Stat()
	return err == nil && info.Mode().IsRegular() && lock(f) == nil
}
