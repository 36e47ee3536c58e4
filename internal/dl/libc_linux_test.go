package dl_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/pinion-gpu/pinion/internal/dl"
)

// libc is what the tests call.
type libc struct {
	getpid, abs, strlen, memcpy, memcmp, strdup, free, bsearch, syscall, missing dl.Func
}

func (c *libc) library(files ...string) dl.Library {
	return dl.Library{Name: "testc", Files: files, Symbols: []dl.Symbol{
		{Name: "getpid", Func: &c.getpid},
		{Name: "abs", Func: &c.abs},
		{Name: "strlen", Func: &c.strlen},
		{Name: "memcpy", Func: &c.memcpy},
		{Name: "memcmp", Func: &c.memcmp},
		{Name: "strdup", Func: &c.strdup},
		{Name: "free", Func: &c.free},
		{Name: "bsearch", Func: &c.bsearch},
		{Name: "syscall", Func: &c.syscall},
		{Name: "pinion_no_such_function", Func: &c.missing, Optional: true},
	}}
}

// glibc is the file of the C library on common systems.
const glibc = "libc.so.6"

func openC(t testing.TB) *libc {
	t.Helper()
	var c libc
	_, err := dl.Open(c.library(glibc))
	if errors.Is(err, dl.ErrNotFound) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return &c
}

func TestOpen(t *testing.T) {
	openC(t) // or skip
	for _, c := range []struct {
		name     string
		files    []string
		override string
		want     string
	}{
		{"first file", []string{glibc, noFile}, "", glibc},
		{"next file", []string{noFile, noFile + ".1", glibc}, "", glibc},
		{"override", []string{noFile}, glibc, glibc},
		{"override where there is no file", nil, glibc, glibc},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("PINION_LIB_TESTC", c.override)
			var l libc
			l.missing = 1
			file, err := dl.Open(l.library(c.files...))
			if err != nil || file != c.want {
				t.Fatalf("opened %q, %v, want %q", file, err, c.want)
			}
			if l.missing.Ok() {
				t.Error("an optional function that the library lacks is not zero")
			}
			if pid := l.getpid.Call(); int(pid) != os.Getpid() {
				t.Errorf("getpid is %d, want %d", pid, os.Getpid())
			}
		})
	}
}

// A required function that is missing fails the load, names every such one,
// and leaves no function behind that a caller might use.
func TestOpenMissingRequired(t *testing.T) {
	openC(t)
	var a, b, getpid, optional dl.Func
	file, err := dl.Open(dl.Library{Name: "testc", Files: []string{glibc}, Symbols: []dl.Symbol{
		{Name: "getpid", Func: &getpid},
		{Name: "pinion_no_such_a", Func: &a},
		{Name: "pinion_no_such_optional", Func: &optional, Optional: true},
		{Name: "pinion_no_such_b", Func: &b},
	}})
	if !errors.Is(err, dl.ErrNotFound) || file != "" {
		t.Fatalf("opened %q, %v, want %q", file, err, dl.ErrNotFound)
	}
	for _, part := range []string{glibc, "pinion_no_such_a", "pinion_no_such_b"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not name %q", err, part)
		}
	}
	if strings.Contains(err.Error(), "optional") {
		t.Errorf("%q names a function that may be missing", err)
	}
	if getpid.Ok() || a.Ok() || b.Ok() || optional.Ok() {
		t.Error("a failed load left functions")
	}
}

// A file that is no library is like none: the next one is tried.
func TestOpenBrokenFile(t *testing.T) {
	openC(t)
	broken := filepath.Join(t.TempDir(), "libbroken.so")
	if err := os.WriteFile(broken, []byte("\x7fELF and nothing that follows"), 0o755); err != nil {
		t.Fatal(err)
	}
	var c libc
	if file, err := dl.Open(c.library(broken)); !errors.Is(err, dl.ErrNotFound) || !strings.Contains(err.Error(), broken) {
		t.Errorf("opened %q, %v, want %q and the file's name", file, err, dl.ErrNotFound)
	}
	if file, err := dl.Open(c.library(broken, glibc)); err != nil || file != glibc {
		t.Errorf("opened %q, %v, want %q", file, err, glibc)
	}
}

func TestCall(t *testing.T) {
	c := openC(t)
	minus5 := int32(-5)
	if got := c.abs.Call(uintptr(minus5)); int32(got) != 5 {
		t.Errorf("abs(-5) = %d", got)
	}
	for _, s := range []string{"", "a", strings.Repeat("x", 5000)} {
		if got := c.strlen.Call(uintptr(unsafe.Pointer(dl.CString(s)))); int(got) != len(s) {
			t.Errorf("strlen of %d bytes = %d", len(s), got)
		}
	}
	// syscall(2) passes its arguments on, those that travel on the stack
	// included: mmap with all seven, then munmap.
	const protReadWrite, mapPrivateAnonymous = 3, 0x22
	mmap, munmap := uintptr(9), uintptr(11)
	if runtime.GOARCH == "arm64" {
		mmap, munmap = 222, 215
	}
	const n = 1 << 16
	p := c.syscall.Call(mmap, 0, n, protReadWrite, mapPrivateAnonymous, ^uintptr(0), 0)
	if int(p) == -1 || p == 0 {
		t.Fatalf("mmap by seven arguments = %#x", p)
	}
	b := unsafe.Slice((*byte)(dl.Pointer(p)), n)
	b[0], b[n-1] = 1, 2
	if r := c.syscall.Call(munmap, p, n); r != 0 {
		t.Errorf("munmap = %#x", r)
	}
}

// Strings that C owns are copied.
func TestGoString(t *testing.T) {
	c := openC(t)
	for _, s := range []string{"", "a", "länger", strings.Repeat("x", 70_000)} {
		p := c.strdup.Call(uintptr(unsafe.Pointer(dl.CString(s))))
		got := dl.GoString(p)
		if p != 0 && s != "" {
			*(*byte)(dl.Pointer(p)) = '!'
		}
		c.free.Call(p)
		if got != s {
			t.Errorf("%d bytes came back as %d: %.20q", len(s), len(got), got)
		}
	}
}

func TestCallMissing(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("calling a missing function did not panic")
		}
	}()
	dl.Func(0).Call(1, 2)
}

// Memory that only the argument list of a call refers to stays alive and in
// place until the call returns, though the collector runs and the stack moves
// in the midst of it.
func TestPointersStayAlive(t *testing.T) {
	c := openC(t)
	const n = 1000
	var collected atomic.Bool
	table := func() *[n]int64 {
		x := new([n]int64)
		for i := range x {
			x[i] = int64(3 * i)
		}
		runtime.AddCleanup(x, func(struct{}) { collected.Store(true) }, struct{}{})
		return x
	}
	compared := 0
	compare := purego.NewCallback(func(key, element uintptr) uintptr {
		compared++
		churn(200)
		runtime.GC()
		if collected.Load() {
			t.Error("collected under the call")
		}
		a, b := *(*int64)(dl.Pointer(key)), *(*int64)(dl.Pointer(element))
		switch {
		case a < b:
			return ^uintptr(0)
		case a > b:
			return 1
		}
		return 0
	})
	for _, want := range []int64{0, 3 * 499, 3 * (n - 1)} {
		compared = 0
		collected.Store(false)
		key := want // on this stack, unless the call moves it off
		at := c.bsearch.Call(uintptr(unsafe.Pointer(&key)), uintptr(unsafe.Pointer(table())), n, 8, compare)
		if at == 0 || compared == 0 {
			t.Fatalf("%d not found after %d comparisons", want, compared)
		}
		// And no longer than that.
		for i := 0; !collected.Load(); i++ {
			if i == 1000 {
				t.Fatal("the table stays after the call")
			}
			runtime.GC()
			runtime.Gosched()
		}
	}
}

// churn moves the stack and litters the heap.
func churn(depth int) int {
	var frame [256]int64
	for i := range frame {
		frame[i] = int64(depth)
	}
	if depth == 0 {
		return 0
	}
	litter := make([]int64, 1000)
	for i := range litter {
		litter[i] = -1
	}
	sink.Store(&litter)
	return churn(depth-1) + int(frame[depth%256])
}

var sink atomic.Pointer[[]int64]

// Many goroutines call with memory that nothing else refers to, while the
// collector runs all the time.
func TestCallUnderCollection(t *testing.T) {
	c := openC(t)
	stop := make(chan struct{})
	var collector sync.WaitGroup
	collector.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				runtime.GC()
			}
		}
	})
	var workers sync.WaitGroup
	for w := range 4 {
		workers.Go(func() {
			for i := range 300 {
				n := 1 + (w*977+i*131)%5000
				if got := c.strlen.Call(uintptr(unsafe.Pointer(dl.CString(strings.Repeat("s", n))))); int(got) != n {
					t.Errorf("strlen of %d bytes = %d", n, got)
					return
				}
				var to [64]byte // on this stack, unless the call moves it off
				from := slices.Repeat([]byte{byte(i)}, len(to))
				c.memcpy.Call(uintptr(unsafe.Pointer(&to)), uintptr(unsafe.Pointer(&from[0])), uintptr(len(to)))
				churn(20)
				if r := c.memcmp.Call(uintptr(unsafe.Pointer(&to)), uintptr(unsafe.Pointer(&from[0])), uintptr(len(to))); r != 0 {
					t.Errorf("memcpy of %d bytes of %d brought %v", len(to), byte(i), to)
					return
				}
			}
		})
	}
	workers.Wait()
	close(stop)
	collector.Wait()
}

// A call with integers allocates its list of arguments at most: the compiler
// takes every list of a function that keeps pointers alive off the stack.
func TestCallAllocates(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes pools forget")
	}
	c := openC(t)
	var handle uintptr = 7
	for _, f := range []struct {
		name string
		most float64
		call func()
	}{
		{"no argument", 0, func() { c.getpid.Call() }},
		{"one", 1, func() { c.abs.Call(handle) }},
		{"seven", 1, func() { c.syscall.Call(^uintptr(0), handle, handle, handle, handle, handle, handle) }},
	} {
		if n := testing.AllocsPerRun(1000, f.call); n > f.most {
			t.Errorf("%s: %v allocations a call, want %v at most", f.name, n, f.most)
		}
	}
}

func BenchmarkCall(b *testing.B) {
	c := openC(b)
	b.Run("integers", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			c.abs.Call(7)
		}
	})
	b.Run("pointer", func(b *testing.B) {
		s := dl.CString("four")
		b.ReportAllocs()
		for b.Loop() {
			c.strlen.Call(uintptr(unsafe.Pointer(s)))
		}
	})
}
