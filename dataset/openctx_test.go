package dataset

import (
	"archive/zip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// ending is a context that ends when it was asked so many times whether it has.
type ending struct {
	context.Context
	asked, after atomic.Int64
}

func (c *ending) Err() error {
	if c.asked.Add(1) > c.after.Load() {
		return context.Canceled
	}
	return nil
}

// TestOpenHeedsContext: what takes long to open ends with its context, wherever
// it is then, soon and with nothing left behind.
func TestOpenHeedsContext(t *testing.T) {
	pictures, clouds, volumes := map[string][]byte{}, map[string][]byte{}, map[string][]byte{}
	for i := range 60 {
		dir := fmt.Sprintf("%02d/%d/", i%20, i%2)
		pictures[dir+fmt.Sprintf("%d.png", i)] = nil
		clouds[dir+fmt.Sprintf("%d.bin", i)] = make([]byte, 16)
	}
	file := counted.bytes(t)
	for i := range 60 {
		volumes[fmt.Sprintf("%02d/%d.nii", i%20, i)] = file
	}
	dir := t.TempDir()
	csv := writeFile(t, filepath.Join(dir, "a.csv"), []byte(strings.Repeat("1,2,3\n", 1<<20)))
	lines := writeFile(t, filepath.Join(dir, "a.jsonl"), []byte(strings.Repeat("[1,2,3]\n", 1<<19)))
	const noise = 4 << 20 // bytes that do not compress
	voxels := make([]byte, noise)
	rand.NewChaCha8([32]byte{1}).Read(voxels)
	volume := niftiImage{version: 1, order: binary.LittleEndian, code: 2, bits: 8, dim: []int64{1 << 11, 1 << 11}, voxels: voxels}.bytes(t)
	nii := writeFile(t, filepath.Join(dir, "a.nii.gz"), zipped(t, volume))
	array := npyFile(1, fmt.Sprintf("{'descr': '|u1', 'fortran_order': False, 'shape': (4, %d)}", noise/4), voxels)
	npz := writeFile(t, filepath.Join(dir, "a.npz"), npzFile(t, npzMember{"x.npy", zip.Deflate, array}))
	pictureDir, cloudDir, volumeDir := folder(t, pictures), folder(t, clouds), folder(t, volumes)
	out := 0
	for name, open := range map[string]func(ctx context.Context) error{
		"OpenFolder":      func(ctx context.Context) error { return errOf(OpenFolder(ctx, pictureDir, FolderOptions{})) },
		"OpenImageFolder": func(ctx context.Context) error { return errOf(OpenImageFolder(ctx, pictureDir, ImageOptions{})) },
		"OpenPointClouds": func(ctx context.Context) error { return errOf(OpenPointClouds(ctx, cloudDir, PointOptions{})) },
		"OpenVolumes":     func(ctx context.Context) error { return errOf(OpenVolumes(ctx, volumeDir, VolumeOptions{})) },
		"OpenCSV":         func(ctx context.Context) error { return errOf(OpenCSV(ctx, csv, CSVOptions{})) },
		"OpenJSONLines":   func(ctx context.Context) error { return errOf(OpenJSONLines(ctx, lines, JSONOptions{})) },
		"Open, folder":    func(ctx context.Context) error { return errOf(Open(ctx, volumeDir, Options{})) },
		"Open, .nii.gz":   func(ctx context.Context) error { return errOf(Open(ctx, nii, Options{})) },
		"Open, .npz":      func(ctx context.Context) error { return errOf(Open(ctx, npz, Options{})) },
		"Open, CSV":       func(ctx context.Context) error { return errOf(Open(ctx, csv, Options{})) },
		"PackFolder": func(ctx context.Context) error {
			out++
			return PackFolder(ctx, pictureDir, filepath.Join(dir, fmt.Sprint("out", out)), PackOptions{})
		},
	} {
		goroutines := runtime.NumGoroutine()
		whole := &ending{Context: t.Context()}
		whole.after.Store(1 << 60)
		if err := open(whole); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all := whole.asked.Load()
		if all < 5 {
			t.Errorf("%s: looks at its context %d times in all", name, all)
		}
		for _, after := range []int64{0, 1, 2, all / 2, all - 2} {
			c := &ending{Context: t.Context()}
			c.after.Store(after)
			if err := open(c); !errors.Is(err, context.Canceled) {
				t.Errorf("%s, ended after %d of %d: %v", name, after, all, err)
			}
			// Each goroutine that is under way sees it once, and so do those
			// that wait for them.
			if more := c.asked.Load() - after; more > 8*int64(folderWalkers+4*runtime.GOMAXPROCS(0)) {
				t.Errorf("%s, ended after %d of %d: asked %d times more", name, after, all, more)
			}
		}
		cause := errors.New("no longer wanted")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		if err := open(ctx); !errors.Is(err, cause) {
			t.Errorf("%s: %v, want the cause", name, err)
		}
		for end := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > goroutines; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: %d goroutines before, %d now", name, goroutines, runtime.NumGoroutine())
			}
		}
	}
}
