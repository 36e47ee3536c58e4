package transfer_test

import (
	"bytes"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pinion-gpu/pinion/transfer"
)

const limitVariable = "PINION_TEST_FILE_LIMIT"

// A limit on the size of files, in a process of its own.
func TestFileLimit(t *testing.T) {
	if os.Getenv(limitVariable) == "" {
		child := exec.Command(os.Args[0], "-test.run=^TestFileLimit$", "-test.v", "-test.timeout=10m")
		child.Env = append(os.Environ(), limitVariable+"=1", "GORACE=atexit_sleep_ms=0")
		text, err := child.CombinedOutput()
		if err != nil || !strings.Contains(string(text), "--- PASS: TestFileLimit") {
			t.Fatalf("%v\n%s", err, text)
		}
		return
	}
	const n, limit = 1 << 20, 300_000
	f := open(t)
	dir := t.TempDir()
	file := f.NewFile(t.TempDir(), nil)
	e := f.Engine(transfer.Options{FileWorkers: 2, Slots: 2, SlotBytes: 16 << 10})
	p := f.Alloc(n)
	signal.Ignore(syscall.SIGXFSZ)
	f.OK(syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: limit, Max: limit}))
	_, err := e.CreateFile(ctx, filepath.Join(dir, "out"), transfer.FileCopy{Device: p, Bytes: n})
	f.Fails("create", err, syscall.EFBIG)
	f.leavesNothing(dir)
	_, err = e.WriteFile(ctx, transfer.FileCopy{File: file, Device: p, Bytes: n})
	f.Fails("write", err, syscall.EFBIG)
	_, err = e.CreateFile(ctx, filepath.Join(dir, "out"), transfer.FileCopy{Device: p, Bytes: limit})
	f.OK(err)
}

// A full disk: the error has the numbers, and no half file is left.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("a small file system cannot be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	const n = 2 << 20
	f := open(t)
	e := f.Engine(transfer.Options{FileWorkers: 2, SlotBytes: 64 << 10})
	p := f.Alloc(n)
	path := filepath.Join(dir, "out")
	_, err := e.CreateFile(ctx, path, transfer.FileCopy{Device: p, Bytes: n})
	f.Fails("create", err, syscall.ENOSPC)
	for _, number := range []string{"2 MiB", "KiB are free"} {
		if !strings.Contains(err.Error(), number) {
			t.Errorf("%q does not tell %q", err, number)
		}
	}
	f.leavesNothing(dir)

	file, err := os.Create(path)
	f.OK(err)
	defer file.Close()
	_, err = e.WriteFile(ctx, transfer.FileCopy{File: file, Device: p, Bytes: n})
	f.Fails("write", err, syscall.ENOSPC)
	if !strings.Contains(err.Error(), "are free") {
		t.Errorf("%q does not tell how full the disk is", err)
	}
	f.OK(file.Truncate(0))
	data := unique(500_000, 1)
	f.OK(e.H2D(ctx, p, data))
	_, err = e.CreateFile(ctx, path, transfer.FileCopy{Device: p, Bytes: int64(len(data))})
	f.OK(err)
	got, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("wrong content, %v", err)
	}
}
