package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/internal/testkit"
)

// fakeCUDA makes the stand-in for the CUDA driver that package cuda's tests use
// the one of this test, and sets what is simulated: NAME=VALUE.
func fakeCUDA(t *testing.T, env ...string) {
	t.Helper()
	sources, err := filepath.Glob("../../device/cuda/testdata/fakecuda/*.c")
	ok(t, err)
	library := testkit.Library(t, "libfakecuda.so", sources...)
	t.Setenv("PINION_LIB_CUDA", library)
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		t.Setenv(name, value)
	}
}

// A driver that cannot register host memory (error 801) does not end the
// measurement: ordinary memory is measured, and the rest has its reason.
func TestBenchLinkWithoutRegistration(t *testing.T) {
	fakeCUDA(t, "FAKECUDA_FAIL=cuMemHostRegister_v2=801")
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	commands := []string{"bench link", "bench link --curves"}
	if testing.Short() {
		commands = commands[:1]
	}
	for _, args := range commands {
		r := process(t, nil, strings.Fields(args+" --device cuda:0 --size 1MiB --repeats 2")...)
		if r.code != exitDone || !strings.Contains(r.stdout, "pageable") || strings.Count(r.stdout, "Not available: ") == 0 {
			t.Errorf("%s: exit code %d\n%s%s", args, r.code, r.stdout, r.stderr)
		}
	}
}
