//go:build linux || darwin

package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/fdpass"
	"github.com/pinion-gpu/pinion/internal/pagemem"
	"github.com/pinion-gpu/pinion/internal/sysmem"
	"golang.org/x/sys/unix"
)

func second[T any](_ T, err error) error { return err }

// mustCreate makes a segment that is closed at the end of the test: an
// anonymous one where that is possible.
func mustCreate(t testing.TB, n int64, o Options) *Segment {
	t.Helper()
	if o.Path == "" && runtime.GOOS != "linux" {
		o.Path = filepath.Join(t.TempDir(), "segment")
	}
	s, err := Create(n, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func mustOpen(t testing.TB, f *os.File) *Segment {
	t.Helper()
	s, err := Open(f, OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// descriptors counts those of this process.
func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func TestSegment(t *testing.T) {
	before := descriptors(t)
	for _, n := range []int64{1, pagemem.PageSize(), 100_000, pagemem.HugePage + 1} {
		a := mustCreate(t, n, Options{Name: "frames"})
		b := mustOpen(t, a.File())
		for _, s := range []*Segment{a, b} {
			if m := s.Bytes(); int64(len(m)) != n || int64(cap(m)) != pagemem.RoundUp(n) || !pagemem.Aligned(m[:cap(m)]) {
				t.Errorf("%d bytes: length %d, capacity %d", n, len(m), cap(m))
			}
			if s.Len() != n || s.Name() != "frames" || s.Generation() == 0 || s.Generation() != a.Generation() {
				t.Errorf("%d bytes, name %q, generation %x", s.Len(), s.Name(), s.Generation())
			}
			if !bytes.Equal(s.Bytes(), make([]byte, n)) {
				t.Error("not zero")
			}
		}
		a.Bytes()[0]++
		b.Bytes()[n-1]++
		if !bytes.Equal(a.Bytes(), b.Bytes()) || a.Bytes()[0] == 0 || a.Bytes()[n-1] == 0 {
			t.Errorf("%d bytes: %d…%d and %d…%d", n, a.Bytes()[0], a.Bytes()[n-1], b.Bytes()[0], b.Bytes()[n-1])
		}
		if owners, err := b.Owners(); err != nil || len(owners) != 2 || owners[0].PID != os.Getpid() || !owners[1].Creator {
			t.Errorf("owners %+v, %v", owners, err)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		b.Bytes()[n-1] = 7 // outlives its creator
		if owners, err := b.Owners(); err != nil || len(owners) != 1 {
			t.Errorf("owners %+v, %v", owners, err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors, %d before", after, before)
	}
}

func TestGenerations(t *testing.T) {
	if a, b := mustCreate(t, 1, Options{}), mustCreate(t, 1, Options{}); a.Generation() == b.Generation() {
		t.Errorf("both %x", a.Generation())
	}
}

func TestSegmentClosed(t *testing.T) {
	a, b := socketPair(t)
	s := mustCreate(t, 100, Options{Name: "gone"})
	dev := newFake()
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if s.Bytes() != nil || s.File() != nil || s.Len() != 100 || s.Name() != "gone" {
		t.Errorf("%d bytes, file %v", len(s.Bytes()), s.File())
	}
	for what, err := range map[string]error{
		"owners": second(s.Owners()),
		"pin":    s.Pin(dev, 0),
		"unpin":  s.Unpin(dev),
		"mapped": second(s.Mapped(dev)),
		"send":   s.Send(a),
	} {
		if !errors.Is(err, device.ErrClosed) || err.Error() != "segment: "+what+`: used after close: segment "gone"` {
			t.Errorf("%s: %v", what, err)
		}
	}
	a.Close()
	if _, err := Receive(b); !errors.Is(err, io.EOF) {
		t.Errorf("something was sent: %v", err)
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

// socketPair returns the ends of a connection.
func socketPair(t *testing.T) (a, b *net.UnixConn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]*net.UnixConn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "socket")
		conn, err := net.FileConn(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		ends[i] = conn.(*net.UnixConn)
		t.Cleanup(func() { conn.Close() })
	}
	return ends[0], ends[1]
}

func TestSend(t *testing.T) {
	a, b := socketPair(t)
	before := descriptors(t)
	for i := range 3 {
		s := mustCreate(t, int64(1000+i), Options{Name: "sent"})
		if err := s.Send(a); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Write([]byte("next")); err != nil {
			t.Fatal(err)
		}
		got, err := Receive(b)
		if err != nil {
			t.Fatal(err)
		}
		s.Bytes()[1] = 9
		if got.Bytes()[1] != 9 || got.Len() != s.Len() || got.Generation() != s.Generation() {
			t.Errorf("%d bytes of %d", got.Len(), s.Len())
		}
		next := make([]byte, 4)
		if _, err := io.ReadFull(b, next); err != nil || string(next) != "next" {
			t.Errorf("then %q, %v", next, err)
		}
		if err := errors.Join(s.Close(), got.Close()); err != nil {
			t.Error(err)
		}
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors, %d before", after, before)
	}
}

func TestReceiveForeign(t *testing.T) {
	s := mustCreate(t, 5000, Options{})
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	message := func(magic string, generation uint64, size int64) []byte {
		b := binary.LittleEndian.AppendUint64([]byte(magic), generation)
		return binary.LittleEndian.AppendUint64(b, uint64(size))
	}
	right := message(layoutMagic, s.Generation(), 5000)
	for name, c := range map[string]struct {
		msg  []byte
		file *os.File
		want error
		text string
	}{
		"right":         {right, s.File(), nil, ""},
		"magic":         {message("PNG 1234", s.Generation(), 5000), s.File(), ErrInvalid, `starts with "PNG 1234"`},
		"generation":    {message(layoutMagic, 0, 5000), s.File(), ErrInvalid, "announces generation 0000000000000000"},
		"size":          {message(layoutMagic, s.Generation(), 5001), s.File(), ErrInvalid, "with 5001 bytes"},
		"other file":    {right, null, ErrInvalid, "not a regular file"},
		"no descriptor": {right, nil, ErrInvalid, "0 came with the message"},
		"short":         {right[:23], s.File(), io.ErrUnexpectedEOF, "after 23 of 24 bytes"},
		"nothing":       {nil, nil, io.EOF, "after 0 of 24 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := socketPair(t)
			before := descriptors(t)
			if c.file != nil {
				err = fdpass.Send(a, c.msg, c.file)
			} else {
				_, err = a.Write(c.msg)
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := a.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			got, err := Receive(b)
			if c.want == nil {
				if err != nil {
					t.Fatal(err)
				}
				if err := got.Close(); err != nil {
					t.Error(err)
				}
			} else if got != nil || !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%v, %v, want %q", got, err, c.text)
			}
			if after := descriptors(t); after != before {
				t.Errorf("%d descriptors, %d before", after, before)
			}
		})
	}
	a, _ := socketPair(t)
	a.Close()
	if err := s.Send(a); !errors.Is(err, net.ErrClosed) {
		t.Errorf("on a closed connection: %v", err)
	}
}

// Everything at once, for the race detector, and a table that adds up.
func TestSegmentConcurrent(t *testing.T) {
	s := mustCreate(t, mib, Options{Path: filepath.Join(t.TempDir(), "segment")})
	var group sync.WaitGroup
	for g := range 4 {
		group.Go(func() {
			dev := newFake()
			for range 20 {
				o, err := OpenPath(s.Path(), OpenOptions{})
				if err != nil {
					t.Error(err)
					return
				}
				if err := errors.Join(s.Pin(dev, 0), second(s.Mapped(dev)), s.Unpin(dev)); err != nil {
					t.Error(err)
				}
				o.Bytes()[g]++
				var closers sync.WaitGroup
				closers.Go(func() { second(o.Owners()); o.Bytes(); o.File(); o.Pin(dev, 0) })
				closers.Go(func() {
					if err := o.Close(); err != nil {
						t.Error(err)
					}
				})
				closers.Wait()
			}
		})
	}
	group.Wait()
	if got := s.Bytes()[:5]; !bytes.Equal(got, []byte{20, 20, 20, 20, 0}) {
		t.Errorf("counted %v", got)
	}
	if owners, err := s.Owners(); err != nil || len(owners) != 1 {
		t.Errorf("%+v, %v", owners, err)
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
