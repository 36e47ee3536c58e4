// Package cachefile keeps what was measured on this machine as JSON files in
// the user's cache directory.
package cachefile

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/pinion-gpu/pinion/internal/atomicfile"
)

// mostBytes is the size of a file that is not read any more.
const mostBytes = 1 << 20

// Path returns the path of the file of a kind, "link" say, that is told from
// others of it by key.
func Path(kind string, key ...string) (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(strings.Join(key, "\x00")))
	return filepath.Join(dir, "pinion", fmt.Sprintf("%s-%x.json", kind, sum[:6])), nil
}

// Read reads a file of at most 1 MiB. One that is not there is
// [fs.ErrNotExist].
func Read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, mostBytes+1))
	if err == nil && len(data) > mostBytes {
		err = fmt.Errorf("%s: more than %d bytes", path, mostBytes)
	}
	return data, err
}

// Write writes v as JSON, if that is no more than [Read] reads. The file is
// complete or not there at all.
func Write(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	if len(data) >= mostBytes {
		return fmt.Errorf("%s: %d bytes, at most %d can be kept", path, len(data)+1, mostBytes)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return atomicfile.WriteFile(path, append(data, '\n'), 0o644)
}
