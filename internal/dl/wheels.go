package dl

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// Wheels are the files of that name in NVIDIA's wheel for a component, such as "cudnn",
// wherever Python keeps packages: PyTorch brings such libraries along. A virtual
// environment is found by its variable, or if its python3 is the first on the path.
func Wheels(component, file string) (files []string) {
	prefixes := []string{os.Getenv("VIRTUAL_ENV"), os.Getenv("CONDA_PREFIX")}
	if python, err := exec.LookPath("python3"); err == nil {
		prefixes = append(prefixes, filepath.Dir(filepath.Dir(python)))
	}
	prefixes = append(prefixes, "/usr/local", "/usr", "/opt/conda")
	for i, prefix := range prefixes {
		if prefix == "" || slices.Contains(prefixes[:i], prefix) {
			continue
		}
		for _, packages := range []string{"site-packages", "dist-packages"} {
			found, _ := filepath.Glob(filepath.Join(prefix, "lib", "python3*", packages, "nvidia", component, "lib", file))
			files = append(files, found...)
		}
	}
	return files
}
