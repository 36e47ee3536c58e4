package doctor

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/internal/testkit"
)

// A folder that is written to is as it was after that; one that is not there cannot
// be, but the nearest above it.
func TestWriteIn(t *testing.T) {
	dir := t.TempDir()
	testkit.OK(t, writeIn(dir))
	missing := filepath.Join(dir, "a", "b")
	testkit.WantError(t, "a folder that is not there", writeIn(missing), fs.ErrNotExist, missing)
	s := thisSystem()
	if near := s.nearest(missing); near != dir || s.nearest(dir) != dir {
		t.Errorf("%s, want %s", near, dir)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 0 {
		t.Errorf("%v, %v are left", list, err)
	}
	file := testkit.WriteFile(t, "", dir, "file")
	if err := writeIn(file); err == nil || strings.Count(err.Error(), file) != 1 {
		t.Errorf("into a file: %v", err)
	}
}

// Only what has data in it is read.
func TestReadAt(t *testing.T) {
	dir := t.TempDir()
	testkit.OK(t, readAt(dir))
	testkit.OK(t, readAt(testkit.WriteFile(t, "", dir, "file")))
	testkit.WantError(t, "nothing", readAt(filepath.Join(dir, "nosuch")), fs.ErrNotExist)
	if err := readAt(os.DevNull); err == nil || !strings.Contains(err.Error(), "neither a file nor a folder") {
		t.Errorf("a device: %v", err)
	}
}

// The disk is that of the data: not the one of a link to it, nor the one of a device,
// and none of files in memory.
func TestProbeDisk(t *testing.T) {
	if _, err := probeDisk(t.Context(), request{Path: os.DevNull}); err == nil {
		t.Error("a device was read")
	}
	s := thisSystem()
	if m, _ := s.mountOf("/dev/shm"); memories[m.kind] {
		if _, err := probeDisk(t.Context(), request{Path: "/dev/shm"}); err == nil || !strings.Contains(err.Error(), "in memory") {
			t.Errorf("memory was read: %v", err)
		}
	}
	dir := t.TempDir()
	large := testkit.WriteFile(t, "", dir, "data", "large")
	testkit.OK(t, os.Truncate(large, enoughFile))
	for i, name := range []string{large, filepath.Dir(large)} {
		link := filepath.Join(dir, fmt.Sprint("link", i))
		testkit.OK(t, os.Symlink(name, link))
		facts, err := probeDisk(t.Context(), request{Path: link})
		if err != nil { // as on many file systems
			t.Skip(err)
		}
		if read := facts.(diskFacts).File; read != testkit.Must(realPath(large))(t) {
			t.Errorf("%q was read for %s", read, name)
		}
	}
}

func TestShellWord(t *testing.T) {
	for text, want := range map[string]string{"/tmp/a-b_1.x": "/tmp/a-b_1.x", "": "''", "/a b": "'/a b'", "$(x)": "'$(x)'", "it's": `'it'\''s'`} {
		if got := shellWord(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// Data that cannot be read is broken, as is a folder for temporary files that is not
// there; one for results that is not there is made.
func TestFoldersMissing(t *testing.T) {
	f := readMachine(t, "h200")
	f.NotReadable, f.Missing = []string{"/data"}, []string{"/tmp", "/home/u/.cache", "/home/u/.cache/pinion"}
	f.NotWritable = []string{"/home/u/.cache/pinion"}
	r := examine(t, f)
	for name, want := range map[string]struct {
		status Status
		says   string
	}{
		"file-system":  {Fail, "/data"},
		"temp-folder":  {Fail, "/tmp does not exist"},
		"cache-folder": {OK, "writable"},
	} {
		i := slices.IndexFunc(r.Checks, func(c Finding) bool { return c.Name == name })
		if c := r.Checks[i]; c.Status != want.status || !strings.Contains(c.Measured, want.says) {
			t.Errorf("%+v", c)
		}
	}
}

// GPUs are no remedy for a device that is none.
func TestDeviceRemedy(t *testing.T) {
	for device, gpus := range map[string]bool{"host:0": false, "cuda:7": true} {
		f := readMachine(t, "h200")
		f.Device, f.facts["device"] = device, []byte(`{"error": "it is not there"}`)
		r := examine(t, f)
		i := slices.IndexFunc(r.Checks, func(c Finding) bool { return c.Name == "driver" })
		if c := r.Checks[i]; c.Status != Fail || strings.Contains(c.Remedy, "--gpus all") != gpus {
			t.Errorf("%s: %+v", device, c)
		}
	}
}

// A file is read for the disk that is large enough, wherever below it lies.
func TestLargeFile(t *testing.T) {
	dir := t.TempDir()
	testkit.WriteFile(t, "small", dir, "a", "small")
	if name, err := largeFile(dir); name != "" || err != nil {
		t.Errorf("%q, %v", name, err)
	}
	large := testkit.WriteFile(t, "", dir, "b", "c", "large")
	testkit.OK(t, os.Truncate(large, enoughFile))
	if name, err := largeFile(dir); name != large || err != nil {
		t.Errorf("%q, %v", name, err)
	}
	if name, err := largeFile(large); name != large || err != nil {
		t.Errorf("%q, %v", name, err)
	}
	if _, err := largeFile(filepath.Join(dir, "nosuch")); err == nil {
		t.Error("there is no such folder")
	}
}

// This machine's own files are read without a word that is not text.
func TestThisSystem(t *testing.T) {
	m := newMachine(thisSystem(), Options{Device: "auto", Path: t.TempDir()})
	r, err := run(t.Context(), m, Checks(), nil)
	testkit.OK(t, err)
	for _, f := range r.Checks {
		complete(t, f)
	}
}

// What leads nowhere is said by its own name, not by that of a call.
func TestRealPath(t *testing.T) {
	circle := filepath.Join(t.TempDir(), "circle")
	testkit.OK(t, os.Symlink(circle, circle))
	for path, says := range map[string]string{
		circle:                            "its links lead in a circle",
		filepath.Join(circle+"-not", "x"): "no such file",
	} {
		_, err := realPath(path)
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "lstat") || strings.Contains(err.Error(), "EvalSymlinks") {
			t.Errorf("%s: %v", path, err)
		}
	}
}
