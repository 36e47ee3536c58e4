package cublaslt

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	_ "github.com/pinion-gpu/pinion/device/all"
)

// noDevice says why there is no device to test on.
var noDevice string

// onGPU: the tests run on a GPU with the real library, and not on stand-ins.
var onGPU = os.Getenv("PINION_DEVICE") != ""

// fake is the file of the stand-ins.
var fake string

// TestMain puts stand-ins in the place of the driver and of cuBLASLt, unless
// PINION_DEVICE names a device.
func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if onGPU {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "cublaslt")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	fake = filepath.Join(dir, "libfake.so")
	text, err := exec.Command("cc", "-shared", "-fPIC", "-pthread", "-O2", "-Wall", "-Werror", "-o", fake,
		"testdata/fakecublaslt/fakecublaslt.c", "../../device/cuda/testdata/fakecuda/fakecuda.c").CombinedOutput()
	if err != nil {
		noDevice = fmt.Sprintf("the stand-ins for CUDA and cuBLASLt are for Linux with a C compiler: %v\n%s", err, text)
	}
	for name, value := range map[string]string{"PINION_DEVICE": "cuda:0", "PINION_LIB_CUDA": fake,
		"PINION_LIB_CUBLASLT": fake, "PINION_LIB_NVML": "off"} {
		if err := os.Setenv(name, value); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return m.Run()
}
