package probe

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/internal/dl"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

type list []Span

func (l *list) Span(_ Row, s Span) { *l = append(*l, s) }

func TestListen(t *testing.T) {
	if tool {
		t.Fatal("a tool listens to the tests")
	}
	var row Row
	if m := Begin(row, "nobody hears"); m != (Mark{}) || present.Load() != nil {
		t.Error("nobody listens, and somebody does")
	}
	var heard, other list
	early := Begin(row, "begun while nobody listened")
	stop, err := Listen(&heard)
	testkit.OK(t, err)
	if _, err := Listen(&other); !errors.Is(err, ErrTaken) {
		t.Errorf("a second listener: %v", err)
	}
	early.End(row, Span{Name: "begun while nobody listened"})
	start := time.Now()
	Begin(row, "a").End(row, Span{Name: "a", Start: start, End: start.Add(time.Hour)})
	m := Begin(row, "b")
	done := make(chan struct{})
	go func() { m.End(row, Span{Name: "b"}); close(done) }()
	<-done
	late := Begin(row, "c")
	stop()
	late.End(row, Span{Name: "c"})
	if len(heard) != 2 || heard[0].Name != "a" || heard[0].End != start.Add(time.Hour) || heard[1].Name != "b" || heard[1].Start != m.start || heard[1].End.Before(m.start) {
		t.Errorf("heard %+v", heard)
	}
	stopOther, err := Listen(&other)
	testkit.OK(t, err)
	stop() // of one that stopped: nothing happens
	if present.Load() == nil {
		t.Error("the second stop of one listener stopped another")
	}
	stopOther()
	if present.Load() != nil {
		t.Error("somebody is left")
	}
}

// A tool hears of all spans, beside a listener and without; it is loaded with the first.
func TestTool(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the stand-in is built on Linux")
	}
	c := exec.Command(os.Args[0], "-test.run=^TestChildTool$", "-test.v", "-test.timeout=10m")
	c.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0",
		"NVTX_INJECTION64_PATH="+testkit.Library(t, "libfakenvtx.so", "-pthread", "../nvtx/testdata/fakenvtx/fakenvtx.c"))
	text, err := c.CombinedOutput()
	if err != nil || !strings.Contains(string(text), "--- PASS: TestChildTool") {
		t.Fatalf("%v\n%s", err, text)
	}
}

func TestChildTool(t *testing.T) {
	file := os.Getenv("NVTX_INJECTION64_PATH")
	if file == "" {
		t.Skip("a part of TestTool")
	}
	var ended, wrong, names dl.Func
	_, err := dl.Open(dl.Library{Name: "fakenvtx", Files: []string{file}, Symbols: []dl.Symbol{
		{Name: "fake_ended", Func: &ended}, {Name: "fake_wrong", Func: &wrong}, {Name: "fake_names", Func: &names},
	}})
	testkit.OK(t, err)
	row := Row{"loader", "worker 1"}
	Begin(row, "a").End(row, Span{Name: "a"})
	var heard list
	stop, err := Listen(&heard)
	testkit.OK(t, err)
	m := Begin(row, "b")
	stop()
	m.End(row, Span{Name: "b"}) // the tool hears of its end, too
	stop, err = Listen(&heard)
	testkit.OK(t, err)
	Begin(row, "c").End(row, Span{Name: "c"})
	stop()
	Begin(row, "d").End(row, Span{Name: "d"})
	if got, want := dl.GoString(names.Call()), "loader worker 1: a\nloader worker 1: b\nloader worker 1: c\nloader worker 1: d\n"; got != want || ended.Call() != 4 || wrong.Call() != 0 {
		t.Errorf("%q, %d ended, %d wrong", got, ended.Call(), wrong.Call())
	}
	if len(heard) != 1 || heard[0].Name != "c" {
		t.Errorf("heard %+v", heard)
	}
}

// What a package pays while nobody listens.
func BenchmarkOff(b *testing.B) {
	row := Row{"loader", "worker 1"}
	for b.Loop() {
		Begin(row, "sample").End(row, Span{Name: "sample", Bytes: 1})
	}
}
