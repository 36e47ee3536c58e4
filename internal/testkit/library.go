package testkit

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// errNoCompiler: shared libraries of tests are for Linux with a C compiler.
var errNoCompiler = errors.New("the stand-ins for C libraries need Linux and a C compiler (cc)")

// Library compiles C sources into a shared library of that name, which goes
// when the test ends, and returns its path. args are the sources, and flags
// beside the usual ones. The test is skipped where there is no C compiler.
func Library(t testing.TB, name string, args ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	err := compile(file, args)
	if errors.Is(err, errNoCompiler) {
		t.Skip(err)
	}
	OK(t, err)
	return file
}

func compile(file string, args []string) error {
	cc, err := exec.LookPath("cc")
	if err != nil || runtime.GOOS != "linux" {
		return errNoCompiler
	}
	args = append(append([]string{"-shared", "-fPIC", "-pthread", "-O1", "-Wall", "-Werror", "-o", file}, args...), "-lm")
	if text, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cc, err, text)
	}
	return nil
}

// StandIns are C libraries that the tests of a package run on where
// PINION_DEVICE names no device: one file, in the place of the CUDA driver and
// of others.
type StandIns struct {
	Libraries []string // that it stands for beside the driver, by their dl.Library's names
	Sources   []string

	File    string // that was made; "" on a real device, and where Missing is not ""
	Missing string // why there are neither stand-ins nor a device
}

// Run makes the stand-ins, runs the tests, and returns what to exit with. It is
// for TestMain.
func (s *StandIns) Run(m *testing.M) int {
	if os.Getenv("PINION_DEVICE") != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "standins")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "libstandins.so")
	switch err := compile(file, s.Sources); {
	case errors.Is(err, errNoCompiler):
		s.Missing = err.Error()
		return m.Run()
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	s.File = file
	env := map[string]string{"PINION_DEVICE": "cuda:0", "PINION_LIB_NVML": "off", "PINION_LIB_CUDA": file}
	for _, name := range s.Libraries {
		env["PINION_LIB_"+strings.ToUpper(name)] = file
	}
	for name, value := range env {
		if err := os.Setenv(name, value); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return m.Run()
}
