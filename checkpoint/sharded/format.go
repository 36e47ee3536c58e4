package sharded

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"

	"github.com/pinion-gpu/pinion/internal/errs"
	"github.com/pinion-gpu/pinion/safetensors"
)

// Errors that callers can tell apart with errors.Is.
var (
	// ErrArgument: pieces, a name or a range that cannot be right.
	ErrArgument = errs.ErrArgument
	// ErrDamaged: files that contradict the index or each other.
	ErrDamaged = safetensors.ErrDamaged
)

// IndexName is the file that names the others.
const IndexName = "index.json"

// version of the index.
const version = 1

// index is what is written to IndexName.
type index struct {
	Version int               `json:"pinion_sharded_checkpoint"`
	Save    string            `json:"save"` // which one it was
	Files   []fileEntry       `json:"files"`
	Meta    map[string]string `json:"meta,omitempty"`
}

// fileEntry is the file of a rank, by its name in the folder.
type fileEntry struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

// Keys of a file's metadata.
const (
	saveKey   = "pinion.save"   // index.Save
	piecesKey = "pinion.pieces" // pieces by name: map[string]placed as JSON
)

// placed says what of a value a tensor is.
type placed struct {
	Shape []int64 `json:"shape"`
	Row   int64   `json:"row,omitempty"`
	From  int64   `json:"from"`
}

// elements of a shape; false if they are more than a number holds.
func elements(shape []int64) (n int64, ok bool) {
	n = 1
	for _, d := range shape {
		if d < 0 || d > 0 && n > math.MaxInt64/d {
			return 0, false
		}
		n *= d
	}
	return n, true
}

// rows is how many rows of so many elements a value of whole elements has, and how many these
// are: all, if row is 0. False if they are no rows.
func rows(whole, row int64) (n, each int64, ok bool) {
	switch {
	case row < 0 || row > 0 && whole%row != 0:
		return 0, 0, false
	case row == 0 || whole == 0:
		return 1, whole, true
	}
	return whole / row, row, true
}

// prefix of the names of files that ranks write.
const prefix = "state-"

// fileNames are what fileName makes.
var fileNames = regexp.MustCompile(`^` + prefix + `[a-z2-7]{12}-[0-9]{5,}-of-[0-9]{5,}\.safetensors$`)

func fileName(save string, rank, ranks int) string {
	return fmt.Sprintf("%s%s-%05d-of-%05d.safetensors", prefix, save, rank+1, ranks)
}

// readIndex reads the index of a folder. It trusts nothing in it.
func readIndex(folder string) (*index, error) {
	path := filepath.Join(folder, IndexName)
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	x := &index{}
	if err := json.Unmarshal(data, x); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrDamaged, path, err)
	}
	switch {
	case x.Version == 0:
		return nil, fmt.Errorf("%w: %s is no index of a sharded checkpoint", ErrDamaged, path)
	case x.Version != version:
		return nil, fmt.Errorf("%w: %s is of version %d, and this program reads version %d", errors.ErrUnsupported, path, x.Version, version)
	case len(x.Files) == 0:
		return nil, fmt.Errorf("%w: %s names no files", ErrDamaged, path)
	}
	for _, f := range x.Files {
		if !fileNames.MatchString(f.Name) {
			return nil, fmt.Errorf("%w: %s names %.80q, which is no file of a rank", ErrDamaged, path, f.Name)
		}
	}
	return x, nil
}

// readPlaced is what a file of a save says of its pieces.
func readPlaced(f *safetensors.File, save string) (map[string]placed, error) {
	if f.Metadata[saveKey] != save {
		return nil, fmt.Errorf("%w: %s is of the save %.40q, and the index of %.40q", ErrDamaged, f.Path(), f.Metadata[saveKey], save)
	}
	pieces := map[string]placed{}
	if err := json.Unmarshal([]byte(f.Metadata[piecesKey]), &pieces); err != nil {
		return nil, fmt.Errorf("%w: %s: metadata %s: %w", ErrDamaged, f.Path(), piecesKey, err)
	}
	return pieces, nil
}
