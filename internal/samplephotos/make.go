package samplephotos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/pinion-gpu/pinion/internal/atomicfile"
)

// marker is a hidden file in a complete folder. Its text says what is there.
const marker = ".pinion-sample-photos"

func markerText(n int) string { return fmt.Sprintf("version 1, %d photos\n", n) }

// Photo returns photo number, counted from 1, as a JPEG.
func Photo(number int) ([]byte, error) {
	if number < 1 {
		return nil, fmt.Errorf("sample photo %d: want 1 or more", number)
	}
	var buf bytes.Buffer
	err := newPainter().write(&buf, number)
	return buf.Bytes(), err
}

// Make makes dir a folder of n photos, using every CPU. They are written to a
// folder beside it that is renamed when it is complete, so an interrupted run
// leaves no dir. If dir already is such a folder of n photos, Make returns at
// once; if it is anything else but an empty folder, Make fails with
// [fs.ErrExist] and changes nothing.
//
// progress, unless nil, is called after each photo, one call at a time, with
// done counting up to total.
func Make(ctx context.Context, dir string, n int, progress func(done, total int)) error {
	if n < 1 {
		return fmt.Errorf("sample photos: %d photos: want 1 or more", n)
	}
	dir = filepath.Clean(dir)
	complete, err := check(dir, n)
	if complete || err != nil {
		return err
	}
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return err
	}
	part, err := atomicfile.CreateFolder(dir)
	if err != nil {
		return err
	}
	defer part.Discard()
	if err := fill(ctx, part.Path(), n, progress); err != nil {
		return err
	}
	err = part.Commit()
	if errors.Is(err, fs.ErrExist) {
		if complete, checkErr := check(dir, n); complete || checkErr != nil {
			return checkErr // nil: another process was faster
		}
	}
	return err
}

// check tells whether dir is a complete folder of n photos. It fails if dir
// is in the way of one.
func check(dir string, n int) (complete bool, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	text, err := os.ReadFile(filepath.Join(dir, marker))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, fmt.Errorf("sample photos: %s: %w and holds something else", dir, fs.ErrExist)
	case err != nil:
		return false, err
	case string(text) != markerText(n):
		return false, fmt.Errorf("sample photos: %s: %w with %q, want %q", dir, fs.ErrExist, text, markerText(n))
	}
	return true, nil
}

// fill writes the photos and, last, the marker.
func fill(ctx context.Context, dir string, n int, progress func(done, total int)) error {
	for _, s := range sceneries[:min(n, len(sceneries))] {
		if err := os.Mkdir(filepath.Join(dir, s.name), 0o755); err != nil {
			return err
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	var (
		next atomic.Int64
		mu   sync.Mutex // guards done and calls of progress
		done int
	)
	for range min(n, runtime.GOMAXPROCS(0)) {
		group.Go(func() error {
			p := newPainter()
			var buf bytes.Buffer
			for ctx.Err() == nil {
				number := int(next.Add(1))
				if number > n {
					return nil
				}
				buf.Reset()
				if err := p.write(&buf, number); err != nil {
					return err
				}
				name := fmt.Sprintf("photo-%05d.jpg", number)
				if err := os.WriteFile(filepath.Join(dir, class(number), name), buf.Bytes(), 0o644); err != nil {
					return err
				}
				mu.Lock()
				done++
				if progress != nil {
					progress(done, n)
				}
				mu.Unlock()
			}
			return context.Cause(ctx)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, marker), []byte(markerText(n)), 0o644)
}
