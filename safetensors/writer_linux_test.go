package safetensors

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/internal/units"
)

// Shards that do not fit on the disk together are refused before the first of
// them takes what there is.
func TestFolderDiskFull(t *testing.T) {
	dir := t.TempDir()
	var fs unix.Statfs_t
	testkit.OK(t, unix.Statfs(dir, &fs))
	half := int64(fs.Bavail) * int64(fs.Bsize) / 2
	if half == 0 || half > 1<<42 {
		t.Skipf("%d bytes are free", 2*half)
	}
	var tensors []Tensor
	for _, name := range []string{"a", "b", "c", "d"} {
		tensors = append(tensors, Tensor{Name: name, DType: U8, Shape: []int64{half}})
	}
	w, err := CreateFolder(filepath.Join(dir, "out"), tensors, WriterOptions{ShardBytes: 1})
	if err == nil {
		testkit.OK(t, w.Discard())
		t.Skip("the file system does not reserve")
	}
	testkit.WantError(t, "full disk", err, unix.ENOSPC, "reserve "+units.Bytes(4*half))
	if left := testkit.Must(filepath.Glob(filepath.Join(dir, "*")))(t); len(left) > 0 {
		t.Errorf("%q is left", left)
	}
}
