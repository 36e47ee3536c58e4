package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/directio"
	"github.com/pinion-gpu/pinion/transfer"
	"github.com/pinion-gpu/pinion/transfer/internal/transfertest"
)

// fileDirs are directories on different file systems.
func fileDirs(t testing.TB) []string {
	dirs := []string{t.TempDir()}
	if dir, err := os.MkdirTemp("/dev/shm", "pinion-test-*"); err == nil {
		t.Cleanup(func() { os.RemoveAll(dir) })
		dirs = append(dirs, dir)
	}
	return dirs
}

// leavesNothing checks that a directory has those files only.
func (f *fixture) leavesNothing(dir string, names ...string) {
	f.Helper()
	entries, err := os.ReadDir(dir)
	f.OK(err)
	if len(entries) != len(names) {
		f.Errorf("in the directory are %v, want %v", entries, names)
	}
}

var readPaths = []transfer.FilePath{transfer.FileAuto, transfer.FileCached, transfer.FileDirect, transfer.FileMapped}

// slots are sizes of slots that fit direct reads well, hardly, and not at all.
var slots = []int64{64 << 10, 8 << 10, 5000, 700}

// Any part of a file arrives, by every path, cached or not, and no byte beside
// it changes.
func TestReadFile(t *testing.T) {
	const n = 700_001
	r := rand.New(rand.NewPCG(1, 2))
	for _, dir := range fileDirs(t) {
		for _, slot := range slots {
			t.Run(fmt.Sprintf("%s/%d", strings.Split(dir, "/")[1], slot), func(t *testing.T) {
				f := open(t)
				want := unique(n, 3)
				file := f.NewFile(dir, want)
				e := f.Engine(transfer.Options{Copiers: 3, FileWorkers: 2, Slots: 2, SlotBytes: slot, StageAbove: 1})
				p := f.Alloc(n + 64)
				got := make([]byte, n+64)
				for round := range 48 {
					path := readPaths[round%len(readPaths)]
					if round%3 == 0 {
						transfertest.Evict(t, file)
					}
					offset := r.Int64N(n)
					size := r.Int64N(n - offset + 1)
					switch round % 5 {
					case 0:
						offset, size = 0, n
					case 1:
						offset &^= 4095
					case 2:
						size = min(size, 1+r.Int64N(9000))
					}
					at := r.Int64N(n - size + 1)
					f.Memset(p, before, n+64)
					var last int64
					report, err := e.ReadFile(ctx, transfer.FileCopy{File: file, Offset: offset, Device: p.Add(at), Bytes: size, Path: path,
						Progress: func(done, total int64) {
							if done < last || total != size {
								t.Errorf("%d of %d after %d of %d", done, total, last, size)
							}
							last = done
						}})
					if path == transfer.FileDirect && errors.Is(err, device.ErrNotSupported) {
						continue
					}
					f.OK(err)
					f.Download(got, p)
					if !bytes.Equal(got[at:at+size], want[offset:offset+size]) {
						t.Fatalf("round %d, %q, %d bytes at %d: wrong content", round, path, size, offset)
					}
					if bytes.Count(got[:at], []byte{before}) != int(at) || bytes.Count(got[at+size:], []byte{before}) != int(n+64-at-size) {
						t.Fatalf("round %d, %q, %d bytes at %d: bytes beside the copy changed", round, path, size, offset)
					}
					if sum := report.CachedBytes + report.DirectBytes + report.MappedBytes + report.CuFileBytes; sum != size {
						t.Fatalf("round %d, %q: the report tells of %d bytes of %d: %+v", round, path, sum, size, report)
					}
					if last != size {
						t.Fatalf("round %d: progress ended at %d of %d", round, last, size)
					}
				}
			})
		}
	}
}

// What is in the page cache is read from there and what is not past it.
func TestReadFileReport(t *testing.T) {
	const n = 4 << 20
	f := open(t)
	file := f.NewFile(t.TempDir(), unique(n, 1))
	e := f.Engine(transfer.Options{Copiers: 2, SlotBytes: 64 << 10, StageAbove: 1})
	c := transfer.FileCopy{File: file, Device: f.Alloc(n), Bytes: n}
	var report transfer.FileReport
	for range 5 { // pages may go at any time, but not again and again
		_, err := os.ReadFile(file.Name())
		f.OK(err)
		report, err = e.ReadFile(ctx, c)
		f.OK(err)
		if report.CachedBytes == n {
			break
		}
	}
	if report.CachedBytes != n {
		t.Errorf("just read: %+v", report)
	}
	direct, err := directio.Open(file, directio.Options{Path: directio.Direct})
	if err != nil {
		t.Skip(err)
	}
	defer direct.Close()
	transfertest.Evict(t, file)
	if probe, err := directio.Open(file, directio.Options{}); err != nil || probe.Resident(0, n) {
		t.Skipf("the system keeps the file in its cache (%v)", err)
	}
	report, err = e.ReadFile(ctx, c)
	f.OK(err)
	if report.DirectBytes < n/2 {
		t.Errorf("not in the cache: %+v", report)
	}
	c.Path = transfer.FileDirect
	for _, c.Offset = range []int64{0, 100} { // chunks end on whole pages of the file
		c.Bytes = n - c.Offset
		report, err = e.ReadFile(ctx, c)
		f.OK(err)
		if report.DirectBytes != c.Bytes {
			t.Errorf("direct at %d: %+v", c.Offset, report)
		}
	}
}

// The copiers read what is in the page cache; what is not leaves them alone.
func TestReadFileWorkers(t *testing.T) {
	const n, copiers = 1 << 20, 7
	f := open(t)
	file := f.NewFile(t.TempDir(), unique(n, 1))
	for _, path := range []transfer.FilePath{transfer.FileDirect, transfer.FileAuto} {
		e := f.Engine(transfer.Options{Copiers: copiers, FileWorkers: 2, Slots: 1, SlotBytes: 16 << 10, StageAbove: 1})
		before := f.Dev.Opened.Load()
		_, err := e.ReadFile(ctx, transfer.FileCopy{File: file, Device: f.Alloc(n), Bytes: n, Path: path})
		if errors.Is(err, device.ErrNotSupported) {
			continue
		}
		f.OK(err)
		want := int64(2 * copiers) // a stream and an event each
		if path == transfer.FileDirect {
			want = 2 * 2
		}
		if got := f.Dev.Opened.Load() - before; got != want {
			t.Errorf("path %q: %d streams and events, want %d", path, got, want)
		}
	}
}

// The host backend reads by a path of its own.
func TestReadFileIntegrated(t *testing.T) {
	const n = 300_001
	f := open(t)
	want := unique(n, 1)
	file := f.NewFile(t.TempDir(), want)
	e, err := transfer.New(f.Dev.Device, transfer.Options{})
	f.OK(err)
	defer e.Close()
	p := f.Alloc(n)
	_, inGo := device.As[device.Caller](f.Dev.Device)
	for _, cached := range []bool{true, false} {
		report, err := e.ReadFile(ctx, transfer.FileCopy{File: file, Offset: 77, Device: p, Bytes: n - 77})
		f.OK(err)
		if inGo && cached && report.MappedBytes != n-77 {
			t.Errorf("it was not mapped: %+v", report)
		}
		if !bytes.Equal(f.Download(make([]byte, n-77), p), want[77:]) {
			t.Fatalf("wrong content: %+v", report)
		}
		transfertest.Evict(t, file)
	}
	report, err := e.CreateFile(ctx, filepath.Join(t.TempDir(), "out"), transfer.FileCopy{Device: p, Bytes: n - 77})
	if err != nil || report.CachedBytes != n-77 {
		t.Errorf("%+v, %v", report, err)
	}
}

// A part of an open file is written in place and the rest stays as it was.
func TestWriteFile(t *testing.T) {
	const n = 400_003
	r := rand.New(rand.NewPCG(5, 6))
	for _, dir := range fileDirs(t) {
		for _, slot := range slots {
			t.Run(fmt.Sprintf("%s/%d", strings.Split(dir, "/")[1], slot), func(t *testing.T) {
				f := open(t)
				want := unique(n, 1)
				file := f.NewFile(dir, want)
				e := f.Engine(transfer.Options{Copiers: 2, FileWorkers: 3, Slots: 2, SlotBytes: slot})
				p := f.Alloc(n)
				data := unique(n, 2)
				f.OK(e.H2D(ctx, p, data))
				for round := range 24 {
					offset := r.Int64N(int64(len(want)) + 5000)
					size := r.Int64N(n)
					switch round % 4 {
					case 0:
						offset, size = offset&^4095, size&^4095
					case 1:
						size = 1 + r.Int64N(9000)
					}
					at := r.Int64N(n - size + 1)
					path := []transfer.FilePath{transfer.FileAuto, transfer.FileCached, transfer.FileDirect}[round%3]
					report, err := e.WriteFile(ctx, transfer.FileCopy{File: file, Offset: offset, Device: p.Add(at), Bytes: size, Path: path, Sync: round == 7})
					if path == transfer.FileDirect && errors.Is(err, device.ErrNotSupported) {
						continue
					}
					f.OK(err)
					if end := offset + size; end > int64(len(want)) {
						want = append(want, make([]byte, end-int64(len(want)))...)
					}
					copy(want[offset:], data[at:at+size])
					if report.CachedBytes+report.DirectBytes != size {
						t.Fatalf("round %d: %+v of %d bytes", round, report, size)
					}
					got, err := os.ReadFile(file.Name())
					f.OK(err)
					if !bytes.Equal(got, want) {
						t.Fatalf("round %d, %q, %d bytes at %d: wrong content, %d bytes of %d", round, path, size, offset, len(got), len(want))
					}
				}
			})
		}
	}
}

func TestCreateFile(t *testing.T) {
	for _, dir := range fileDirs(t) {
		f := open(t)
		e := f.Engine(transfer.Options{Copiers: 2, Slots: 2, SlotBytes: 16 << 10})
		p := f.Alloc(500_000)
		data := unique(500_000, 1)
		f.OK(e.H2D(ctx, p, data))
		path := filepath.Join(dir, "out")
		for i, c := range []transfer.FileCopy{
			{Bytes: 500_000},
			{Bytes: 123_457, Sync: true},
			{},
			{Bytes: 300_001, Path: transfer.FileDirect},
		} {
			c.Device = p
			report, err := e.CreateFile(ctx, path, c)
			if c.Path == transfer.FileDirect && errors.Is(err, device.ErrNotSupported) {
				continue
			}
			f.OK(err)
			if c.Sync && report.DirectBytes == 0 && len(report.Notes) == 0 {
				t.Errorf("file %d: written through the cache: %+v", i, report)
			}
			got, err := os.ReadFile(path)
			f.OK(err)
			if !bytes.Equal(got, data[:c.Bytes]) {
				t.Fatalf("file %d: wrong content, %d bytes", i, len(got))
			}
			f.leavesNothing(dir, "out")
		}
	}
}

// A file that cannot be written to its end is not there, and what was there
// before still is.
func TestCreateFileFails(t *testing.T) {
	const n = 300_000
	f := open(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "out")
	f.OK(os.WriteFile(path, []byte("before"), 0o600))
	e := f.Engine(transfer.Options{Copiers: 2, Slots: 2, SlotBytes: 16 << 10})
	p := f.Alloc(n)
	check := func(what string, err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %q", what, err, want)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != "before" {
			t.Errorf("%s: the file is %.20q, %v", what, got, err)
		}
		f.leavesNothing(dir, "out")
	}
	_, err := e.CreateFile(ctx, path, transfer.FileCopy{Device: nowhere, Bytes: n})
	check("no such device memory", err, device.ErrPointer)
	_, err = e.CreateFile(ctx, path, transfer.FileCopy{Device: p, Bytes: -1})
	check("negative", err, device.ErrArgument)
	_, err = e.CreateFile(ctx, path, transfer.FileCopy{Device: p, Bytes: n, Offset: 1})
	check("with an offset", err, device.ErrArgument)
	_, err = e.CreateFile(ctx, path, transfer.FileCopy{Device: p, Bytes: n, Path: transfer.FileMapped})
	check("mapped", err, device.ErrArgument)
	_, err = e.CreateFile(ctx, path, transfer.FileCopy{Device: p, Bytes: n, Path: transfer.FileCuFile})
	check("cuFile", err, device.ErrNotSupported)
	_, err = e.CreateFile(ctx, dir, transfer.FileCopy{Device: p, Bytes: n})
	check("a directory", err, device.ErrArgument)
	_, err = e.CreateFile(ctx, filepath.Join(dir, "none", "out"), transfer.FileCopy{Device: p, Bytes: n})
	check("no directory", err, os.ErrNotExist)

	cancelled, cancel := context.WithCancel(ctx)
	f.slowAfter(cancelled, 4)
	_, err = e.CreateFile(cancelled, path, transfer.FileCopy{Device: p, Bytes: n, Progress: func(int64, int64) { cancel() }})
	check("cancelled", err, context.Canceled)
	_, err = e.CreateFile(cancelled, path, transfer.FileCopy{Device: p, Bytes: n})
	check("cancelled before", err, context.Canceled)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic of Progress is lost")
			}
		}()
		_, _ = e.CreateFile(ctx, path, transfer.FileCopy{Device: p, Bytes: n, Progress: func(int64, int64) { panic("now") }})
	}()
	check("panic", nil, nil)
	f.Works(e)
}

// A file that is replaced keeps its permissions, and a symbolic link stays one.
func TestCreateFileKeeps(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("other permissions, and links need rights")
	}
	f := open(t)
	e := f.Engine(small)
	const n = 10_000
	p := f.Alloc(n)
	f.Memset(p, sent, n)
	dir := t.TempDir()
	path, link := filepath.Join(dir, "secret"), filepath.Join(dir, "link")
	f.OK(os.WriteFile(path, []byte("before"), 0o600))
	f.OK(os.Symlink("secret", link))
	for _, at := range []string{path, link} {
		_, err := e.CreateFile(ctx, at, transfer.FileCopy{Device: p, Bytes: n})
		f.OK(err)
		info, err := os.Lstat(path)
		f.OK(err)
		if info.Mode() != 0o600 || info.Size() != n {
			t.Errorf("%s: the file is %v with %d bytes, want 0600 with %d", at, info.Mode(), info.Size(), n)
		}
		if to, err := os.Readlink(link); err != nil || to != "secret" {
			t.Errorf("the link is gone (%v)", err)
		}
		f.leavesNothing(dir, "link", "secret")
	}
}

// What cannot be copied is refused before anything is.
func TestFileArguments(t *testing.T) {
	const n = 10_000
	f := open(t)
	dir := t.TempDir()
	file := f.NewFile(dir, unique(n, 1))
	closed := f.NewFile(t.TempDir(), unique(n, 1))
	f.OK(closed.Close())
	folder, err := os.Open(dir)
	f.OK(err)
	defer folder.Close()
	pipe, end, err := os.Pipe()
	f.OK(err)
	defer pipe.Close()
	defer end.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	f.OK(err)
	defer null.Close()
	readOnly, err := os.Open(file.Name())
	f.OK(err)
	defer readOnly.Close()
	writeOnly, err := os.OpenFile(file.Name(), os.O_WRONLY, 0)
	f.OK(err)
	defer writeOnly.Close()
	appending, err := os.OpenFile(file.Name(), os.O_RDWR|os.O_APPEND, 0)
	f.OK(err)
	defer appending.Close()

	if _, err := transfer.New(f.Dev, transfer.Options{FileWorkers: -1}); !errors.Is(err, device.ErrArgument) {
		t.Errorf("-1 workers: %v", err)
	}
	e := f.Engine(small)
	p := f.Alloc(n)
	f.Memset(p, before, n)
	type copy = transfer.FileCopy
	for _, c := range []struct {
		name        string
		copy        copy
		read, write error // nil: not tried
	}{
		{"no file", copy{Device: p, Bytes: 1}, device.ErrArgument, device.ErrArgument},
		{"negative size", copy{File: file, Device: p, Bytes: -1}, device.ErrArgument, device.ErrArgument},
		{"negative offset", copy{File: file, Device: p, Bytes: 1, Offset: -1}, device.ErrArgument, device.ErrArgument},
		{"overflow", copy{File: file, Device: p, Bytes: 2, Offset: math.MaxInt64 - 1}, device.ErrArgument, device.ErrArgument},
		{"device overflow", copy{File: file, Device: math.MaxUint64, Bytes: 2}, device.ErrArgument, device.ErrArgument},
		{"unknown path", copy{File: file, Device: p, Bytes: 1, Path: "guess"}, device.ErrArgument, device.ErrArgument},
		{"short", copy{File: file, Device: p, Bytes: n, Offset: 1}, io.ErrUnexpectedEOF, nil},
		{"far behind", copy{File: file, Device: p, Bytes: 1, Offset: 1 << 50}, io.ErrUnexpectedEOF, nil},
		{"short, mapped", copy{File: file, Device: p, Bytes: n, Offset: 1, Path: transfer.FileMapped}, io.ErrUnexpectedEOF, device.ErrArgument},
		{"closed", copy{File: closed, Device: p, Bytes: n}, os.ErrClosed, os.ErrClosed},
		{"directory", copy{File: folder, Device: p, Bytes: 1}, device.ErrArgument, device.ErrArgument},
		{"pipe", copy{File: pipe, Device: p, Bytes: 1}, device.ErrArgument, device.ErrArgument},
		{"character device", copy{File: null, Device: p, Bytes: 1}, device.ErrArgument, device.ErrArgument},
		{"read only", copy{File: readOnly, Device: p, Bytes: n}, nil, os.ErrPermission},
		{"write only", copy{File: writeOnly, Device: p, Bytes: n}, os.ErrPermission, nil},
		{"appending", copy{File: appending, Device: p, Bytes: n}, nil, os.ErrPermission},
		{"device memory", copy{File: file, Device: nowhere, Bytes: n}, device.ErrPointer, device.ErrPointer},
		{"no cuFile", copy{File: file, Device: p, Bytes: n, Path: transfer.FileCuFile}, device.ErrNotSupported, device.ErrNotSupported},
	} {
		if c.read != nil {
			if _, err := e.ReadFile(ctx, c.copy); !errors.Is(err, c.read) {
				t.Errorf("read, %s: %v, want %q", c.name, err, c.read)
			}
		}
		if c.write != nil {
			if _, err := e.WriteFile(ctx, c.copy); !errors.Is(err, c.write) {
				t.Errorf("write, %s: %v, want %q", c.name, err, c.write)
			}
		}
	}
	got := f.Download(make([]byte, n), p)
	if bytes.Count(got, []byte{before}) != n {
		t.Error("a copy that was refused changed the device memory")
	}
	if got, err := os.ReadFile(file.Name()); err != nil || !bytes.Equal(got, unique(n, 1)) {
		t.Errorf("a copy that was refused changed the file: %v", err)
	}
	f.Works(e)
	f.OK(e.Close())
	for _, bytes := range []int64{0, n} {
		_, err = e.ReadFile(ctx, transfer.FileCopy{File: file, Device: p, Bytes: bytes})
		f.Fails("read with a closed engine", err, device.ErrClosed)
		_, err = e.WriteFile(ctx, transfer.FileCopy{File: file, Device: p, Bytes: bytes})
		f.Fails("write with a closed engine", err, device.ErrClosed)
	}
}

// A file that becomes shorter meanwhile is an error with the numbers, by every
// path: none may crash.
func TestShrinkingFile(t *testing.T) {
	const n = 1 << 20
	for _, path := range readPaths {
		t.Run("path "+string(path), func(t *testing.T) {
			f := open(t)
			if _, inGo := device.As[device.Caller](f.Dev.Device); path == transfer.FileMapped && !inGo {
				t.Skip("the driver would crash")
			}
			file := f.NewFile(t.TempDir(), unique(n, 1))
			f.OK(file.Sync())
			e := f.Engine(transfer.Options{Copiers: 1, FileWorkers: 1, Slots: 2, SlotBytes: 16 << 10, StageAbove: 1})
			p := f.Alloc(n)
			var once sync.Once
			f.Dev.OnCopy(func([]byte, device.Ptr, bool) error {
				once.Do(func() { f.OK(os.Truncate(file.Name(), 99_999)) })
				return nil
			})
			_, err := e.ReadFile(ctx, transfer.FileCopy{File: file, Device: p, Bytes: n, Path: path})
			f.Fails("read", err, io.ErrUnexpectedEOF)
			if !strings.Contains(err.Error(), "99999") {
				t.Errorf("%q does not say where the file ends", err)
			}
			f.Works(e)
		})
	}
}

// Holes are zeros.
func TestSparseFile(t *testing.T) {
	const n = 1 << 20
	f := open(t)
	file := f.NewFile(t.TempDir(), nil)
	f.OK(file.Truncate(n))
	want := make([]byte, n)
	copy(want[333_333:], "something")
	_, err := file.WriteAt([]byte("something"), 333_333)
	f.OK(err)
	e := f.Engine(transfer.Options{Copiers: 2, SlotBytes: 64 << 10, StageAbove: 1})
	p := f.Alloc(n)
	for _, path := range readPaths {
		transfertest.Evict(t, file)
		f.Memset(p, before, n)
		_, err := e.ReadFile(ctx, transfer.FileCopy{File: file, Device: p, Bytes: n, Path: path})
		if errors.Is(err, device.ErrNotSupported) {
			continue
		}
		f.OK(err)
		if !bytes.Equal(f.Download(make([]byte, n), p), want) {
			t.Errorf("path %q: wrong content", path)
		}
	}
}

// slowAfter holds copies up until ctx ends, and slows them down then, but for
// the first few: the context ends long before all are through.
func (f *fixture) slowAfter(ctx context.Context, few int64) {
	var copies atomic.Int64
	f.Dev.OnCopy(func([]byte, device.Ptr, bool) error {
		if copies.Add(1) > few {
			<-ctx.Done()
			time.Sleep(time.Millisecond)
		}
		return nil
	})
}

// A cancelled copy stops, lets go of everything and leaves the engine usable.
func TestFileCancelled(t *testing.T) {
	const n = 1 << 20
	f := open(t)
	file := f.NewFile(t.TempDir(), unique(n, 1))
	e := f.Engine(transfer.Options{Copiers: 2, FileWorkers: 2, Slots: 2, SlotBytes: 8 << 10, StageAbove: 1})
	p := f.Alloc(n)
	for _, write := range []bool{false, true} {
		for _, evicted := range []bool{false, true} {
			if evicted {
				transfertest.Evict(t, file)
			}
			ctx, cancel := context.WithCancel(ctx)
			move := e.ReadFile
			if write {
				move = e.WriteFile
			}
			f.slowAfter(ctx, 4)
			report, err := move(ctx, transfer.FileCopy{File: file, Device: p, Bytes: n, Progress: func(int64, int64) { cancel() }})
			f.Fails("cancelled", err, context.Canceled)
			if report.CachedBytes+report.DirectBytes >= n {
				t.Errorf("everything was copied: %+v", report)
			}
			_, err = move(ctx, transfer.FileCopy{File: file, Device: p, Bytes: n})
			f.Fails("cancelled before", err, context.Canceled)
		}
	}
	f.Dev.OnCopy(func([]byte, device.Ptr, bool) error { return nil })
	f.Works(e)
}

// Where nothing can be pinned, files still arrive.
func TestFileWithoutPinning(t *testing.T) {
	const n = 300_001
	f := open(t)
	want := unique(n, 1)
	file := f.NewFile(t.TempDir(), want)
	f.Dev.OnPin(func() error { return device.ErrPinLimit })
	e := f.Engine(small)
	p := f.Alloc(n)
	for _, path := range readPaths[:2] {
		f.Memset(p, before, n)
		_, err := e.ReadFile(ctx, transfer.FileCopy{File: file, Device: p, Bytes: n, Path: path})
		f.OK(err)
		if !bytes.Equal(f.Download(make([]byte, n), p), want) {
			t.Errorf("path %q: wrong content", path)
		}
	}
	out := filepath.Join(t.TempDir(), "out")
	_, err := e.CreateFile(ctx, out, transfer.FileCopy{Device: p, Bytes: n})
	f.OK(err)
	if got, err := os.ReadFile(out); err != nil || !bytes.Equal(got, want) {
		t.Errorf("wrong content: %v", err)
	}
}

// Reads, writes and copies run beside each other.
func TestFilesAtOnce(t *testing.T) {
	const n = 200_000
	f := open(t)
	dir := t.TempDir()
	e := f.Engine(transfer.Options{Copiers: 3, FileWorkers: 2, Slots: 2, SlotBytes: 16 << 10, StageAbove: 1})
	before := openFiles(t)
	var all sync.WaitGroup
	for worker := range 4 {
		p := f.Alloc(n)
		all.Go(func() {
			want, got := unique(n, byte(worker)), make([]byte, n)
			path := filepath.Join(dir, fmt.Sprint(worker))
			for round := range 4 {
				err := e.H2D(ctx, p, want)
				if err == nil {
					_, err = e.CreateFile(ctx, path, transfer.FileCopy{Device: p, Bytes: n})
				}
				if err != nil {
					t.Error(err)
					return
				}
				file, err := os.Open(path)
				if err != nil {
					t.Error(err)
					return
				}
				if round%2 == 1 {
					transfertest.Evict(t, file)
				}
				if err := e.H2D(ctx, p, got); err != nil {
					t.Error(err)
				}
				if _, err := e.ReadFile(ctx, transfer.FileCopy{File: file, Device: p, Bytes: n}); err != nil {
					t.Error(err)
				}
				if err := errors.Join(e.D2H(ctx, got, p), file.Close()); err != nil || !bytes.Equal(got, want) {
					t.Errorf("worker %d: wrong content, %v", worker, err)
				}
				clear(got)
			}
		})
	}
	all.Wait()
	if after := openFiles(t); after != before {
		t.Errorf("%d open files before, %d after", before, after)
	}
	f.leavesNothing(dir, "0", "1", "2", "3")
}

// openFiles counts the descriptors of this process, where it can.
func openFiles(t *testing.T) int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(entries)
}
