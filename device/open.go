package device

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Backend opens the devices of one kind. Backends are registered with
// [Register] by their packages.
type Backend struct {
	// Name is what stands before the colon in a device name.
	Name string
	// Rank orders backends for "auto": the highest that works is opened.
	Rank int
	// Open opens the device that spec (what stands behind the colon, or "")
	// names. It fails with [ErrUnavailable] when this machine has no such
	// device.
	Open func(spec string) (Device, error)
	// List names the devices of this machine, best first, as Open takes
	// them. It fails with [ErrUnavailable] when the backend cannot work here.
	List func() ([]string, error)
}

var registry struct {
	sync.Mutex
	backends []Backend // highest rank first
}

// Register adds a backend. It panics when the name is taken.
func Register(b Backend) {
	registry.Lock()
	defer registry.Unlock()
	for _, other := range registry.backends {
		if other.Name == b.Name {
			panic("device: backend " + b.Name + " registered twice")
		}
	}
	registry.backends = append(registry.backends, b)
	slices.SortStableFunc(registry.backends, func(a, b Backend) int { return b.Rank - a.Rank })
}

// Backends returns the registered backends, highest rank first.
func Backends() []Backend {
	registry.Lock()
	defer registry.Unlock()
	return slices.Clone(registry.backends)
}

// Open opens a device by name: "cuda:0", "cuda" (the first), "host",
// "host:4GiB" (with a capacity), or "auto" (also ""), which is [Best] without
// its reasons.
func Open(name string) (Device, error) {
	if name == "" || name == "auto" {
		dev, _, err := Best()
		return dev, err
	}
	backends := Backends()
	kind, spec, _ := strings.Cut(name, ":")
	known := []string{"auto"}
	for _, b := range backends {
		if b.Name == kind {
			dev, err := b.Open(spec)
			if err != nil {
				return nil, err // dev may be a nil pointer, which is no nil Device
			}
			return dev, nil
		}
		known = append(known, b.Name)
	}
	if len(backends) == 0 {
		return nil, errNoBackend
	}
	return nil, fmt.Errorf("device: %w: no backend named %q (there are: %s)",
		ErrUnavailable, kind, strings.Join(known, ", "))
}

// Best opens the first device of the highest-ranking backend that works on
// this machine. Where better backends had to be passed over, passed says why;
// a program should tell its user once.
func Best() (dev Device, passed, err error) {
	backends := Backends()
	if len(backends) == 0 {
		return nil, nil, errNoBackend
	}
	for _, b := range backends {
		dev, err := b.Open("")
		if err == nil {
			return dev, passed, nil
		}
		passed = errors.Join(passed, err)
	}
	return nil, nil, passed
}

var errNoBackend = errors.New(`device: no backend registered; import _ "github.com/pinion-gpu/pinion/device/all"`)
