//go:build unix

package top

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/monitor/local"
)

var ctx = context.Background()

// TestMain makes the test binary a process that offers its snapshot until its input
// ends, where a test asks for one.
func TestMain(m *testing.M) {
	if os.Getenv("PINION_TEST_OFFER") == "" {
		os.Exit(m.Run())
	}
	if _, err := local.Offer(ctx, local.Options{}); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("offered")
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

func offering(t *testing.T) *exec.Cmd {
	t.Helper()
	c := exec.Command(testkit.Must(os.Executable())(t), "an argument", "\x1b[2J")
	c.Env = append(os.Environ(), "PINION_TEST_OFFER=1")
	in := testkit.Must(c.StdinPipe())(t)
	out := testkit.Must(c.StdoutPipe())(t)
	testkit.OK(t, c.Start())
	t.Cleanup(func() {
		_ = c.Process.Signal(syscall.SIGCONT)
		_ = in.Close()
		_ = c.Wait()
	})
	line := make([]byte, 256)
	n, _ := out.Read(line)
	if string(line[:n]) != "offered\n" {
		t.Fatalf("%q", line[:n])
	}
	return c
}

// Looks see processes that come, stop and go.
func TestLook(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("for systems with /proc")
	}
	base := testkit.Must(os.MkdirTemp("/tmp", "pn"))(t)
	t.Cleanup(func() { os.RemoveAll(base) })
	t.Setenv("PINION_TOP", filepath.Join(base, "s"))
	t.Setenv("PINION_LIB_NVML", "off")
	l := NewLooker()
	usual := l.patience
	l.patience = testkit.Hang // a process on a busy machine does answer
	look := testkit.Must(l.Look(ctx))(t)
	if look.Processes == nil || len(look.Processes) != 0 || look.GPUs == nil || look.Seconds != 0 || look.CPUs == 0 {
		t.Errorf("%+v", look)
	}
	child := offering(t)
	look = testkit.Must(l.Look(ctx))(t)
	if len(look.Processes) != 1 || look.Seconds <= 0 {
		t.Fatalf("%+v", look)
	}
	p := look.Processes[0]
	if p.PID != child.Process.Pid || p.Snapshot == nil || p.Snapshot.PID != p.PID || p.delta != nil || p.ResidentBytes <= 0 ||
		!strings.HasSuffix(p.Command, "an argument \x1b[2J") {
		t.Errorf("%+v", p)
	}
	testkit.Eventually(t, "a snapshot that is newer", func() bool { // the same serves for a moment
		look = testkit.Must(l.Look(ctx))(t)
		return look.Processes[0].delta != nil
	})
	text, err := json.Marshal(look)
	testkit.OK(t, err)
	var doc map[string]any
	testkit.OK(t, json.Unmarshal(text, &doc))
	for _, key := range []string{"measured_at", "version", "cpus", "seconds", "machine", "gpus", "processes", "not_available"} {
		if doc[key] == nil {
			t.Errorf("no %s", key)
		}
	}
	l.patience = usual
	testkit.OK(t, child.Process.Signal(syscall.SIGSTOP))
	// The signal stops the threads one by one: one that is awake may still answer.
	testkit.Eventually(t, "a stopped process that does not answer", func() bool {
		look = testkit.Must(l.Look(ctx))(t)
		p := look.Processes[0]
		return p.Snapshot == nil && strings.Contains(p.SnapshotReason, "does not answer")
	})
	testkit.OK(t, child.Process.Kill())
	_ = child.Wait()
	if look = testkit.Must(l.Look(ctx))(t); len(look.Processes) != 0 {
		t.Errorf("a killed process: %+v", look.Processes)
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	_, err = l.Look(over)
	testkit.WantError(t, "a context that is over", err, context.Canceled)
}

func TestProc(t *testing.T) {
	was := proc
	defer func() { proc = was }()
	for text, want := range map[string]cpuTimes{
		"cpu  10 1 5 100 7 1 2 3 50 50\ncpu0 1 1 1 1\n": {22, 129}, "cpu 1 2 3 4\n": {6, 10}, "": {}, "cpu": {}, "cpu 1 2 x 4 5\n": {}, "gpu 1 2 3 4\n": {},
	} {
		if got := parseCPU(text); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	if got := (cpuTimes{30, 150}).busySince(cpuTimes{22, 130}); got == nil || *got != 0.4 {
		t.Error(got)
	}
	for _, earlier := range []cpuTimes{{}, {30, 150}, {40, 140}} {
		if got := (cpuTimes{30, 150}).busySince(earlier); got != nil {
			t.Errorf("%v: %v", earlier, *got)
		}
	}
	stat := "5 (a) b) R 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0 1 0 300 1000 25 9\n"
	files := fstest.MapFS{"5/stat": {Data: []byte(stat)}, "5/cmdline": {Data: []byte("/bin/x\x00a b\x00\xff\x00\x00")},
		"6/stat": {Data: []byte("6 (x) R 1")}, "loadavg": {Data: []byte("0.5 1 2.25 1/2 3\n")}}
	proc = files
	a, known := readProcess(5)
	if want := (about{"/bin/x a b \uFFFD", int64(25 * os.Getpagesize()), 2 * time.Second}); !known || a != want {
		t.Errorf("%+v %v", a, known)
	}
	for _, pid := range []int{6, 7} {
		if _, known := readProcess(pid); known {
			t.Errorf("process %d is known", pid)
		}
	}
	if got := loadAverages(); !reflect.DeepEqual(got, []float64{0.5, 1, 2.25}) {
		t.Error(got)
	}
	files["loadavg"] = &fstest.MapFile{Data: []byte("a b c")}
	if got := loadAverages(); got != nil {
		t.Error(got)
	}
}

// A driver that holds its call does not hold the view, and is said to do so.
func TestWedgedDriver(t *testing.T) {
	r := newGPUReader()
	answer := make(chan struct{})
	r.last.gpus = []GPU{{Name: "old"}}
	asked := 0
	r.ask = func() ([]GPU, []Missing) {
		asked++
		<-answer
		return []GPU{{Name: "new"}}, nil
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	gpus, missing := r.read(over)
	if len(gpus) != 1 || gpus[0].Name != "old" || len(missing) != 0 {
		t.Errorf("%v %v", gpus, missing)
	}
	r.since = time.Now().Add(-2 * gpuWedged)
	gpus, missing = r.read(over)
	if len(gpus) != 1 || len(missing) != 1 || !strings.Contains(missing[0].Reason, "does not answer") {
		t.Errorf("%v %v", gpus, missing)
	}
	close(answer)
	testkit.Eventually(t, "the answer", func() bool {
		gpus, missing = r.read(ctx)
		return gpus[0].Name == "new"
	})
	if len(missing) != 0 || asked < 1 {
		t.Errorf("%v, asked %d times", missing, asked)
	}
}

// TestGPUs asks a stand-in for NVIDIA's library, each time in a process of its own.
func TestGPUs(t *testing.T) {
	file := testkit.Library(t, "libfakenvml.so", "../../../../internal/nvml/testdata/fakenvml/fakenvml.c")
	for _, environment := range [][]string{
		{"TOP_TEST=all", "FAKENVML_DEVICES=2", "FAKENVML_PROCESSES=2", "FAKENVML_REASONS=4"},
		{"TOP_TEST=lost", "FAKENVML_DEVICES=2", "FAKENVML_FAIL=nvmlDeviceGetMemoryInfo=15,nvmlDeviceGetMemoryInfo_v2=15"},
		{"TOP_TEST=off", "PINION_LIB_NVML=off"},
	} {
		c := exec.Command(testkit.Must(os.Executable())(t), "-test.run=^TestChildGPUs$", "-test.v")
		c.Env = append(append(os.Environ(), "PINION_LIB_NVML="+file), environment...)
		if text, err := c.CombinedOutput(); err != nil || !strings.Contains(string(text), "--- PASS: TestChildGPUs") {
			t.Errorf("%v: %v\n%s", environment, err, text)
		}
	}
}

func TestChildGPUs(t *testing.T) {
	r := newGPUReader()
	gpus, missing := r.read(ctx)
	for r.pending != nil { // the library takes its time
		gpus, missing = r.read(ctx)
	}
	switch os.Getenv("TOP_TEST") {
	case "":
		t.Skip("a part of TestGPUs")
	case "off":
		if gpus == nil || len(gpus) != 0 || len(missing) != 1 || missing[0].Name != "gpus" {
			t.Errorf("%+v %+v", gpus, missing)
		}
		return
	case "lost":
		if len(gpus) != 2 || !strings.Contains(gpus[0].Reason, "off the bus") {
			t.Errorf("%+v %+v", gpus, missing)
		}
		return
	}
	if len(gpus) != 2 || len(missing) != 0 {
		t.Fatalf("%+v %+v", gpus, missing)
	}
	g := gpus[1]
	if g.Index != 1 || g.Name == "" || g.UUID == "" || g.MemoryTotalBytes <= g.MemoryUsedBytes || g.MemoryUsedBytes <= 0 || g.BusyFraction == nil ||
		g.H2DGBPerS == nil || g.D2HGBPerS == nil || g.Link == nil || g.Link.Width != 16 || g.TemperatureC <= 0 || g.PowerLimitWatts < g.PowerWatts ||
		!strings.Contains(g.SlowReason, "power") || len(g.Processes) != 2 || g.Processes[0].PID != 1000 {
		t.Errorf("%+v", g)
	}
}
