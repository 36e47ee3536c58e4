package shmem

import (
	"errors"
	"os"

	"github.com/pinion-gpu/pinion/internal/pagemem"
)

// CreateAnonymous fails: macOS has no files without a name.
func CreateAnonymous(string, int64) (*os.File, error) { return nil, errors.ErrUnsupported }

// Create makes a file of size zero bytes that [Draft.Publish] can name path.
// Its owner alone may open it.
func Create(path string, size int64) (*Draft, error) { return createTemp(path, size) }

func link(*os.File, string) error { return errors.ErrUnsupported }

// Populate backs all of mem, the mapping of f, with memory.
func Populate(_ *os.File, mem []byte, workers int) error { return pagemem.Populate(mem, workers) }
