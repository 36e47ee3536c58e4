//go:build linux || darwin

package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/pagemem"
	"golang.org/x/sys/unix"
)

// What others opened is still a segment when the path has gone, but who opens
// by path gets the one that is there.
func TestOpenMoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "segment")
	a := mustCreate(t, 1, Options{Path: path})
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	b := mustCreate(t, 1, Options{Path: path})
	if _, err := open(a.File(), path, OpenOptions{}); !errors.Is(err, errMoved) {
		t.Errorf("%v", err)
	}
	if owners, err := a.Owners(); err != nil || len(owners) != 1 {
		t.Errorf("%+v, %v", owners, err)
	}
	if c := mustOpen(t, a.File()); c.Generation() != a.Generation() || c.Generation() == b.Generation() {
		t.Errorf("generation %x", c.Generation())
	}
}

// segmentFile is the file of a segment of n bytes, changed.
func segmentFile(t testing.TB, n int64, change func(b []byte) []byte) string {
	t.Helper()
	b := make([]byte, fileBytes(n))
	header{size: n, generation: 77, name: "foreign"}.put(b)
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, change(b), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestOpenForeign(t *testing.T) {
	put32 := func(at int, v uint32) func([]byte) []byte {
		return func(b []byte) []byte { binary.LittleEndian.PutUint32(b[at:], v); return b }
	}
	put64 := func(at int, v uint64) func([]byte) []byte {
		return func(b []byte) []byte { binary.LittleEndian.PutUint64(b[at:], v); return b }
	}
	fill := func(from, to int) func([]byte) []byte {
		return func(b []byte) []byte { copy(b[from:to], bytes.Repeat([]byte{'x'}, to-from)); return b }
	}
	cut := func(n int64) func([]byte) []byte { return func(b []byte) []byte { return b[:n] } }
	page := pagemem.PageSize()
	before := descriptors(t)
	for name, c := range map[string]struct {
		change  func([]byte) []byte
		text    string
		replace error // of Create at the path
	}{
		"right":      {cut(fileBytes(5000)), "", nil},
		"empty":      {cut(0), "0 bytes, less than the header of 65536", ErrInvalid},
		"cut header": {cut(headerBytes - 1), "65535 bytes, less than the header of 65536", ErrInvalid},
		"magic":      {fill(0, 8), `starts with "xxxxxxxx", not "PINIONSG"`, ErrInvalid},
		"version":    {put32(versionAt, 2), "layout version 2, this program knows 1", ErrInvalid},
		"no size":    {put64(sizeAt, 0), "0 bytes of data", ErrInvalid},
		"huge size":  {put64(sizeAt, 1<<63+5000), "9223372036854780808 bytes of data", ErrInvalid},
		"other size": {put64(sizeAt, 1<<40), "1099511627776 bytes of data need a file of", nil},
		"cut":        {cut(headerBytes + page), fmt.Sprintf("it has %d", headerBytes+page), nil},
		"longer":     {func(b []byte) []byte { return append(b, 0) }, fmt.Sprintf("it has %d", fileBytes(5000)+1), nil},
		"generation": {put64(generationAt, 0), "generation 0", ErrInvalid},
		"name":       {fill(nameAt, pathAt), "without an end", ErrInvalid},
		"path":       {fill(pathAt, slotsAt), "without an end", ErrInvalid},
		"dead owner": {func(b []byte) []byte { putOwner(tableOf(b).slot(5), deadOwner()); return b }, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			path := segmentFile(t, 5000, c.change)
			s, err := OpenPath(path, OpenOptions{})
			if c.text == "" {
				if err != nil {
					t.Fatal(err)
				}
				if owners, err := s.Owners(); err != nil || len(owners) != 1 {
					t.Errorf("%+v, %v", owners, err)
				}
				defer s.Close()
				if _, err := Create(1, Options{Path: path}); !errors.Is(err, ErrOwned) {
					t.Errorf("replaced: %v", err)
				}
				return
			}
			if s != nil || !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%v, %v, want %q", s, err, c.text)
			}
			// No foreign file is replaced, but a damaged segment without owners.
			s, err = Create(1, Options{Path: path})
			if !errors.Is(err, c.replace) {
				t.Errorf("replaced: %v, want %v", err, c.replace)
			}
			if err == nil {
				s.Close()
			}
		})
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors, %d before", after, before)
	}
}

func TestOpenOther(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	closed, err := os.Create(filepath.Join(dir, "closed"))
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	readOnly, err := os.Open(segmentFile(t, 1, func(b []byte) []byte { return b }))
	if err != nil {
		t.Fatal(err)
	}
	defer readOnly.Close()
	before := descriptors(t)
	for name, c := range map[string]struct{ err, want error }{
		"nil":           {second(Open(nil, OpenOptions{})), device.ErrArgument},
		"closed":        {second(Open(closed, OpenOptions{})), os.ErrClosed},
		"pipe":          {second(Open(r, OpenOptions{})), ErrInvalid},
		"read only":     {second(Open(readOnly, OpenOptions{})), fs.ErrPermission},
		"folder":        {second(OpenPath(dir, OpenOptions{})), ErrInvalid},
		"fifo":          {second(OpenPath(fifo, OpenOptions{})), ErrInvalid},
		"none":          {second(OpenPath(filepath.Join(dir, "none"), OpenOptions{})), fs.ErrNotExist},
		"create folder": {second(Create(1, Options{Path: dir})), ErrInvalid},
		"remove folder": {Remove(dir), ErrInvalid},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v, want %v", name, c.err, c.want)
		}
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors, %d before", after, before)
	}
	r.Close()
}
