package pagemem

import (
	"bytes"
	"testing"
)

// Kernels before 5.14 and other systems fault pages in by touching them.
func TestTouchPages(t *testing.T) {
	b, err := Map(5 * PageSize())
	if err != nil {
		t.Fatal(err)
	}
	defer Unmap(b)
	for i := range b {
		b[i] = byte(i * 7)
	}
	want := bytes.Clone(b)
	touchPages(b)
	if !bytes.Equal(b, want) {
		t.Error("touching changed the memory")
	}
}
