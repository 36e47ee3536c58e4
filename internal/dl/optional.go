package dl

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Optional is a library that Pinion uses where it is installed.
type Optional struct {
	Name string // as people know it: "nvJPEG"
	Use  string // what for: "JPEGs decoded on the GPU"

	// Open opens it, once for the process, and returns the file that was
	// loaded. The error says why there is none.
	Open func() (file string, err error)
}

var optional struct {
	sync.Mutex
	list []Optional
}

// Register adds a library to those of [Registered]. The package that binds it
// calls this from init.
func Register(o Optional) {
	optional.Lock()
	defer optional.Unlock()
	optional.list = append(optional.list, o)
}

// Bind registers a library, and returns the function that loads it, once for
// the process: with load, which returns the file, and what else the caller
// wants to keep.
func Bind[T any](name, use string, load func() (file string, kept T, err error)) func() (T, error) {
	var file string
	once := sync.OnceValues(func() (kept T, err error) {
		file, kept, err = load()
		return kept, err
	})
	Register(Optional{Name: name, Use: use, Open: func() (string, error) {
		if _, err := once(); err != nil {
			return "", err
		}
		return file, nil
	}})
	return once
}

// Registered lists the libraries that the packages of this program can use, by
// name.
func Registered() []Optional {
	optional.Lock()
	defer optional.Unlock()
	list := slices.Clone(optional.list)
	slices.SortFunc(list, func(a, b Optional) int { return strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)) })
	return list
}

// Path is the path of a file that [Open] loaded by name, where the system tells
// it; elsewhere it is the name.
func Path(file string) string {
	if file == "" || filepath.IsAbs(file) {
		return file
	}
	maps, _ := os.ReadFile("/proc/self/maps") // of Linux
	for line := range strings.Lines(string(maps)) {
		if at := strings.IndexByte(line, '/'); at >= 0 {
			path := strings.TrimSpace(line[at:])
			if strings.HasPrefix(filepath.Base(path), file) { // which may be a link to libx.so.1.2
				return path
			}
		}
	}
	return file
}
