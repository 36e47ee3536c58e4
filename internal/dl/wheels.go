package dl

import (
	"os"
	"path/filepath"
)

// Wheels are the files of that name in NVIDIA's wheel for a component, such as "cudnn",
// wherever Python keeps packages: PyTorch brings such libraries along.
func Wheels(component, file string) (files []string) {
	for _, prefix := range []string{os.Getenv("VIRTUAL_ENV"), os.Getenv("CONDA_PREFIX"), "/usr/local", "/usr", "/opt/conda"} {
		if prefix == "" {
			continue
		}
		for _, packages := range []string{"site-packages", "dist-packages"} {
			found, _ := filepath.Glob(filepath.Join(prefix, "lib", "python3*", packages, "nvidia", component, "lib", file))
			files = append(files, found...)
		}
	}
	return files
}
