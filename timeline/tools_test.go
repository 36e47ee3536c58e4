package timeline

import (
	"context"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/internal/dl"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/loader"
)

// Tools such as Nsight Systems hear of a loader's stages, with a recording and without.
func TestTools(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the stand-in is built on Linux")
	}
	c := exec.Command(os.Args[0], "-test.run=^TestChildTools$", "-test.v", "-test.timeout=10m")
	c.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0",
		"NVTX_INJECTION64_PATH="+testkit.Library(t, "libfakenvtx.so", "-pthread", "../internal/nvtx/testdata/fakenvtx/fakenvtx.c"))
	text, err := c.CombinedOutput()
	if err != nil || !strings.Contains(string(text), "--- PASS: TestChildTools") {
		t.Fatalf("%v\n%s", err, text)
	}
}

func TestChildTools(t *testing.T) {
	file := os.Getenv("NVTX_INJECTION64_PATH")
	if file == "" {
		t.Skip("a part of TestTools")
	}
	var started, ended, wrong, names dl.Func
	_, err := dl.Open(dl.Library{Name: "fakenvtx", Files: []string{file}, Symbols: []dl.Symbol{
		{Name: "fake_started", Func: &started}, {Name: "fake_ended", Func: &ended}, {Name: "fake_wrong", Func: &wrong}, {Name: "fake_names", Func: &names},
	}})
	testkit.OK(t, err)
	last := uintptr(0)
	for _, on := range []bool{false, true} {
		dev := devicetest.Open(t)
		if on {
			dev = start(t, Options{}).Wrap(dev)
		}
		l, err := loader.New(dev, images(t, 256), loader.Options{Batch: 16, Workers: 2})
		testkit.OK(t, err)
		batches := 0
		for {
			b, err := l.Next(context.Background())
			if err == io.EOF {
				break
			}
			testkit.OK(t, err)
			testkit.OK(t, b.Release())
			batches++
		}
		testkit.OK(t, l.Close())
		if s, e := started.Call(), ended.Call(); s != e || wrong.Call() != 0 || s-last < 3*uintptr(batches) {
			t.Errorf("recorded %v: %d ranges began before, %d by now, %d ended, %d wrong", on, last, s, e, wrong.Call())
		}
		last = started.Call()
	}

	// A callback that ends the goroutine that uploads ends its range, too.
	ds := images(t, 4)
	bad, err := dataset.NewMap(ds, ds.Spec(), func(context.Context, dataset.Visit, []byte, []byte) error { return io.ErrUnexpectedEOF })
	testkit.OK(t, err)
	l, err := loader.New(devicetest.Open(t), bad, loader.Options{Batch: 2, Workers: 1, Decide: func(*loader.SampleError) loader.ErrorPolicy {
		runtime.Goexit()
		return loader.Skip
	}})
	testkit.OK(t, err)
	if _, err := l.Next(context.Background()); err == nil || !strings.Contains(err.Error(), "Goexit") {
		t.Errorf("next: %v", err)
	}
	testkit.OK(t, l.Close())
	if s, e := started.Call(), ended.Call(); s != e {
		t.Errorf("%d ranges began, %d ended", s, e)
	}

	count := map[string]int{}
	for _, name := range strings.Split(dl.GoString(names.Call()), "\n") {
		count[name]++
	}
	if count["loader consumer: wait for a batch"] == 0 || count["loader worker 1: samples"]+count["loader worker 2: samples"] == 0 {
		t.Errorf("%v", count)
	}
	uploads := 0
	for name, n := range count {
		if strings.HasPrefix(name, "loader upload ") && strings.HasSuffix(name, ": upload") {
			uploads += n
		}
	}
	if uploads != 33 {
		t.Errorf("%d uploads in %v", uploads, count)
	}
}
