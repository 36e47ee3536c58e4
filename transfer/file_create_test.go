package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/transfer"
)

// leavesNothing checks that a directory has those files only.
func (f *fixture) leavesNothing(dir string, names ...string) {
	f.Helper()
	entries, err := os.ReadDir(dir)
	f.OK(err)
	if len(entries) != len(names) {
		f.Errorf("in the directory are %v, want %v", entries, names)
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
