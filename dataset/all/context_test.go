package all_test

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/csv"
	"github.com/pinion-gpu/pinion/dataset/internal/datatest"
	"github.com/pinion-gpu/pinion/dataset/jsonl"
	"github.com/pinion-gpu/pinion/dataset/nifti"
	"github.com/pinion-gpu/pinion/dataset/photos"
	"github.com/pinion-gpu/pinion/dataset/points"
	"github.com/pinion-gpu/pinion/dataset/tar"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// TestOpenHeedsContext: what takes long to open ends with its context, wherever
// it is then, soon and with nothing left behind.
func TestOpenHeedsContext(t *testing.T) {
	pictures, clouds, volumes := map[string][]byte{}, map[string][]byte{}, map[string][]byte{}
	for i := range 60 {
		dir := fmt.Sprintf("%02d/%d/", i%20, i%2)
		pictures[dir+fmt.Sprintf("%d.png", i)] = nil
		clouds[dir+fmt.Sprintf("%d.bin", i)] = make([]byte, 16)
	}
	file := volume(make([]byte, 8), 2, 2, 2)
	for i := range 60 {
		volumes[fmt.Sprintf("%02d/%d.nii", i%20, i)] = file
	}
	dir := t.TempDir()
	rows := datatest.WriteFile(t, filepath.Join(dir, "a.csv"), []byte(strings.Repeat("1,2,3\n", 1<<20)))
	lines := datatest.WriteFile(t, filepath.Join(dir, "a.jsonl"), []byte(strings.Repeat("[1,2,3]\n", 1<<19)))
	const noise = 4 << 20 // bytes that do not compress
	voxels := make([]byte, noise)
	rand.NewChaCha8([32]byte{1}).Read(voxels)
	nii := datatest.WriteFile(t, filepath.Join(dir, "a.nii.gz"), zipped(t, volume(voxels, 1<<11, 1<<11)))
	header := datatest.NPYHeader("|u1", 4, noise/4)
	archive := datatest.WriteFile(t, filepath.Join(dir, "a.npz"), npz(t, datatest.NPY(1, header, voxels), zip.Deflate))
	pictureDir, cloudDir, volumeDir := datatest.Folder(t, pictures), datatest.Folder(t, clouds), datatest.Folder(t, volumes)
	out := 0
	for name, open := range map[string]func(ctx context.Context) error{
		"photos.Open": func(ctx context.Context) error { return datatest.ErrOf(photos.Open(ctx, pictureDir, photos.Options{})) },
		"points.Open": func(ctx context.Context) error { return datatest.ErrOf(points.Open(ctx, cloudDir, points.Options{})) },
		"nifti.OpenFolder": func(ctx context.Context) error {
			return datatest.ErrOf(nifti.OpenFolder(ctx, volumeDir, nifti.Options{}))
		},
		"csv.Open":      func(ctx context.Context) error { return datatest.ErrOf(csv.Open(ctx, rows, csv.Options{})) },
		"jsonl.Open":    func(ctx context.Context) error { return datatest.ErrOf(jsonl.Open(ctx, lines, jsonl.Options{})) },
		"Open, photos":  func(ctx context.Context) error { return datatest.ErrOf(dataset.Open(ctx, pictureDir, nil)) },
		"Open, clouds":  func(ctx context.Context) error { return datatest.ErrOf(dataset.Open(ctx, cloudDir, nil)) },
		"Open, volumes": func(ctx context.Context) error { return datatest.ErrOf(dataset.Open(ctx, volumeDir, nil)) },
		"Open, .nii.gz": func(ctx context.Context) error { return datatest.ErrOf(dataset.Open(ctx, nii, nil)) },
		"Open, .npz":    func(ctx context.Context) error { return datatest.ErrOf(dataset.Open(ctx, archive, nil)) },
		"Open, CSV":     func(ctx context.Context) error { return datatest.ErrOf(dataset.Open(ctx, rows, nil)) },
		"tar.Pack": func(ctx context.Context) error {
			out++
			return tar.Pack(ctx, pictureDir, filepath.Join(dir, fmt.Sprint("out", out)), tar.PackOptions{})
		},
	} {
		goroutines := runtime.NumGoroutine()
		whole := &datatest.Ending{Context: t.Context()}
		whole.After.Store(1 << 60)
		if err := open(whole); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all := whole.Asked.Load()
		if all < 5 {
			t.Errorf("%s: looks at its context %d times in all", name, all)
		}
		for _, after := range []int64{0, 1, 2, all / 2, all - 2} {
			c := &datatest.Ending{Context: t.Context()}
			c.After.Store(after)
			if err := open(c); !errors.Is(err, context.Canceled) {
				t.Errorf("%s, ended after %d of %d: %v", name, after, all, err)
			}
			// Each goroutine that is under way sees it once, and so do those
			// that wait for them.
			if more := c.Asked.Load() - after; more > 8*int64(16+4*runtime.GOMAXPROCS(0)) {
				t.Errorf("%s, ended after %d of %d: asked %d times more", name, after, all, more)
			}
		}
		cause := errors.New("no longer wanted")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		if err := open(ctx); !errors.Is(err, cause) {
			t.Errorf("%s: %v, want the cause", name, err)
		}
		testkit.Eventually(t, name+": as many goroutines as before", func() bool { return runtime.NumGoroutine() <= goroutines })
	}
}
