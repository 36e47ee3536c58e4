package cupti

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/pinion-gpu/pinion/internal/dl"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// The library is loaded once for a process, so each case has its own.
func child(t *testing.T, test string, environment ...string) {
	t.Helper()
	c := exec.Command(os.Args[0], "-test.run=^"+test+"$", "-test.v", "-test.timeout=10m")
	c.Env = append(append(os.Environ(), "GORACE=atexit_sleep_ms=0", "CUPTI_TEST="+test), environment...)
	text, err := c.CombinedOutput()
	if err != nil || !strings.Contains(string(text), "--- PASS: "+test) {
		t.Fatalf("%v\n%s", err, text)
	}
}

func inChild(t *testing.T) {
	t.Helper()
	if os.Getenv("CUPTI_TEST") != t.Name() {
		t.Skip("a part of TestFake")
	}
}

func TestFake(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("CUPTI is looked for on Linux")
	}
	file := "PINION_LIB_CUPTI=" + testkit.Library(t, "libfakecupti.so", "-pthread", "testdata/fakecupti/fakecupti.c")
	for _, version := range []string{"18", "26", "130001", "130201"} {
		child(t, "TestChildRecords", file, "FAKECUPTI_VERSION="+version)
	}
	child(t, "TestChildThreads", file)
	child(t, "TestChildBad", file)
	child(t, "TestChildTwice", file)
	child(t, "TestChildBusy", file, "FAKECUPTI_BUSY=1")
	for _, version := range []string{"17", "100", "120000", "140000"} {
		child(t, "TestChildVersion", file, "FAKECUPTI_VERSION="+version)
	}
	for _, call := range []string{"cuptiActivityRegisterCallbacks", "cuptiActivityEnable", "cuptiGetVersion"} {
		child(t, "TestChildFails", file, "FAKECUPTI_FAIL="+call+"=7")
	}
	child(t, "TestChildOff", "PINION_LIB_CUPTI=off")
}

// faked are the functions of the stand-in that make up work.
type faked struct{ work, raw, storm dl.Func }

func fake(t *testing.T) (f faked) {
	t.Helper()
	_, err := dl.Open(dl.Library{Name: "cupti", Symbols: []dl.Symbol{
		{Name: "fake_work", Func: &f.work}, {Name: "fake_raw", Func: &f.raw}, {Name: "fake_storm", Func: &f.storm},
	}})
	testkit.OK(t, err)
	return f
}

// collected is what a tracer told.
type collected struct {
	sync.Mutex
	list []Work
}

func (c *collected) sink(list []Work) {
	c.Lock()
	defer c.Unlock()
	c.list = append(c.list, list...)
}

// names are strings that C may keep.
var names = map[string]*byte{}

func name(s string) uintptr {
	if names[s] == nil {
		names[s] = dl.CString(s)
	}
	return uintptr(unsafe.Pointer(names[s]))
}

func TestChildRecords(t *testing.T) {
	inChild(t)
	f := fake(t)
	var got collected
	tr, err := Start(got.sink)
	testkit.OK(t, err)
	now, err := tr.Now()
	testkit.OK(t, err)
	start := uintptr(now)
	f.work.Call(kindKernel, 0, 1, 7, start, start+10, 0, name("_Zkernel"))
	f.work.Call(kindMemcpy, copyH2D, 0, 13, start+1, start+11, 4096, 0)
	f.work.Call(kindMemcpy, copyD2H, 0, 14, start+2, start+12, 1<<40, 0)
	f.work.Call(kindMemcpy, 8, 0, 15, start+3, start+13, 1, 0)
	f.work.Call(kindMemcpy, copyH2H, 0, 15, start+4, start+13, 1, 0)
	f.work.Call(kindMemcpy2, copyP2P, 3, 16, start+5, start+15, 2, 0)
	f.work.Call(kindMemset, 0, 2, 17, start+6, start+6, 512, 0)
	testkit.OK(t, tr.Stop())
	testkit.OK(t, tr.Stop())
	f.work.Call(kindKernel, 0, 1, 7, start, start+10, 0, name("behind the end"))
	want := []Work{
		{Kernel, "_Zkernel", 1, 7, now, now + 10, 0},
		{H2D, "", 0, 13, now + 1, now + 11, 4096},
		{D2H, "", 0, 14, now + 2, now + 12, 1 << 40},
		{D2D, "", 0, 15, now + 3, now + 13, 1},
		{H2H, "", 0, 15, now + 4, now + 13, 1},
		{P2P, "", 3, 16, now + 5, now + 15, 2},
		{Memset, "", 2, 17, now + 6, now + 6, 512},
	}
	// Calls may come from several threads, each with a buffer of its own.
	slices.SortFunc(got.list, func(a, b Work) int { return cmp.Compare(a.Start, b.Start) })
	if !slices.Equal(got.list, want) || tr.Dropped() != 0 || tr.Refused() != 0 {
		t.Errorf("%+v, want %+v; %d dropped, %d refused", got.list, want, tr.Dropped(), tr.Refused())
	}
	if id, err := tr.StreamID(0x1230); id != 0x123 || err != nil {
		t.Errorf("stream %#x, %v", id, err)
	}
}

// Buffers are asked for on many threads that Go did not make and that end, and given
// back on others, while the collector runs. Nothing is lost that is not counted.
func TestChildThreads(t *testing.T) {
	inChild(t)
	f := fake(t)
	const rounds, threads, each = 4, 16, 20_000 // more than a buffer holds
	for round := range rounds {
		var got collected
		tr, err := Start(got.sink)
		testkit.OK(t, err)
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() { f.storm.Call(threads, each) })
		}
		quit := make(chan struct{})
		go func() {
			for {
				select {
				case <-quit:
					return
				default:
					runtime.GC()
				}
			}
		}()
		all.Wait()
		close(quit)
		testkit.OK(t, tr.Stop())
		if n := int64(len(got.list)) + tr.Dropped(); n != 2*threads*each || tr.Refused() > 0 || len(got.list) < threads*each/4 {
			t.Fatalf("round %d: %d records and %d dropped, want %d; %d refused", round, len(got.list), tr.Dropped(), 2*threads*each, tr.Refused())
		}
		for _, w := range got.list {
			if w.Name != "storm" || w.End-w.Start != 100 || w.Stream != 7 {
				t.Fatalf("%+v", w)
			}
		}
	}
	b := &buffers
	b.Lock()
	defer b.Unlock()
	if len(b.taken) > 0 || len(b.free) != b.made || b.made > mostBuffers {
		t.Errorf("%d buffers are with CUPTI and %d free, of %d", len(b.taken), len(b.free), b.made)
	}
}

// Records that cannot be true are refused and counted.
func TestChildBad(t *testing.T) {
	inChild(t)
	f := fake(t)
	var got collected
	tr, err := Start(got.sink)
	testkit.OK(t, err)
	f.work.Call(kindKernel, 0, 0, 7, 100, 99, 0, name("ends before it begins"))
	f.work.Call(kindKernel, 0, 0, 7, 1<<63, 1<<63, 0, name("negative"))
	f.work.Call(kindMemcpy, copyH2D, 0, 7, 100, 200, 1<<63, 0)
	zero := make([]byte, 216)
	binary.LittleEndian.PutUint32(zero, kindKernel)
	f.raw.Call(uintptr(unsafe.Pointer(&zero[0])), 216) // no times
	f.work.Call(kindKernel, 0, 0, 7, 100, 200, 0, name("good"))
	short := make([]byte, 40) // less than its fields, at the end of the buffer
	binary.LittleEndian.PutUint32(short, kindKernel)
	binary.LittleEndian.PutUint64(short[16:], 100)
	binary.LittleEndian.PutUint64(short[24:], 200)
	f.raw.Call(uintptr(unsafe.Pointer(&short[0])), 40)
	testkit.OK(t, tr.Stop())
	if len(got.list) != 1 || got.list[0].Name != "good" || tr.Refused() != 5 {
		t.Errorf("%+v; %d refused", got.list, tr.Refused())
	}
}

// There is one tracer at a time, and another one later.
func TestChildTwice(t *testing.T) {
	inChild(t)
	f := fake(t)
	for i := range 3 {
		var got collected
		tr, err := Start(got.sink)
		testkit.OK(t, err)
		if _, err := Start(got.sink); !errors.Is(err, ErrBusy) {
			t.Errorf("a second tracer: %v", err)
		}
		f.work.Call(kindKernel, 0, 0, 7, 100, 200, 0, name(fmt.Sprint(i)))
		testkit.OK(t, tr.Stop())
		if len(got.list) != 1 || got.list[0].Name != fmt.Sprint(i) {
			t.Errorf("%d: %+v", i, got.list)
		}
	}
}

func TestChildBusy(t *testing.T) {
	inChild(t)
	for range 2 {
		_, err := Start(func([]Work) {})
		testkit.WantError(t, "busy", err, ErrBusy, "cuptiSubscribe", "MULTIPLE_SUBSCRIBERS", "39")
	}
}

func TestChildVersion(t *testing.T) {
	inChild(t)
	_, err := Start(func([]Work) {})
	testkit.WantError(t, "version", err, ErrVersion, os.Getenv("FAKECUPTI_VERSION"))
}

// What fails while it begins leaves nothing behind.
func TestChildFails(t *testing.T) {
	inChild(t)
	call, _, _ := strings.Cut(os.Getenv("FAKECUPTI_FAIL"), "=")
	_, err := Start(func([]Work) {})
	var e *Error
	if !errors.As(err, &e) || e.Call != call || e.Code != 7 || errors.Is(err, ErrBusy) {
		t.Fatalf("%v", err)
	}
	testkit.OK(t, os.Unsetenv("FAKECUPTI_FAIL"))
	if call == "cuptiGetVersion" {
		return // it stays so
	}
	tr, err := Start(func([]Work) {}) // Go's runtime tells C of the environment
	testkit.OK(t, err)
	testkit.OK(t, tr.Stop())
}

// TestMachine traces nothing where there is a CUPTI.
func TestMachine(t *testing.T) {
	if !strings.HasPrefix(os.Getenv("PINION_DEVICE"), "cuda") {
		t.Skip("there is no GPU to trace")
	}
	if err := Open(); err != nil {
		t.Skip(err)
	}
	for range 2 {
		tr, err := Start(func([]Work) {})
		testkit.OK(t, err)
		first, err := tr.Now()
		testkit.OK(t, err)
		second, err := tr.Now()
		testkit.OK(t, err)
		if first <= 0 || second < first {
			t.Errorf("%d, then %d", first, second)
		}
		testkit.OK(t, tr.Stop())
	}
}

func TestChildOff(t *testing.T) {
	inChild(t)
	_, err := Start(func([]Work) {})
	testkit.WantError(t, "off", err, dl.ErrNotFound, "PINION_LIB_CUPTI")
}
