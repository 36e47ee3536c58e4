package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/transfer"
	"github.com/pinion-gpu/pinion/transfer/internal/transfertest"
)

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
