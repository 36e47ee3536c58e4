package transfer_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
	f.NeedsPinned(1 << 20)
	file := f.NewFile(t.TempDir(), unique(n, 1))
	for _, path := range []transfer.FilePath{transfer.FileDirect, transfer.FileAuto} {
		e := f.Engine(transfer.Options{Copiers: copiers, FileWorkers: 2, Slots: 1, SlotBytes: 16 << 10, StageAbove: 1})
		before := f.Dev.Opened.Load()
		report, err := e.ReadFile(ctx, transfer.FileCopy{File: file, Device: f.Alloc(n), Bytes: n, Path: path})
		if errors.Is(err, device.ErrNotSupported) {
			continue
		}
		f.OK(err)
		if path == transfer.FileAuto && report.CachedBytes < n {
			continue // the system needed the page cache for something else
		}
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
