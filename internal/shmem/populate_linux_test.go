package shmem

import (
	"errors"
	"testing"

	"github.com/pinion-gpu/pinion/internal/pagemem"
	"golang.org/x/sys/unix"
)

// Pages that are not there are an error, not the end of the process.
func TestPopulateBehindTheEnd(t *testing.T) {
	page := pagemem.PageSize()
	f := temp(t, page)
	mem, err := Map(f, 2*page)
	if err != nil {
		t.Fatal(err)
	}
	defer pagemem.Unmap(mem)
	if unix.Madvise(mem[:page], unix.MADV_POPULATE_WRITE) != nil {
		t.Skip("before Linux 5.14 the file grows instead")
	}
	if err := Populate(f, mem, 1); !errors.Is(err, unix.ENOSPC) {
		t.Error(err)
	}
}
