package dl_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/pinion-gpu/pinion/internal/dl"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

func TestWheels(t *testing.T) {
	root := t.TempDir()
	t.Setenv("VIRTUAL_ENV", root)
	t.Setenv("CONDA_PREFIX", "")
	wheel := filepath.Join(root, "lib", "python3.13", "site-packages", "nvidia", "component", "lib")
	testkit.WriteFile(t, "", wheel, "libx.so.0")
	testkit.WriteFile(t, "", wheel, "liby.so.0")
	if got, want := dl.Wheels("component", "libx.so.0"), []string{filepath.Join(wheel, "libx.so.0")}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	t.Setenv("VIRTUAL_ENV", "")
	python := testkit.WriteFile(t, "#!/bin/sh\n", root, "bin", "python3")
	testkit.OK(t, os.Chmod(python, 0o755))
	t.Setenv("PATH", filepath.Dir(python))
	if got, want := dl.Wheels("component", "libx.so.0"), []string{filepath.Join(wheel, "libx.so.0")}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q, by the first python3 on the path", got, want)
	}
	if got := dl.Wheels("component", "libz.so.0"); got != nil {
		t.Errorf("%q of a file that is not there", got)
	}
}
