package loader_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/pinion-gpu/pinion/dataset/photos"
	"github.com/pinion-gpu/pinion/imaging"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/loader"
)

// A few large files do not make every buffer large, and buffers of files like
// each other are kept.
func TestFilesKept(t *testing.T) {
	needTurbo(t)
	dev := open(t, "host:256MiB")
	loader.UseStandIn(t, &loader.StandIn{Engine: 7})
	dir := t.TempDir()
	const files, epochs = 40, 30
	for i := range files {
		name := fmt.Sprintf("%02d.jpg", i)
		file := jpegFile(t, dir, name, 40, 40)
		if i == 0 { // comments make it large
			comment := append([]byte{0xff, 0xfe, 0xff, 0xff}, make([]byte, 0xfffd)...)
			file = append(append(bytes.Clone(file[:2]), bytes.Repeat(comment, 16)...), file[2:]...)
			testkit.OK(t, os.WriteFile(filepath.Join(dir, name), file, 0o644))
		}
	}
	ds, err := photos.Open(t.Context(), dir, photos.Options{Transform: imaging.CenterCrop(16)})
	testkit.OK(t, err)
	o := loader.Options{Batch: 4, Prefetch: 4, Epochs: epochs, Shuffle: true, Decode: loader.DecodeGPU}
	kept := func() int {
		ld := start(t, dev, ds, o)
		list, err := drain(t, dev, ld)
		testkit.OK(t, err)
		if len(list) != epochs*files/o.Batch {
			t.Errorf("%d batches", len(list))
		}
		return loader.FileBytes(ld)
	}
	// Of five slabs two at most have just had the large file.
	loader.SetKeepFiles(t, 64<<10)
	if n := kept(); n > 3<<20 {
		t.Errorf("%d bytes are kept of files of at most 1 MiB", n)
	}
	loader.SetKeepFiles(t, 64<<20)
	if n := kept(); n < 10<<20 {
		t.Errorf("%d bytes are kept, less than may be", n)
	}
}
