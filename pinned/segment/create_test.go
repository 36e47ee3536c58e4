//go:build linux || darwin

package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/sysmem"
)

func TestGenerations(t *testing.T) {
	if a, b := mustCreate(t, 1, Options{}), mustCreate(t, 1, Options{}); a.Generation() == b.Generation() {
		t.Errorf("both %x", a.Generation())
	}
}

func TestCreateSegmentArguments(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "segment")
	for name, c := range map[string]struct {
		n int64
		o Options
	}{
		"no bytes":      {0, Options{Path: path}},
		"negative":      {-1, Options{Path: path}},
		"too large":     {1<<63 - 1, Options{Path: path}},
		"long name":     {1, Options{Path: path, Name: strings.Repeat("x", 64)}},
		"not UTF-8":     {1, Options{Path: path, Name: "\xff"}},
		"zero in name":  {1, Options{Path: path, Name: "a\x00b"}},
		"long path":     {1, Options{Path: filepath.Join(dir, strings.Repeat("x/", 2000))}},
		"zero in path":  {1, Options{Path: path + "\x00"}},
		"nothing right": {-1, Options{Path: "\x00", Name: "\x00"}},
	} {
		s, err := Create(c.n, c.o)
		if s != nil || !errors.Is(err, device.ErrArgument) {
			t.Errorf("%s: %v, %v", name, s, err)
		}
	}
	if _, err := Create(maxBytes, Options{Path: path}); err == nil {
		t.Error("made 64 PiB")
	}
	if _, err := Create(1, Options{Path: filepath.Join(dir, "none", "segment")}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in a folder that is not there: %v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
	longest := strings.Repeat("x", 63)
	if s := mustCreate(t, 1, Options{Path: path, Name: longest}); mustOpen(t, s.File()).Name() != longest {
		t.Error("the longest name")
	}
}

func TestSegmentPath(t *testing.T) {
	t.Chdir(t.TempDir())
	before := descriptors(t)
	a := mustCreate(t, mib, Options{Path: "segment"})
	path := a.Path()
	if !filepath.IsAbs(path) || filepath.Base(path) != "segment" || !exists(path) {
		t.Errorf("path %q", path)
	}
	b, err := OpenPath("segment", OpenOptions{Generation: a.Generation()})
	if err != nil {
		t.Fatal(err)
	}
	a.Bytes()[3] = 9
	if b.Bytes()[3] != 9 || b.Path() != path {
		t.Errorf("byte %d, path %q", b.Bytes()[3], b.Path())
	}
	_, err = OpenPath(path, OpenOptions{Generation: a.Generation() + 1})
	if want := fmt.Sprintf("generation %016x, expected %016x", a.Generation(), a.Generation()+1); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
	_, err = Create(1, Options{Path: path})
	if want := fmt.Sprintf("2: process %d, process %[1]d", os.Getpid()); !errors.Is(err, ErrOwned) || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
	if err := a.Close(); err != nil || exists(path) {
		t.Errorf("%v, still there %t", err, exists(path))
	}
	if _, err := OpenPath(path, OpenOptions{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("opened after it was removed: %v", err)
	}
	// Who closes later leaves alone what has its path by now.
	c := mustCreate(t, 1, Options{Path: path})
	if err := b.Close(); err != nil || !exists(path) {
		t.Errorf("%v, still there %t", err, exists(path))
	}
	if err := c.Close(); err != nil || exists(path) {
		t.Errorf("%v, still there %t", err, exists(path))
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors, %d before", after, before)
	}
}

func TestSealed(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("Linux only")
	}
	s := mustCreate(t, mib, Options{})
	if s.Path() != "" {
		t.Errorf("path %q", s.Path())
	}
	for _, n := range []int64{0, 1, 10 * mib} {
		if err := s.File().Truncate(n); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("resized to %d: %v", n, err)
		}
	}
	// Under /proc it has a path, which is nothing to remove.
	b, err := OpenPath(fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), s.File().Fd()), OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.Bytes()[0] = 5
	if b.Bytes()[0] != 5 || b.Path() != "" {
		t.Errorf("byte %d, path %q", b.Bytes()[0], b.Path())
	}
	if err := errors.Join(s.Close(), b.Close()); err != nil {
		t.Error(err)
	}
}

// A segment beyond what the process may have is refused before any of it is
// taken: a control group would kill the process on the way.
func TestCreateBeyondMemory(t *testing.T) {
	limit := sysmem.Limit()
	if limit == 0 {
		t.Skip("the system does not tell its memory")
	}
	for _, path := range []string{"", filepath.Join(t.TempDir(), "segment")} {
		_, err := Create(limit+1, Options{Path: path})
		if !errors.Is(err, ErrMemory) {
			t.Errorf("path %q: %v", path, err)
		}
		if _, err := os.Stat(path); err == nil {
			t.Error("a file was made")
		}
	}
}
