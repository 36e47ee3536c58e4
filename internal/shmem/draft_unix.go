//go:build linux || darwin

package shmem

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// createTemp makes the file under a name of its own beside path.
func createTemp(path string, size int64) (*Draft, error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return nil, fmt.Errorf("shmem: %w", err)
	}
	return resize(&Draft{File: f, temp: f.Name()}, size)
}

func resize(d *Draft, size int64) (*Draft, error) {
	if err := d.File.Truncate(size); err != nil {
		return nil, errors.Join(fmt.Errorf("shmem: size of %d bytes: %w", size, err), d.Discard(), Close(d.File))
	}
	return d, nil
}
