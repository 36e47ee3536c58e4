package linkmodel

import (
	"fmt"
	"math"
	"runtime"
	"time"
)

// Limits and defaults that a model and the engines that work by it share.
const (
	// Version of a model. It changes when the paths or their meaning do: older
	// files are then measured anew.
	Version = 3

	// DefaultSlotBytes is the size of a pinned slot that staging goes through,
	// unless an engine is told otherwise.
	DefaultSlotBytes = 2 << 20

	// MaxCopiers is far beyond use, and its square is a number.
	MaxCopiers = 1 << 16
)

// DefaultCopiers is the number of copiers that an engine stages with, unless
// it is told otherwise.
func DefaultCopiers() int { return min(runtime.GOMAXPROCS(0), 12) }

// Model is what the paths of one machine and device cost, as package
// calibrate measured them. A transfer engine chooses by it.
type Model struct {
	Version    int       `json:"version"`
	Machine    Machine   `json:"machine"`
	MeasuredAt time.Time `json:"measured_at"`

	// Paths are the ways of copying pageable memory, for each direction.
	Paths []Path `json:"paths"`

	// Pinned are the straight copies of pinned memory, for each direction.
	Pinned []Path `json:"pinned"`

	// Batches are the ways of copying many blocks of pinned memory.
	Batches []Batch `json:"batches"`
}

// Path is the cost of one way of copying in one direction.
type Path struct {
	Path    string `json:"path"` // "plain": the backend's own copy; "staged"; "pinned"
	ToHost  bool   `json:"to_host"`
	Copiers int    `json:"copiers,omitempty"` // of a staged copy

	// PastCaches: the processor writes with non-temporal stores.
	PastCaches bool `json:"past_caches,omitempty"`

	Curve Curve `json:"curve"`
}

// Batch is the cost of one way of copying many blocks at once: that of a call,
// and that of each block, by its size.
type Batch struct {
	Path        string  `json:"path"`      // "kernel", "driver", "loop" or "box"
	Direction   string  `json:"direction"` // "h2d", "d2h" or "d2d"
	CallSeconds float64 `json:"call_seconds"`
	Block       Curve   `json:"block"` // of one block among many
}

// Seconds is what the model says of that many blocks of equal size.
func (b Batch) Seconds(blocks, bytes int64) float64 {
	return b.CallSeconds + float64(blocks)*b.Block.At(bytes)
}

// Check finds what no measurement gives and an engine could stumble over.
func (m *Model) Check() error {
	for _, paths := range [][]Path{m.Paths, m.Pinned} {
		for _, p := range paths {
			if p.Copiers < 0 || p.Copiers > MaxCopiers {
				return fmt.Errorf("path %s with %d copiers", p.Path, p.Copiers)
			}
			if err := p.Curve.check(); err != nil {
				return fmt.Errorf("path %s: %w", p.Path, err)
			}
		}
	}
	for _, b := range m.Batches {
		if !(b.CallSeconds >= 0) || math.IsInf(b.CallSeconds, 0) {
			return fmt.Errorf("batch path %s: a call in %v s", b.Path, b.CallSeconds)
		}
		if err := b.Block.check(); err != nil {
			return fmt.Errorf("batch path %s: %w", b.Path, err)
		}
	}
	return nil
}
