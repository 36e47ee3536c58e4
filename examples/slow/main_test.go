package main

import (
	"image"
	_ "image/jpeg"
	"os"
	"path/filepath"
	"testing"

	"github.com/pinion-gpu/pinion/internal/testkit"
)

// What is made can be shrunk, and keeps its folders and its shape.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	big, small := filepath.Join(dir, "big"), filepath.Join(dir, "small")
	testkit.OK(t, scan(big, 3, 400, 300))
	testkit.OK(t, shrink(big, small, 32))
	for _, name := range []string{"cats/scan-01.jpg", "dogs/scan-02.jpg", "cats/scan-03.jpg"} {
		f, err := os.Open(filepath.Join(small, name))
		testkit.OK(t, err)
		defer f.Close()
		size, format, err := image.DecodeConfig(f)
		testkit.OK(t, err)
		if size.Width != 42 || size.Height != 32 || format != "jpeg" {
			t.Errorf("%s is a %s of %d x %d", name, format, size.Width, size.Height)
		}
	}
}
