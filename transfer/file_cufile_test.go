package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/transfer"
)

// mover is a device that moves files itself, a few bytes at a time.
type mover struct {
	*rig
	stream   device.Stream
	straight error
	refused  error // of files
	fail     atomic.Bool
	open     atomic.Int64
}

func (m *mover) MovesStraight(*os.File) error { return m.straight }

func (m *mover) MoveFile(f *os.File) (device.File, error) {
	if m.refused != nil {
		return nil, m.refused
	}
	m.open.Add(1)
	return &movedFile{m, f.Name()}, nil
}

type movedFile struct {
	*mover
	name string
}

var errMover = errors.New("mover failed")

func (m *movedFile) at(n, offset int64, fn func(f *os.File, b []byte) error) (int64, error) {
	if m.fail.Load() {
		return 0, errMover
	}
	file, err := os.OpenFile(m.name, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	b := make([]byte, min(n, 5<<20))
	return int64(len(b)), errors.Join(fn(file, b), m.stream.Synchronize())
}

func (m *movedFile) ReadTo(dst device.Ptr, n, offset int64) (int64, error) {
	return m.at(n, offset, func(f *os.File, b []byte) error {
		_, err := f.ReadAt(b, offset)
		return errors.Join(err, m.stream.CopyH2D(dst, b), m.stream.Synchronize())
	})
}

func (m *movedFile) WriteFrom(src device.Ptr, n, offset int64) (int64, error) {
	return m.at(n, offset, func(f *os.File, b []byte) error {
		err := errors.Join(m.stream.CopyD2H(b, src), m.stream.Synchronize())
		_, writeErr := f.WriteAt(b, offset)
		return errors.Join(err, writeErr)
	})
}

func (m *movedFile) Close() error { m.open.Add(-1); return nil }

func TestFileMover(t *testing.T) {
	const n = 33 << 20 // three parts
	f := open(t)
	m := &mover{rig: f.Dev, stream: f.Stream}
	e, err := transfer.New(m, transfer.Options{SlotBytes: 64 << 10, FileWorkers: 4})
	f.OK(err)
	defer func() { f.OK(e.Close()) }()
	want := unique(n, 1)
	file := f.NewFile(t.TempDir(), want)
	p := f.Alloc(n)
	var last int64
	c := transfer.FileCopy{File: file, Offset: 7, Device: p, Bytes: n - 7, Path: transfer.FileCuFile,
		Progress: func(done, _ int64) { last = done }}
	report, err := e.ReadFile(ctx, c)
	f.OK(err)
	if report.CuFileBytes != n-7 || last != n-7 {
		t.Errorf("%+v, progress ended at %d", report, last)
	}
	if !bytes.Equal(f.Download(make([]byte, n-7), p), want[7:]) {
		t.Fatal("wrong content")
	}
	// By itself where it is straight.
	out := filepath.Join(t.TempDir(), "out")
	report, err = e.CreateFile(ctx, out, transfer.FileCopy{Device: p, Bytes: n - 7})
	f.OK(err)
	if report.CuFileBytes != n-7 {
		t.Errorf("straight: %+v", report)
	}
	if got, err := os.ReadFile(out); err != nil || !bytes.Equal(got, want[7:]) {
		t.Errorf("wrong content, %v", err)
	}
	// A file that the library refuses all the same goes another way, unless
	// this one was asked for.
	m.refused = errMover
	report, err = e.ReadFile(ctx, transfer.FileCopy{File: file, Offset: 7, Device: p, Bytes: 100_000})
	f.OK(err)
	if report.CuFileBytes != 0 || report.CachedBytes == 0 && len(report.Notes) == 0 {
		t.Errorf("refused: %+v", report)
	}
	report, err = e.CreateFile(ctx, out, transfer.FileCopy{Device: p, Bytes: 100_000})
	f.OK(err)
	if report.CuFileBytes != 0 || len(report.Notes) == 0 || !strings.Contains(report.Notes[0], errMover.Error()) {
		t.Errorf("refused: %+v", report)
	}
	if got, err := os.ReadFile(out); err != nil || !bytes.Equal(got, want[7:][:100_000]) {
		t.Errorf("wrong content, %v", err)
	}
	_, err = e.ReadFile(ctx, c)
	f.Fails("refused", err, errMover)
	m.refused = nil
	// A note where it is not.
	m.straight = fmt.Errorf("%w: no disk for it", device.ErrNotSupported)
	report, err = e.CreateFile(ctx, out, transfer.FileCopy{Device: p, Bytes: 100_000})
	f.OK(err)
	if report.CuFileBytes != 0 || len(report.Notes) == 0 || !strings.Contains(report.Notes[0], "no disk for it") {
		t.Errorf("not straight: %+v", report)
	}

	stopped, cancel := context.WithCancel(ctx)
	c.Progress = func(int64, int64) { cancel() }
	_, err = e.ReadFile(stopped, c)
	f.Fails("cancelled", err, context.Canceled)
	c.Progress = func(int64, int64) { panic("now") }
	func() {
		defer func() { _ = recover() }()
		_, _ = e.ReadFile(ctx, c)
		t.Error("the panic of Progress is lost")
	}()
	c.Progress = nil
	m.fail.Store(true)
	_, err = e.ReadFile(ctx, c)
	f.Fails("failing", err, errMover)
	if n := m.open.Load(); n != 0 {
		t.Errorf("%d files are still registered", n)
	}
}
