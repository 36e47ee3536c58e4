package timeline

import (
	"bytes"
	"errors"
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

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/internal/cupti"
	"github.com/pinion-gpu/pinion/internal/dl"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// A process loads CUDA and CUPTI once, so this is done in another, with stand-ins.
func TestOthers(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("CUPTI is looked for on Linux")
	}
	cuda, err := filepath.Glob("../device/cuda/testdata/fakecuda/*.c")
	testkit.OK(t, err)
	libraries := []string{
		"PINION_DEVICE=cuda:0", "PINION_LIB_NVML=off", "PINION_LIB_CUDA=" + testkit.Library(t, "libfakecuda.so", cuda...),
		"PINION_LIB_CUPTI=" + testkit.Library(t, "libfakecupti.so", "-pthread", "../internal/cupti/testdata/fakecupti/fakecupti.c"),
	}
	for _, test := range []struct{ name, more string }{{"TestChildOthers", ""}, {"TestChildManyStreams", ""}, {"TestChildNoOthers", "FAKECUPTI_BUSY=1"}, {"TestChildNoClock", "FAKECUPTI_FAIL=cuptiGetTimestamp=7"}} {
		c := exec.Command(os.Args[0], "-test.run=^"+test.name+"$", "-test.v", "-test.timeout=10m")
		c.Env = append(append(os.Environ(), "GORACE=atexit_sleep_ms=0", "OTHERS_TEST="+test.name, test.more), libraries...)
		text, err := c.CombinedOutput()
		if err != nil || !strings.Contains(string(text), "--- PASS: "+test.name) {
			t.Fatalf("%v\n%s", err, text)
		}
	}
}

func inOthers(t *testing.T) {
	t.Helper()
	if os.Getenv("OTHERS_TEST") != t.Name() {
		t.Skip("a part of TestOthers")
	}
}

// CUPTI's numbers of what the stand-in makes up.
const cuptiCopy, cuptiSet, cuptiKernel = 1, 2, 10

func fakeWork(t *testing.T) (work dl.Func) {
	t.Helper()
	_, err := dl.Open(dl.Library{Name: "cupti", Symbols: []dl.Symbol{{Name: "fake_work", Func: &work}}})
	testkit.OK(t, err)
	return work
}

// Work of others is recorded with its times, and Pinion's own once.
func TestChildOthers(t *testing.T) {
	inOthers(t)
	r := start(t, Options{Others: true})
	testkit.OK(t, r.Others())
	dev := open(t, r)
	work := fakeWork(t)
	s, err := dev.NewStream()
	testkit.OK(t, err)
	device.Label(s, "ours")
	p, err := dev.Alloc(4096)
	testkit.OK(t, err)
	testkit.OK(t, s.CopyH2D(p, make([]byte, 4096)))
	native, ok := device.As[device.Native](dev)
	if !ok {
		t.Fatal("no handles")
	}
	var own uintptr // as the stand-in numbers it
	testkit.OK(t, native.WithStream(s, func(handle uintptr) error { own = uintptr(uint32(handle >> 4)); return nil }))
	work.Call(cuptiCopy, 1, 0, own, 0, 1000, 4096, 0) // CUPTI tells of that copy, too
	mangled := dl.CString("_ZN2at6native3addIfEEvPT_i")
	before := r.Now()
	work.Call(cuptiKernel, 0, 0, 7, 0, 50_000, 0, uintptr(unsafe.Pointer(mangled)))
	after := r.Now()
	work.Call(cuptiCopy, 2, 0, 13, 0, 20_000, 1<<20, 0)
	work.Call(cuptiSet, 0, 1, 7, 0, 1, 256, 0)
	work.Call(cuptiCopy, 9, 0, 7, 0, 1, 1, 0)        // within the host
	work.Call(cuptiCopy, 1, 0, 7, 100, 200, 4096, 0) // long ago
	testkit.OK(t, s.Synchronize())
	time.Sleep(2 * anchorEvery) // for the clocks to be compared again
	r.Stop()

	var others []Span
	ours := 0
	for _, x := range r.Spans(0, 1000) {
		if strings.HasPrefix(x.Row, "other stream") {
			others = append(others, x)
		} else if x.Engine == H2D && x.Row == "ours" {
			ours++
		}
	}
	if ours != 1 {
		t.Errorf("our copy is told of %d times", ours)
	}
	if len(others) != 3 {
		t.Fatalf("%+v", others)
	}
	slices.SortFunc(others, func(a, b Span) int { return strings.Compare(a.Group+a.Row, b.Group+b.Row) })
	copied, kernel, set := others[0], others[1], others[2]
	if copied.Group != "cuda:0" || copied.Row != "other stream 13" || copied.Engine != D2H || copied.Bytes != 1<<20 || copied.Name != "copy d2h" {
		t.Errorf("%+v", copied)
	}
	if kernel.Group != "cuda:0" || kernel.Row != "other stream 7" || kernel.Engine != Compute || !slices.Contains([]string{"at::native::add<float>", "_ZN2at6native3addIfEEvPT_i"}, kernel.Name) {
		t.Errorf("%+v", kernel)
	}
	if set.Group != "cuda:1" || set.Engine != Compute || set.Bytes != 256 || set.Name != "memset" {
		t.Errorf("%+v", set)
	}
	rep := r.Report()
	checkReport(t, rep)
	if rep.LostRecords != 1 || rep.OthersError != "" || len(rep.Devices) != 2 {
		t.Errorf("%+v", rep)
	}
	// It ended between the two looks at the clock, and took as long as it says.
	bound := rep.Devices[0].ClockErrorSeconds + 1e-9
	if end := kernel.EndSeconds; end < before.Seconds()-bound || end > after.Seconds()+bound {
		t.Errorf("ended at %v, called from %v to %v, give or take %v", end, before, after, bound)
	}
	if took := kernel.EndSeconds - kernel.StartSeconds; took < 49e-6 || took > 51e-6 {
		t.Errorf("took %v s", took)
	}
	x := checkTrace(t, written(t, r))
	if n := len(x.spansOf("cuda:1")); n != 1 {
		t.Errorf("%d spans of cuda:1", n)
	}
	testkit.OK(t, dev.Free(p))
	testkit.OK(t, s.Close())
}

// Streams that CUPTI makes up for the kernels of a graph do not have a row each.
func TestChildManyStreams(t *testing.T) {
	inOthers(t)
	r := start(t, Options{Others: true})
	testkit.OK(t, r.Others())
	work := fakeWork(t)
	name := dl.CString("k")
	const streams = 100
	for n := range uintptr(streams) {
		for range 2 {
			work.Call(cuptiKernel, 0, 0, 7+n, 0, 1000, 0, uintptr(unsafe.Pointer(name)))
		}
	}
	work.Call(cuptiKernel, 0, 1, 7, 0, 1000, 0, uintptr(unsafe.Pointer(name)))
	r.Stop()
	rows := map[string]int{}
	for _, x := range r.Spans(0, 1000) {
		rows[x.Group+" "+x.Row]++
	}
	if len(rows) != mostStreams+2 || rows["cuda:0 other streams"] != 2*(streams-mostStreams) || rows["cuda:1 other stream 7"] != 1 {
		t.Errorf("%d rows: %v", len(rows), rows)
	}
}

// Without CUPTI's clock its work is not recorded, also where some is told already.
func TestChildNoClock(t *testing.T) {
	inOthers(t)
	testkit.OK(t, cupti.Open())
	work := fakeWork(t)
	quit := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		for {
			select {
			case <-quit:
				return
			default:
				work.Call(cuptiSet, 0, 0, 7, 1000, 2000, 256, 0)
			}
		}
	})
	for range 300 {
		r := start(t, Options{Others: true})
		var failed *cupti.Error
		if err := r.Others(); !errors.As(err, &failed) || failed.Call != "cuptiGetTimestamp" {
			t.Errorf("others: %v", err)
		}
		r.Stop()
		if list := r.Spans(0, 10); len(list) != 0 {
			t.Errorf("%+v", list)
		}
	}
	close(quit)
	all.Wait()
}

// On a GPU, work on a device that is wrapped is told of once, and beside it all other.
func TestOthersMachine(t *testing.T) {
	plain := devicetest.Open(t)
	if native, ok := device.As[device.Native](plain); !ok || native.API() != device.CUDA {
		t.Skip("no GPU of NVIDIA's")
	}
	if err := cupti.Open(); err != nil {
		t.Skip(err)
	}
	r := start(t, Options{Others: true})
	testkit.OK(t, r.Others())
	const n, ours, theirs = 1 << 20, 10, 7
	work := func(dev device.Device, times int) {
		t.Helper()
		s, err := dev.NewStream()
		testkit.OK(t, err)
		device.Label(s, "ours")
		p, err := dev.Alloc(2 * n)
		testkit.OK(t, err)
		for range times {
			testkit.OK(t, s.CopyD2D(p.Add(n), p, n))
			testkit.OK(t, s.Memset(p, 1, n))
		}
		testkit.OK(t, s.Synchronize())
		testkit.OK(t, s.Close())
		testkit.OK(t, dev.Free(p))
	}
	begun := r.Now().Seconds()
	work(open(t, r), ours)
	work(plain, theirs)
	ended := r.Now().Seconds()
	r.Stop()
	type key struct {
		engine Engine
		other  bool
	}
	got := map[key]int{}
	for _, x := range r.Spans(0, 10000) {
		if x.Engine != D2D && x.Engine != Compute || x.Bytes != n {
			continue
		}
		got[key{x.Engine, x.Row != "ours"}]++
		if bound := 1e-3; x.StartSeconds < begun-bound || x.EndSeconds > ended+bound || x.EndSeconds < x.StartSeconds {
			t.Errorf("%+v, between %v and %v", x, begun, ended)
		}
	}
	for k, want := range map[key]int{{D2D, false}: ours, {Compute, false}: ours, {D2D, true}: theirs, {Compute, true}: theirs} {
		if got[k] != want {
			t.Errorf("%s, by CUPTI %v: %d, want %d; all %v", k.engine, k.other, got[k], want, got)
		}
	}
	if rep := r.Report(); rep.LostRecords > 0 {
		t.Errorf("%d records were lost", rep.LostRecords)
	}
}

// Without CUPTI everything else is recorded, and the report says why.
func TestChildNoOthers(t *testing.T) {
	inOthers(t)
	r := start(t, Options{Others: true})
	if !errors.Is(r.Others(), cupti.ErrBusy) {
		t.Error(r.Others())
	}
	dev := open(t, r)
	s, err := dev.NewStream()
	testkit.OK(t, err)
	p, err := dev.Alloc(4096)
	testkit.OK(t, err)
	testkit.OK(t, s.CopyH2D(p, make([]byte, 4096)))
	testkit.OK(t, s.Close())
	r.Stop()
	rep := r.Report()
	if len(rep.Devices) != 1 || len(rep.Devices[0].Engines) != 1 || !strings.Contains(rep.OthersError, "MULTIPLE_SUBSCRIBERS") {
		t.Errorf("%+v", rep)
	}
	var text bytes.Buffer
	testkit.OK(t, rep.Write(&text))
	if !strings.Contains(text.String(), "The work of other libraries is not in it: cuptiSubscribe") {
		t.Error(text.String())
	}
	testkit.OK(t, dev.Free(p))
}

// A recording that does not ask for the work of others says nothing of it.
func TestOthersOff(t *testing.T) {
	r := start(t, Options{})
	if r.Others() == nil || r.Report().OthersError != "" {
		t.Errorf("%v, %+v", r.Others(), r.Report())
	}
}

func TestKernelName(t *testing.T) {
	for name, want := range map[string]string{
		"":                                 "kernel",
		"plain":                            "plain",
		"f(int)":                           "f",
		"void f<int>(int*, g(*)(int))":     "f<int>",
		"void a::b<(lambda)#1>::c(int)":    "a::b<(lambda)#1>::c",
		"ends with )":                      "ends with )",
		"(all)":                            "kernel",
		strings.Repeat("x", longestName+1): strings.Repeat("x", longestName) + "…",
	} {
		if got := kernelName(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
