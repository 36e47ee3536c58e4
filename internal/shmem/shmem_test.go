//go:build linux || darwin

package shmem

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/pinion-gpu/pinion/internal/pagemem"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"golang.org/x/sys/unix"
)

func Example() {
	dir, err := os.MkdirTemp("", "shmem")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	size := pagemem.PageSize()
	draft, err := Create(filepath.Join(dir, "frames"), size)
	if err != nil {
		panic(err)
	}
	mem, err := Map(draft.File, size)
	if err != nil {
		panic(err)
	}
	copy(mem, "seen by all")
	if err := draft.Publish(filepath.Join(dir, "frames")); err != nil {
		panic(err)
	}
	there, err := os.ReadFile(filepath.Join(dir, "frames"))
	fmt.Printf("%.11s %v\n", there, err)
	pagemem.Unmap(mem)
	Close(draft.File)
	// Output: seen by all <nil>
}

func temp(t *testing.T, size int64) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { Close(f) })
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	return f
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

func TestDraft(t *testing.T) {
	for name, create := range map[string]func(string, int64) (*Draft, error){"create": Create, "temporary": createTemp} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "file")
			make := func() *Draft {
				d, err := create(path, 12345)
				if err != nil {
					t.Fatal(err)
				}
				return d
			}
			d, late, never := make(), make(), make()
			if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("there before it was published: %v", err)
			}
			if err := never.Discard(); err != nil {
				t.Error(err)
			}
			if err := d.Publish(path); err != nil {
				t.Fatal(err)
			}
			if err := late.Publish(path); !errors.Is(err, fs.ErrExist) {
				t.Errorf("published over another: %v", err)
			}
			here, err1 := d.File.Stat()
			there, err2 := os.Stat(path)
			if err := errors.Join(err1, err2); err != nil || !os.SameFile(here, there) || there.Size() != 12345 || there.Mode().Perm() != 0o600 {
				t.Errorf("%v: %+v is not %+v", err, there, here)
			}
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if err := late.Publish(path); err != nil {
				t.Errorf("second try: %v", err)
			}
			if got := names(t, dir); !slices.Equal(got, []string{"file"}) {
				t.Errorf("left in the folder: %v", got)
			}
			for _, d := range []*Draft{d, late, never} {
				if err := Close(d.File); err != nil {
					t.Error(err)
				}
			}
		})
	}
	if _, err := Create(filepath.Join(t.TempDir(), "none", "file"), 1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in a folder that is not there: %v", err)
	}
	dir := t.TempDir()
	if _, err := createTemp(filepath.Join(dir, "file"), -1); err == nil || len(names(t, dir)) != 0 {
		t.Errorf("size -1: %v, left %v", err, names(t, dir))
	}
}

func TestAnonymous(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("Linux only")
	}
	size := 3 * pagemem.PageSize()
	f, err := CreateAnonymous("test", size)
	if err != nil {
		t.Fatal(err)
	}
	defer Close(f)
	for _, n := range []int64{0, size - 1, size + 1} {
		if err := f.Truncate(n); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("size changed from %d to %d: %v", size, n, err)
		}
	}
	if flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("descriptor flags %#x: %v", flags, err)
	}
	if _, err := CreateAnonymous(strings.Repeat("x", 300), size); err == nil {
		t.Error("a name of 300 bytes")
	}
}

func TestMap(t *testing.T) {
	page := pagemem.PageSize()
	for _, size := range []int64{page, pagemem.HugePage - page, pagemem.HugePage, 2*pagemem.HugePage + page} {
		f := temp(t, size)
		a, err := Map(f, size)
		if err != nil {
			t.Fatal(err)
		}
		b, err := Map(f, size)
		if err != nil {
			t.Fatal(err)
		}
		if base := uintptr(unsafe.Pointer(&a[0])); size >= pagemem.HugePage && base%pagemem.HugePage != 0 {
			t.Errorf("%d bytes at %#x", size, base)
		}
		if err := Populate(f, a, 2); err != nil {
			t.Error(err)
		}
		for _, i := range []int64{0, size / 2, size - 1} {
			if a[i]++; b[i] != 1 {
				t.Errorf("byte %d of %d is not shared", i, size)
			}
		}
		if err := errors.Join(pagemem.Unmap(a), pagemem.Unmap(b)); err != nil {
			t.Error(err)
		}
	}
	f := temp(t, page)
	for _, size := range []int64{-page, 0, 1, page + 1, 1 << 62, 1<<62 + page} {
		if mem, err := Map(f, size); err == nil {
			t.Errorf("mapped %d bytes for %d", len(mem), size)
		}
	}
	readOnly, err := os.Open(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer readOnly.Close()
	if _, err := Map(readOnly, page); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("mapped a file opened for reading: %v", err)
	}
	if err := Close(f); err != nil {
		t.Error(err)
	}
	for what, err := range map[string]error{
		"map":       second(Map(f, page)),
		"duplicate": second(Duplicate(f)),
		"lock":      second(Lock(f)),
	} {
		if !errors.Is(err, os.ErrClosed) {
			t.Errorf("%s after close: %v", what, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// Processes and goroutines count up without losing a step.
func TestLock(t *testing.T) {
	const processes, goroutines, steps = 3, 3, 100
	count := func(path string) error {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		defer Close(f)
		var group sync.WaitGroup
		failed := make([]error, goroutines)
		for g := range goroutines {
			group.Go(func() {
				failed[g] = func() error {
					for range steps {
						unlock, err := Lock(f)
						if err != nil {
							return err
						}
						var b [8]byte
						f.ReadAt(b[:], 0)
						runtime.Gosched()
						n := binary.LittleEndian.Uint64(b[:])
						binary.LittleEndian.PutUint64(b[:], n+1)
						_, err = f.WriteAt(b[:], 0)
						unlock()
						if err != nil {
							return err
						}
					}
					return nil
				}()
			})
		}
		group.Wait()
		return errors.Join(failed...)
	}
	if path := os.Getenv("PINION_SHMEM_COUNT"); path != "" {
		if err := count(path); err != nil {
			t.Fatal(err)
		}
		return
	}
	f := temp(t, 8)
	var group sync.WaitGroup
	for range processes - 1 {
		group.Go(func() {
			child := exec.Command(os.Args[0], "-test.run=^TestLock$")
			child.Env = append(os.Environ(), "PINION_SHMEM_COUNT="+f.Name())
			if out, err := child.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	if err := count(f.Name()); err != nil {
		t.Error(err)
	}
	group.Wait()
	b, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	if n := binary.LittleEndian.Uint64(b); n != processes*goroutines*steps {
		t.Errorf("counted %d of %d", n, processes*goroutines*steps)
	}
}

// Who waits in vain learns for whom, and a lock goes with its process.
func TestLockOfAnother(t *testing.T) {
	if path := os.Getenv("PINION_SHMEM_HOLD"); path != "" {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Lock(f); err != nil {
			t.Fatal(err)
		}
		fmt.Println("held")
		os.Stdin.Read(make([]byte, 1)) // until it is killed, or the parent is
	}
	defer func(d time.Duration) { patience = d }(patience)
	f := temp(t, 8)
	child := exec.Command(os.Args[0], "-test.run=^TestLockOfAnother$")
	child.Env = append(os.Environ(), "PINION_SHMEM_HOLD="+f.Name())
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var said string
	if _, err := fmt.Fscan(out, &said); err != nil || said != "held" {
		t.Errorf("%q, %v", said, err)
	}
	patience = 5 * time.Millisecond
	_, err = Lock(f)
	if want := fmt.Sprintf("process %d has held it", child.Process.Pid); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
	// While one waits, other files can be locked.
	other := temp(t, 8)
	patience = time.Hour
	waiting := make(chan error, 1)
	go func() {
		unlock, err := Lock(f)
		if err == nil {
			unlock()
		}
		waiting <- err
	}()
	time.Sleep(5 * time.Millisecond) // for it to begin
	testkit.OK(t, testkit.Within(t, "the lock of another file", func() error {
		unlock, err := Lock(other)
		if err == nil {
			unlock()
		}
		return err
	}))
	child.Process.Kill()
	child.Wait()
	testkit.OK(t, testkit.Receive(t, "the lock of a process that is gone", waiting))
}

// Closing another descriptor of a locked file waits: it would unlock.
func TestCloseKeepsLock(t *testing.T) {
	if path := os.Getenv("PINION_SHMEM_PROBE"); path != "" {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		lock := unix.Flock_t{Type: unix.F_WRLCK}
		if err := record(f, unix.F_GETLK, &lock); err != nil {
			t.Fatal(err)
		}
		fmt.Println("locked:", lock.Type != unix.F_UNLCK)
		return
	}
	f := temp(t, 8)
	other, err := Duplicate(f)
	if err != nil {
		t.Fatal(err)
	}
	unlock, err := Lock(f)
	if err != nil {
		t.Fatal(err)
	}
	closed := make(chan error)
	go func() { closed <- Close(other) }()
	time.Sleep(5 * time.Millisecond) // in which a Close that does not wait would be done
	child := exec.Command(os.Args[0], "-test.run=^TestCloseKeepsLock$")
	child.Env = append(os.Environ(), "PINION_SHMEM_PROBE="+f.Name())
	out, err := child.CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "locked: true") {
		t.Errorf("%v: %s", err, out)
	}
	unlock()
	if err := <-closed; err != nil {
		t.Error(err)
	}
}
