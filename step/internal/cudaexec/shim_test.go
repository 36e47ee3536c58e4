package cudaexec

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/internal/dl"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// openTest opens the executor of the device that PINION_DEVICE names. Without one,
// kernels are compiled for the host by the C++ compiler, with testdata/shim.hpp in CUDA's
// place, and run there.
func openTest(t testing.TB) *executor {
	t.Helper()
	dev := devicetest.Open(t)
	var e *executor
	if _, ok := device.As[device.Launcher](dev); ok {
		x, err := Open(dev)
		if errors.Is(err, device.ErrNotSupported) {
			t.Skip(err)
		}
		testkit.OK(t, err)
		e = x.(*executor)
	} else {
		caller := devicetest.As[device.Caller](t, dev)
		compiler, err := exec.LookPath("c++")
		if err != nil || runtime.GOOS != "linux" {
			t.Skip("kernels run on the host on Linux, with a C++ compiler (c++)")
		}
		x, err := open(dev, &shim{t, caller, compiler}, func(text string) ([]byte, error) { return []byte(text), nil })
		testkit.OK(t, err)
		x.arch = [2]int{8, 0} // which has what the shim has
		e = x
	}
	t.Cleanup(func() { testkit.OK(t, e.Close()) })
	return e
}

// shim is a launcher whose images are the texts of kernels.
type shim struct {
	t        testing.TB
	caller   device.Caller
	compiler string
}

func (s *shim) ImageFormat() device.ImageFormat { return device.PTX }

func (s *shim) LoadModule(image []byte) (device.Module, error) {
	source := string(image)
	text := "#include \"shim.hpp\"\n" + source + "\n#include \"shim_f16.hpp\"\n"
	names := kernelNames(source)
	for _, launcher := range names {
		text += launcher
	}
	dir := s.t.TempDir()
	file, library := filepath.Join(dir, "kernels.cpp"), filepath.Join(dir, "kernels.so")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return nil, err
	}
	c := exec.Command(s.compiler, "-shared", "-fPIC", "-Itestdata", "-w", "-std=c++17", "-O0", "-ffp-contract=off", "-fwrapv", "-fno-strict-aliasing", "-o", library, file, "-lm")
	if text, err := c.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%v: %w\n%s", c, err, text)
	}
	m := &shimModule{s: s, functions: map[string]*dl.Func{}}
	var symbols []dl.Symbol
	for name := range names {
		f := new(dl.Func)
		m.functions[name] = f
		symbols = append(symbols, dl.Symbol{Name: name + "_launch", Func: f})
	}
	_, err := dl.Open(dl.Library{Name: "testkernels", Files: []string{library}, Symbols: symbols})
	return m, err
}

var kernelHead = regexp.MustCompile(`extern "C" __global__ void __launch_bounds__\(\d+\) (\w+)\(const (pointers<\d+>) p\)`)

// kernelNames finds the kernels of a text, and what launches them on the host.
func kernelNames(source string) map[string]string {
	names := map[string]string{}
	heads := kernelHead.FindAllStringSubmatchIndex(source, -1)
	for i, h := range heads {
		end := len(source)
		if i+1 < len(heads) {
			end = heads[i+1][0]
		}
		name, kind, text := source[h[2]:h[3]], source[h[4]:h[5]], source[h[1]:end]
		barriers := strings.Contains(text, "__syncthreads") || strings.Contains(text, "over_block<") || strings.Contains(text, "over_row<") && !strings.Contains(text, ", 1>(") ||
			strings.Contains(text, "const attention s") || strings.Contains(text, "swapped(")
		names[name] = fmt.Sprintf("LAUNCHER(%s, %s, %t)\n", name, kind, barriers)
	}
	return names
}

type shimModule struct {
	s         *shim
	functions map[string]*dl.Func
}

func (m *shimModule) Close() error { return nil }

func (m *shimModule) Kernel(name string) (device.Kernel, error) {
	f := m.functions[name]
	if f == nil {
		return nil, fmt.Errorf("there is no kernel %s", name)
	}
	return &shimKernel{m.s, *f}, nil
}

type shimKernel struct {
	s *shim
	f dl.Func
}

func (k *shimKernel) Launch(stream device.Stream, g device.Grid, args *device.Args) error {
	block := append([]byte(nil), args.Bytes()...)
	return k.s.caller.Call(stream, func() error {
		k.f.Call(uintptr(unsafe.Pointer(&block[0])), uintptr(max(g.BlocksX, 1)), uintptr(max(g.BlocksY, 1)), uintptr(max(g.BlocksZ, 1)), uintptr(g.Threads), uintptr(g.SharedBytes))
		return nil
	})
}
