package transfertest

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// Evict drops a file from the page cache, as far as the system likes to.
func Evict(t testing.TB, file *os.File) {
	t.Helper()
	if err := file.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		t.Fatal(err)
	}
}
