package nvtx

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/pinion-gpu/pinion/internal/dl"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// A process loads a tool once.
func child(t *testing.T, test string, environment ...string) {
	t.Helper()
	c := exec.Command(os.Args[0], "-test.run=^"+test+"$", "-test.v", "-test.timeout=10m")
	c.Env = append(append(os.Environ(), "GORACE=atexit_sleep_ms=0", "NVTX_TEST="+test), environment...)
	text, err := c.CombinedOutput()
	if err != nil || !strings.Contains(string(text), "--- PASS: "+test) {
		t.Fatalf("%v\n%s", err, text)
	}
}

func inChild(t *testing.T) {
	t.Helper()
	if os.Getenv("NVTX_TEST") != t.Name() {
		t.Skip("a part of TestFake")
	}
}

func TestFake(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the stand-in is built on Linux")
	}
	file := variable + "=" + testkit.Library(t, "libfakenvtx.so", "-pthread", "testdata/fakenvtx/fakenvtx.c")
	child(t, "TestChildRanges", file)
	child(t, "TestChildNames", file)
	child(t, "TestChildNothing", file, "FAKENVTX_REFUSE=1")
	child(t, "TestChildNothing", file, "FAKENVTX_PARTLY=1")
	child(t, "TestChildNothing", variable+"=/no/such/tool.so")
	child(t, "TestChildNothing", variable+"=")
}

type faked struct{ started, ended, wrong, names dl.Func }

func fake(t *testing.T) (f faked) {
	t.Helper()
	_, err := dl.Open(dl.Library{Name: "fakenvtx", Files: []string{os.Getenv(variable)}, Symbols: []dl.Symbol{
		{Name: "fake_started", Func: &f.started}, {Name: "fake_ended", Func: &f.ended}, {Name: "fake_wrong", Func: &f.wrong}, {Name: "fake_names", Func: &f.names},
	}})
	testkit.OK(t, err)
	return f
}

// Ranges begin on some threads and end on others.
func TestChildRanges(t *testing.T) {
	inChild(t)
	f := fake(t)
	const workers, each = 8, 500
	ids := make(chan uint64, workers*each)
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for i := range each {
				ids <- Start(fmt.Sprintf("worker %d: %d", w, i%3))
				if i%50 == 0 {
					runtime.GC()
				}
			}
		})
	}
	all.Go(func() {
		for range workers * each {
			End(<-ids)
		}
	})
	all.Wait()
	if s, e, wrong := f.started.Call(), f.ended.Call(), f.wrong.Call(); s != workers*each || e != s || wrong != 0 {
		t.Errorf("%d ranges began, %d ended, %d were wrong", s, e, wrong)
	}
	names := strings.Fields(strings.ReplaceAll(dl.GoString(f.names.Call()), " ", "_"))
	count := map[string]int{}
	for _, n := range names {
		count[n]++
	}
	if len(count) != workers*3 || count["worker_7:_2"] == 0 {
		t.Errorf("%v", count)
	}
}

// Any name goes, and a program with more names than are kept goes on.
func TestChildNames(t *testing.T) {
	inChild(t)
	f := fake(t)
	End(Start("a\x00b"))
	End(Start(""))
	for i := range mostTexts + 10 {
		End(Start(fmt.Sprint(i)))
	}
	End(0)
	if s, e, wrong := f.started.Call(), f.ended.Call(), f.wrong.Call(); s != mostTexts+12 || e != s || wrong != 0 {
		t.Errorf("%d ranges began, %d ended, %d were wrong", s, e, wrong)
	}
	if n := len(tool().texts); n > mostTexts+1 {
		t.Errorf("%d names are kept", n)
	}
	if got := strings.SplitN(dl.GoString(f.names.Call()), "\n", 3); got[0] != "a" || got[1] != "" {
		t.Errorf("%q", got[:2])
	}
}

// Without a tool, or with one that cannot begin, nothing happens.
func TestChildNothing(t *testing.T) {
	inChild(t)
	if Wanted() != (os.Getenv(variable) != "") {
		t.Error("wanted?")
	}
	for range 3 {
		if id := Start("range"); id != 0 {
			t.Errorf("range %d", id)
		}
		End(5)
	}
}
