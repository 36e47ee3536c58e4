package testkit

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"testing"
)

// spy is a test that notes whether it failed.
type spy struct {
	testing.TB
	failed bool
}

func (s *spy) Errorf(string, ...any) { s.failed = true }

func TestWantError(t *testing.T) {
	wrapped := fmt.Errorf("7 of 9: %w", fs.ErrNotExist)
	for _, c := range []struct {
		err  error
		says string
		good bool
	}{{wrapped, "7 of 9", true}, {wrapped, "8 of 9", false}, {errors.New("7 of 9"), "7 of 9", false}, {nil, "", false}} {
		s := &spy{TB: t}
		WantError(s, "case", c.err, fs.ErrNotExist, c.says)
		if s.failed == c.good {
			t.Errorf("%v, %q: failed is %v", c.err, c.says, s.failed)
		}
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	path := WriteFile(t, []byte("abc"), dir, "a", "b.txt")
	if text := ReadFile(t, dir, "a", "b.txt"); text != "abc" {
		t.Errorf("%q", text)
	}
	if info := Must(os.Stat(path))(t); info.Size() != 3 {
		t.Errorf("%d bytes", info.Size())
	}
}

func TestRandomBytes(t *testing.T) {
	if !bytes.Equal(RandomBytes(100, 1), RandomBytes(100, 1)) || bytes.Equal(RandomBytes(100, 1), RandomBytes(100, 2)) {
		t.Error("the seed does not decide the bytes")
	}
}

func TestWaiting(t *testing.T) {
	NoLeaks(t)
	n := 0
	Eventually(t, "three", func() bool { n++; return n == 3 })
	c := make(chan int, 1)
	c <- 5
	if got := Receive(t, "five", c); got != 5 {
		t.Error(got)
	}
	if err := Within(t, "end", func() error { return fs.ErrExist }); err != fs.ErrExist {
		t.Error(err)
	}
}

func TestABI(t *testing.T) {
	header := []byte("size 8\noffset 16\n")
	for name, c := range map[string]struct {
		bound map[string]uintptr
		good  bool
	}{
		"right":         {map[string]uintptr{"size": 8, "offset": 16}, true},
		"another value": {map[string]uintptr{"size": 4, "offset": 16}, false},
		"one less":      {map[string]uintptr{"size": 8}, false},
		"one more":      {map[string]uintptr{"size": 8, "offset": 16, "kind": 0}, false},
	} {
		s := &spy{TB: t}
		if ABI(s, header, c.bound); s.failed == c.good {
			t.Errorf("%s: failed is %v", name, s.failed)
		}
	}
}
