package labels

import (
	"bytes"
	"testing"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// TestReadLabels: of a file that is read in parts, the labels are the same,
// and errors name the sample.
func TestReadLabels(t *testing.T) {
	const n = 1<<20 + 3
	data := make([]byte, 5+8*n)
	for i := range n {
		data[5+8*i], data[5+8*i+1] = byte(i), byte(i>>8)
	}
	labels, err := Read(bytes.NewReader(data), 5, n, dtype.I64)
	if err != nil || len(labels) != n {
		t.Fatal(len(labels), err)
	}
	for i, v := range labels {
		if v != int32(i&0xffff) {
			t.Fatalf("label %d is %d", i, v)
		}
	}
	_, err = Read(bytes.NewReader(data), 5, n+1, dtype.I64)
	testkit.WantError(t, "short", err, dataset.ErrDamaged, "shrunk")
	data[5+8*(n-1)+5] = 1
	_, err = Read(bytes.NewReader(data), 5, n, dtype.I64)
	testkit.WantError(t, "large", err, dataset.ErrFormat, "of sample 1048578 does not fit")
	_, err = Read(bytes.NewReader(nil), 0, maxLabels+1, dtype.U8)
	testkit.WantError(t, "a hole", err, dataset.ErrTooLarge, "1073741825 labels")
}
