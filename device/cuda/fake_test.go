package cuda_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/cuda"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// buildFake compiles the stand-in for the CUDA driver in testdata/fakecuda.
func buildFake(t *testing.T, flags ...string) string {
	t.Helper()
	sources, err := filepath.Glob("testdata/fakecuda/*.c")
	testkit.OK(t, err)
	return testkit.Library(t, "libfakecuda.so", append(flags, sources...)...)
}

// inChild runs one test of this binary in a process of its own, because a
// process loads the driver once.
func inChild(t *testing.T, test string, environment ...string) {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run=^"+test+"$", "-test.v", "-test.timeout=10m")
	child.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0") // or it sleeps for a second
	child.Env = append(child.Env, environment...)
	text, err := child.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if !strings.Contains(string(text), "--- PASS: "+test) {
		t.Fatalf("%s did not run:\n%s", test, text)
	}
}

func TestFake(t *testing.T) {
	inChild(t, "TestConformance", "PINION_DEVICE=cuda:0", "PINION_LIB_CUDA="+buildFake(t), "PINION_LIB_NVML=off")
}

// TestFakeBatch does batches with the call of CUDA 12, and looks at a driver
// that has neither.
func TestFakeBatch(t *testing.T) {
	old := buildFake(t, "-DFAKECUDA_WITHOUT_BATCH_13")
	for _, test := range []string{"batch", "batch-order", "batch-goroutines", "batch-arguments"} {
		t.Run(test, func(t *testing.T) {
			inChild(t, "TestConformance/"+test, "PINION_DEVICE=cuda:0", "PINION_LIB_CUDA="+old, "PINION_LIB_NVML=off")
		})
	}
	t.Run("absent", func(t *testing.T) {
		older := buildFake(t, "-DFAKECUDA_WITHOUT_BATCH_13", "-DFAKECUDA_WITHOUT_BATCH_12")
		inChild(t, "TestFakeBatchAbsentChild", "PINION_LIB_CUDA="+older, "WITHOUT_BATCH=1", "PINION_LIB_NVML=off")
	})
}

// A driver from before CUDA 12.5 has no events behind all streams.
func TestFakeRecordAllAbsent(t *testing.T) {
	old := buildFake(t, "-DFAKECUDA_WITHOUT_RECORD_ALL")
	for _, test := range []string{"capabilities", "record-all-errors"} {
		inChild(t, "TestConformance/"+test, "PINION_DEVICE=cuda:0", "PINION_LIB_CUDA="+old, "PINION_LIB_NVML=off")
	}
}

// A capture that the call has made invalid is said to be the reason.
func TestFakeRecordAllCapturing(t *testing.T) {
	inChild(t, "TestFakeRecordAllCapturingChild", "PINION_LIB_CUDA="+buildFake(t), "PINION_LIB_NVML=off", "FAKECUDA_FAIL=cuCtxRecordEvent=900")
}

func TestFakeRecordAllCapturingChild(t *testing.T) {
	if os.Getenv("FAKECUDA_FAIL") != "cuCtxRecordEvent=900" {
		t.Skip("a part of TestFakeRecordAllCapturing")
	}
	dev, err := cuda.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	e, err := dev.NewEvent(device.EventNoTiming)
	if err != nil {
		t.Fatal(err)
	}
	if err := dev.RecordAll(e); err == nil || !strings.Contains(err.Error(), "captured into a graph") {
		t.Errorf("%v", err)
	}
	for _, handle := range []uintptr{2, 12345} { // the default stream of each thread, and none
		if _, err := dev.StreamOf(handle); !errors.Is(err, device.ErrArgument) {
			t.Errorf("StreamOf(%d): %v", handle, err)
		}
	}
}

// While others capture a graph in the global mode, calls that might wait are
// refused, unless the program said that there are captures.
func TestFakeBesideCaptures(t *testing.T) {
	inChild(t, "TestFakeBesideCapturesChild", "PINION_LIB_CUDA="+buildFake(t), "PINION_LIB_NVML=off", "FAKECUDA_CAPTURING=1")
}

func TestFakeBesideCapturesChild(t *testing.T) {
	if os.Getenv("FAKECUDA_CAPTURING") == "" {
		t.Skip("a part of TestFakeBesideCaptures")
	}
	dev, err := cuda.Open(0)
	testkit.OK(t, err)
	defer dev.Close()
	if _, err := dev.Alloc(4096); err == nil {
		t.Fatal("the stand-in allows everything")
	}
	cuda.BesideCaptures()
	p, err := dev.Alloc(4096)
	testkit.OK(t, err)
	testkit.OK(t, dev.Free(p))
	e, err := dev.NewEvent(device.EventNoTiming)
	testkit.OK(t, err)
	_, err = e.Done()
	testkit.OK(t, err)
}

// A driver from before CUDA 11.4 makes no graphs of what is recorded.
func TestFakeCaptureAbsent(t *testing.T) {
	old := buildFake(t, "-DFAKECUDA_WITHOUT_GRAPHS")
	for _, test := range []string{"capabilities", "record-all"} {
		inChild(t, "TestConformance/"+test, "PINION_DEVICE=cuda:0", "PINION_LIB_CUDA="+old, "PINION_LIB_NVML=off")
	}
	inChild(t, "TestFakeCaptureAbsentChild", "WITHOUT_GRAPHS=1", "PINION_LIB_CUDA="+old, "PINION_LIB_NVML=off")
}

func TestFakeCaptureAbsentChild(t *testing.T) {
	if os.Getenv("WITHOUT_GRAPHS") == "" {
		t.Skip("a part of TestFakeCaptureAbsent")
	}
	dev := testkit.Must(cuda.Open(0))(t)
	defer dev.Close()
	s := testkit.Must(dev.NewStream())(t)
	if dev.CanCapture() || dev.Capturing(s) {
		t.Error("a driver without the calls can capture")
	}
	_, err := dev.Capture(s, func() error { return nil })
	testkit.WantError(t, "a capture", err, device.ErrNotSupported)
}

// A graph that the driver cannot make leaves the stream as it was.
func TestFakeCaptureFails(t *testing.T) {
	fake := buildFake(t)
	for _, call := range []string{"cuStreamBeginCapture_v2", "cuGraphInstantiateWithFlags", "cuGraphUpload"} {
		inChild(t, "TestFakeCaptureFailsChild", "PINION_LIB_CUDA="+fake, "PINION_LIB_NVML=off", "FAKECUDA_FAIL="+call+"=2")
	}
}

func TestFakeCaptureFailsChild(t *testing.T) {
	call, _, _ := strings.Cut(os.Getenv("FAKECUDA_FAIL"), "=")
	if !strings.HasSuffix(os.Getenv("FAKECUDA_FAIL"), "=2") || !strings.Contains(call, "Capture") && !strings.Contains(call, "Graph") {
		t.Skip("a part of TestFakeCaptureFails")
	}
	dev := testkit.Must(cuda.Open(0))(t)
	s := testkit.Must(dev.NewStream())(t)
	p := testkit.Must(dev.Alloc(4096))(t)
	_, err := dev.Capture(s, func() error { return s.Memset(p, 1, 4096) })
	testkit.WantError(t, call, err, device.ErrOutOfMemory)
	if dev.Capturing(s) {
		t.Error("the stream is still being captured")
	}
	testkit.OK(t, s.Memset(p, 1, 4096))
	testkit.OK(t, s.Synchronize())
	testkit.OK(t, dev.Close()) // and nothing is left
}

// Copies of memory that is not pinned are refused in a capture, to which that does no harm.
func TestFakeCapturePageable(t *testing.T) {
	inChild(t, "TestFakeCapturePageableChild", "PINION_LIB_CUDA="+buildFake(t), "PINION_LIB_NVML=off", "PAGEABLE=1")
}

func TestFakeCapturePageableChild(t *testing.T) {
	if os.Getenv("PAGEABLE") == "" {
		t.Skip("a part of TestFakeCapturePageable")
	}
	dev := testkit.Must(cuda.Open(0))(t)
	s := testkit.Must(dev.NewStream())(t)
	p, b := testkit.Must(dev.Alloc(4096))(t), make([]byte, 4096)
	g, err := dev.Capture(s, func() error {
		testkit.WantError(t, "a copy of pageable memory", s.CopyH2D(p, b), device.ErrArgument)
		testkit.WantError(t, "a copy to pageable memory", s.CopyD2H(b, p), device.ErrArgument)
		return nil
	})
	testkit.OK(t, err)
	testkit.OK(t, g.Launch(s))
	testkit.OK(t, s.CopyD2H(b, p))
	testkit.OK(t, dev.Close()) // closes the graph
	testkit.OK(t, g.Close())
}

func TestFakeBatchAbsentChild(t *testing.T) {
	if os.Getenv("WITHOUT_BATCH") == "" {
		t.Skip("a part of TestFakeBatch")
	}
	dev, err := cuda.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	s, err := dev.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	if dev.CanCopyBatch() || slices.Contains(device.Capabilities(dev), "batch") {
		t.Error("a driver without the call can copy batches")
	}
	if err := dev.CopyBatch(s, nil); !errors.Is(err, device.ErrNotSupported) {
		t.Errorf("%v, want %q", err, device.ErrNotSupported)
	}
}

// TestFakePeers copies between two GPUs, with peer access and without.
func TestFakePeers(t *testing.T) {
	fake := buildFake(t)
	for name, setting := range map[string]string{"access": "FAKECUDA_PEERS=1", "no access": "FAKECUDA_PEERS=0"} {
		t.Run(name, func(t *testing.T) {
			inChild(t, "TestPeers", "PINION_DEVICE=cuda:0", "PINION_LIB_CUDA="+fake, "PINION_LIB_NVML=off",
				"FAKECUDA_DEVICES=2", setting)
		})
	}
}

// TestUnavailable opens devices that do not work: each gives one sentence that
// says why, and "auto" goes on to the host with that reason.
func TestUnavailable(t *testing.T) {
	fake := buildFake(t)
	maimed := buildFake(t, "-DFAKECUDA_WITHOUT_MEMALLOC")
	for _, c := range []struct {
		name    string
		device  string
		driver  string
		setting string
		want    string
	}{
		{"no driver", "cuda:0", "/nonexistent/libcuda.so.1", "", "driver"},
		{"switched off", "cuda:0", "off", "", "PINION_LIB_CUDA"},
		{"symbol missing", "cuda:0", maimed, "", "cuMemAlloc_v2"},
		{"too old", "cuda:0", fake, "FAKECUDA_VERSION=9000", "9.0"},
		{"no GPU", "cuda:0", fake, "FAKECUDA_DEVICES=0", "no GPU"},
		{"no GPU by name", "cuda", fake, "FAKECUDA_FAIL=cuInit=100", "no GPU"},
		{"driver broken", "cuda:0", fake, "FAKECUDA_FAIL=cuInit=999", "cuInit: CUDA_ERROR_UNKNOWN (999)"},
		{"unknown code", "cuda:0", fake, "FAKECUDA_FAIL=cuInit=12345", "12345"},
		{"GPU full", "cuda:0", fake, "FAKECUDA_FAIL=cuDevicePrimaryCtxRetain=2", "memory"},
		{"name unreadable", "cuda:0", fake, "FAKECUDA_FAIL=cuDeviceGetName=101", "cuDeviceGetName"},
		{"no such index", "cuda:7", fake, "", "cuda:7"},
		{"one too far", "cuda:2", fake, "FAKECUDA_DEVICES=2", "cuda:2"},
		{"negative index", "cuda:-1", fake, "", "-1"},
		{"not an index", "cuda:x", fake, "", `"x"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			inChild(t, "TestUnavailableChild", "PINION_LIB_CUDA="+c.driver, c.setting,
				"UNAVAILABLE_DEVICE="+c.device, "UNAVAILABLE_WANT="+c.want)
		})
	}
}

func TestUnavailableChild(t *testing.T) {
	name, want := os.Getenv("UNAVAILABLE_DEVICE"), os.Getenv("UNAVAILABLE_WANT")
	if name == "" {
		t.Skip("a part of TestUnavailable")
	}
	_, err := device.Open(name)
	if !errors.Is(err, device.ErrUnavailable) {
		t.Fatalf("%v, want %q", err, device.ErrUnavailable)
	}
	if text := err.Error(); !strings.Contains(text, want) || strings.Contains(text, "\n") || len(text) > 250 {
		t.Errorf("%q, want one sentence with %q", text, want)
	}
	t.Log(err)

	best, passed, bestErr := device.Best()
	if bestErr != nil {
		t.Fatal(bestErr)
	}
	defer best.Close()
	if strings.HasPrefix(name, "cuda:") && name != "cuda:0" {
		// The first GPU is there, only the one asked for is not.
		if kind := best.Info().Backend; kind != "cuda" || passed != nil {
			t.Errorf("auto opens %q, passing over %v", kind, passed)
		}
		return
	}
	if kind := best.Info().Backend; kind != "host" {
		t.Errorf("auto opens %q, want the host", kind)
	}
	if passed == nil || passed.Error() != err.Error() || !errors.Is(passed, device.ErrUnavailable) {
		t.Errorf("auto passed over %v, want %v", passed, err)
	}
}

// TestDriverErrors checks that a driver's error carries the call, its name and
// its code, and fits the sentinels.
func TestDriverErrors(t *testing.T) {
	inChild(t, "TestDriverErrorsChild", "PINION_LIB_CUDA="+buildFake(t),
		"FAKECUDA_FAIL=cuMemAlloc_v2=2,cuStreamSynchronize=700,cuMemAllocManaged=801")
}

func TestDriverErrorsChild(t *testing.T) {
	if !strings.Contains(os.Getenv("FAKECUDA_FAIL"), "cuStreamSynchronize=700") {
		t.Skip("a part of TestDriverErrors")
	}
	dev, err := cuda.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	s, err := dev.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	_, outOfMemory := dev.Alloc(4096)
	_, _, unsupported := dev.AllocManaged(4096, device.ManagedOptions{})
	for _, c := range []struct {
		err  error
		call string
		code int
		is   error
	}{
		{outOfMemory, "cuMemAlloc", 2, device.ErrOutOfMemory},
		{unsupported, "cuMemAllocManaged", 801, device.ErrNotSupported},
		{s.Synchronize(), "cuStreamSynchronize", 700, nil},
	} {
		var e *cuda.Error
		if !errors.As(c.err, &e) || e.Call != c.call || e.Code != c.code {
			t.Errorf("%v, want code %d of %s", c.err, c.code, c.call)
		}
		if c.is != nil && !errors.Is(c.err, c.is) {
			t.Errorf("%v is not %q", c.err, c.is)
		}
	}
	if text := outOfMemory.Error(); !strings.Contains(text, "4096") || !strings.Contains(text, "CUDA_ERROR_OUT_OF_MEMORY") {
		t.Errorf("%q lacks the numbers or the driver's name for it", text)
	}
}
