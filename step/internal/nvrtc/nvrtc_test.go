package nvrtc_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/step/internal/nvrtc"
)

const add = `extern "C" __global__ void add(float *y, const float *x, float a, long long n) {
	for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += (long long)gridDim.x * blockDim.x) y[i] += a * x[i];
}`

// On a GPU with NVRTC, what is compiled runs.
func TestOnDevice(t *testing.T) {
	dev := devicetest.Open(t)
	launcher, ok := device.As[device.Launcher](dev)
	if !ok || launcher.ImageFormat() != device.PTX {
		t.Skip("it runs no compiled kernels")
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	const n = 1000
	source := nvrtc.Source{Name: "add.cu", Text: add, Arch: dev.Info().ComputeCapability}
	for range 2 { // compiled, and from disk
		image, err := nvrtc.Compile(source)
		if errors.Is(err, device.ErrNotSupported) {
			t.Skip(err)
		}
		testkit.OK(t, err)
		module, err := launcher.LoadModule(image)
		testkit.OK(t, err)
		kernel, err := module.Kernel("add")
		testkit.OK(t, err)
		s, err := dev.NewStream()
		testkit.OK(t, err)
		p, err := dev.Alloc(8 * n)
		testkit.OK(t, err)
		x := make([]float32, 2*n)
		for i := range n {
			x[i], x[n+i] = float32(i), 1
		}
		host, _ := dataset.Bytes(x)
		testkit.OK(t, s.CopyH2D(p, host))
		var args device.Args
		args.Ptr(p).Ptr(p + 4*n).Float32(0.5).Int64(n)
		testkit.OK(t, kernel.Launch(s, device.Grid{BlocksX: 3, Threads: 128}, &args))
		testkit.OK(t, s.CopyD2H(host, p))
		testkit.OK(t, s.Synchronize())
		for i := range n {
			if x[i] != float32(i)+0.5 {
				t.Fatalf("element %d is %v", i, x[i])
			}
		}
		testkit.OK(t, errors.Join(s.Close(), dev.Free(p), module.Close()))
	}
	source.Text = "this is no kernel"
	var failed *nvrtc.Error
	if _, err := nvrtc.Compile(source); !errors.As(err, &failed) || !strings.Contains(failed.Log, "add.cu") {
		t.Errorf("what is no source: %v", err)
	}
}

// child runs one test of this binary on a stand-in for the library, in a process
// of its own, because a process loads it once.
func child(t *testing.T, test, file string, environment ...string) {
	t.Helper()
	c := exec.Command(os.Args[0], "-test.run=^"+test+"$", "-test.v", "-test.timeout=10m")
	c.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", "NVRTC_TEST="+test, "PINION_LIB_NVRTC="+file)
	c.Env = append(c.Env, environment...)
	text, err := c.CombinedOutput()
	if err != nil || !strings.Contains(string(text), "--- PASS: "+test) {
		t.Fatalf("%v\n%s", err, text)
	}
}

func inChild(t *testing.T) {
	t.Helper()
	if os.Getenv("NVRTC_TEST") != t.Name() {
		t.Skip("a part of TestStandIn")
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
}

func TestStandIn(t *testing.T) {
	file := testkit.Library(t, "libfakenvrtc.so", "testdata/fakenvrtc/fakenvrtc.c")
	child(t, "TestChildCompiles", file)
	child(t, "TestChildStacks", file)
	child(t, "TestChildOld", file, "FAKENVRTC_VERSION=11.8")
	child(t, "TestChildFails", file, "FAKENVRTC_FAIL=nvrtcGetCUBINSize")
	child(t, "TestChildMissing", "off")
}

func TestChildCompiles(t *testing.T) {
	inChild(t)
	major, minor, err := nvrtc.Version()
	if err != nil || major != 13 || minor != 0 {
		t.Errorf("version %d.%d, %v", major, minor, err)
	}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			text := fmt.Sprintf("source %d", i%4)
			image, err := nvrtc.Compile(nvrtc.Source{Name: "a.cu", Text: text, Arch: [2]int{9, 0}, Options: []string{"--fmad=false"}})
			want := "CUBIN\n--gpu-architecture=sm_90 --std=c++17 --fmad=false \n" + text + "\n\x00"
			if err != nil || string(image) != want {
				t.Errorf("%q, %v; want %q", image, err, want)
			}
		})
	}
	all.Wait()
	for arch, want := range map[[2]int]string{{13, 0}: "compute_120", {8, 6}: "compute_75", {10, 3}: "compute_90"} {
		image, err := nvrtc.Compile(nvrtc.Source{Name: "a.cu", Text: "new", Arch: arch})
		if err != nil || !strings.HasPrefix(string(image), "PTX\n--gpu-architecture="+want+" ") {
			t.Errorf("for a device %v that the library does not know: %q, %v", arch, image, err)
		}
	}
	_, err = nvrtc.Compile(nvrtc.Source{Text: "old", Arch: [2]int{7, 0}})
	testkit.WantError(t, "for a device that is too old", err, device.ErrNotSupported, "7.5", "7.0")
	var failed *nvrtc.Error
	if _, err := nvrtc.Compile(nvrtc.Source{Name: "b.cu", Text: "#error", Arch: [2]int{9, 0}}); !errors.As(err, &failed) ||
		failed.Log != "b.cu(1): error: as asked" || !strings.Contains(err.Error(), failed.Log) {
		t.Errorf("what does not compile: %v", err)
	}
	if _, err := nvrtc.Compile(nvrtc.Source{Text: "x"}); !errors.Is(err, device.ErrArgument) {
		t.Errorf("for no architecture: %v", err)
	}
	keeps(t)
}

// deeper calls fn with so many more frames on the stack.
//
//go:noinline
func deeper(frames int, fn func()) (sum byte) {
	var frame [48]byte
	if frames > 0 {
		sum = deeper(frames-1, fn)
	} else {
		fn()
	}
	return sum + frame[frames%len(frame)]
}

// The library writes where it is told to, wherever a goroutine's stack is when it
// has to grow and moves.
func TestChildStacks(t *testing.T) {
	inChild(t)
	var all sync.WaitGroup
	for frames := range 400 {
		all.Go(func() {
			deeper(frames, func() {
				text := fmt.Sprint("source ", frames)
				if image, err := nvrtc.Compile(nvrtc.Source{Name: "a.cu", Text: text, Arch: [2]int{9, 0}}); err != nil || !strings.Contains(string(image), text) {
					t.Errorf("%d frames: %q, %v", frames, image, err)
				}
			})
		})
	}
	all.Wait()
}

// keeps: what was compiled comes from disk, but not what is damaged there.
func keeps(t *testing.T) {
	source := nvrtc.Source{Name: "c.cu", Text: "kept", Arch: [2]int{9, 0}}
	dir := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", dir)
	want := testkit.Must(nvrtc.Compile(source))(t)
	files, err := filepath.Glob(filepath.Join(dir, "pinion", "kernel-*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files %v, %v", files, err)
	}
	whole := testkit.ReadFile(t, files[0])
	for _, damaged := range []string{"", whole[:len(whole)/2], strings.Replace(whole, `"image": "`, `"image": "AAAA`, 1), strings.Replace(whole, `"key": "`, `"key": "AAAA`, 1)} {
		testkit.OK(t, os.WriteFile(files[0], []byte(damaged), 0o644))
		if got := testkit.Must(nvrtc.Compile(source))(t); string(got) != string(want) {
			t.Errorf("after damage: %q", got)
		}
		if now := testkit.ReadFile(t, files[0]); now != whole {
			t.Error("what is damaged was not written again")
		}
	}
}

func TestChildOld(t *testing.T) {
	inChild(t)
	_, err := nvrtc.Compile(nvrtc.Source{Text: "x", Arch: [2]int{9, 0}})
	testkit.WantError(t, "an old library", err, device.ErrNotSupported, "CUDA 11.8", "12.0")
}

func TestChildFails(t *testing.T) {
	inChild(t)
	var failed *nvrtc.Error
	if _, err := nvrtc.Compile(nvrtc.Source{Text: "x", Arch: [2]int{9, 0}}); !errors.As(err, &failed) || failed.Call != "nvrtcGetCUBINSize" || failed.Code != 11 {
		t.Errorf("got %v", err)
	}
}

func TestChildMissing(t *testing.T) {
	inChild(t)
	_, err := nvrtc.Compile(nvrtc.Source{Text: "x", Arch: [2]int{9, 0}})
	testkit.WantError(t, "no library", err, device.ErrNotSupported, "no NVRTC library")
}
