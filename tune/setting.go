package tune

import (
	"fmt"
	"slices"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/units"
)

// Setting is one way to run a pipeline.
type Setting struct {
	Workers  int    `json:"workers"`          // goroutines that read and decode
	Batch    int    `json:"batch"`            // samples in a batch
	Prefetch int    `json:"prefetch"`         // batches read ahead
	Pin      bool   `json:"pin"`              // whether host memory is page-locked
	Decode   string `json:"decode,omitempty"` // where samples are decoded; "" is the pipeline's own choice

	// Batches in pageable memory are staged: so many goroutines at most copy
	// them through rings of pinned memory, in chunks of so many bytes at most.
	// 0 where nothing is staged: from pinned memory, where the device decodes,
	// and where a batch is too small.
	Copiers    int   `json:"copiers,omitempty"`
	ChunkBytes int64 `json:"chunk_bytes,omitempty"`
}

// String returns "8 workers, batch 64, prefetch 4, pinned", or "…, pageable,
// 8 copiers, chunks of 2 MiB".
func (s Setting) String() string {
	memory := "pageable"
	if s.Pin {
		memory = "pinned"
	}
	text := fmt.Sprintf("%s, batch %d, prefetch %d, %s", units.Count(s.Workers, "worker"), s.Batch, s.Prefetch, memory)
	if s.Copiers > 0 {
		text += ", " + units.Count(s.Copiers, "copier")
	}
	if s.ChunkBytes > 0 {
		text += ", chunks of " + units.Bytes(s.ChunkBytes)
	}
	if s.Decode != "" {
		text += ", decoded on " + s.Decode
	}
	return text
}

// staged reports whether copiers work for the setting.
func (s Setting) staged() bool { return s.Copiers > 0 || s.ChunkBytes > 0 }

// threads are the goroutines that work for the setting.
func (s Setting) threads() int { return s.Workers + s.Copiers }

// Space is a grid of settings: every combination of its values, none of which
// comes twice on an axis, and which are in ascending order where they are
// numbers. No value at all for Decode means "".
//
// Values for Copiers and ChunkBytes are combined with pageable memory that is
// staged, and with nothing else; none at all are the pipeline's own choice.
type Space struct {
	Workers    []int
	Batch      []int
	Prefetch   []int
	Pin        []bool
	Decode     []string
	Copiers    []int
	ChunkBytes []int64

	// chunks are the values of ChunkBytes that differ from each other at a
	// batch size, the first few; none where batches of that size are not
	// staged. Nil: all differ at every size.
	chunks map[int][]int64
}

// place is where a setting lies in the grid, axis by axis, in the order of the
// fields of [Space].
type place [7]int

// axes is the number of values of every axis.
func (s Space) axes() place {
	return place{len(s.Workers), len(s.Batch), len(s.Prefetch), len(s.Pin), max(len(s.Decode), 1), max(len(s.Copiers), 1), max(len(s.ChunkBytes), 1)}
}

// check looks for axes without values, and for values that cannot be.
func (s Space) check() error {
	for i, axis := range [][]int{s.Workers, s.Batch, s.Prefetch, s.Copiers} {
		if len(axis) == 0 && i < 3 || bad(axis) {
			return fmt.Errorf("tune: %w: a space of %+v", device.ErrArgument, s)
		}
	}
	if len(s.Pin) == 0 || repeats(s.Pin) || repeats(s.Decode) || bad(s.ChunkBytes) {
		return fmt.Errorf("tune: %w: a space of %+v", device.ErrArgument, s)
	}
	return nil
}

// bad reports whether numbers are not positive, or not in ascending order.
func bad[T int | int64](axis []T) bool {
	return !slices.IsSorted(axis) || len(axis) > 0 && axis[0] < 1 || repeats(axis)
}

// repeats reports whether a value comes twice.
func repeats[T comparable](axis []T) bool {
	for i, v := range axis {
		if slices.Contains(axis[:i], v) {
			return true
		}
	}
	return false
}

// at is the setting at a place of the grid. Where nothing is staged, places
// that differ in copiers and chunks only are one setting.
func (s Space) at(p place) Setting {
	set := Setting{Workers: s.Workers[p[0]], Batch: s.Batch[p[1]], Prefetch: s.Prefetch[p[2]], Pin: s.Pin[p[3]]}
	if len(s.Decode) > 0 {
		set.Decode = s.Decode[p[4]]
	}
	chunks := s.ChunkBytes
	if s.chunks != nil {
		chunks = s.chunks[set.Batch]
	}
	if set.Pin || set.Decode == "gpu" || s.chunks != nil && len(chunks) == 0 {
		return set
	}
	if len(s.Copiers) > 0 {
		set.Copiers = s.Copiers[p[5]]
	}
	if len(chunks) > 0 {
		set.ChunkBytes = chunks[min(p[6], len(chunks)-1)]
	}
	return set
}

// place is where a setting lies in the grid. One that is not staged lies in the
// middle of the axes of those that are, so that it has neighbours among them.
func (s Space) place(set Setting) place {
	p := place{slices.Index(s.Workers, set.Workers), slices.Index(s.Batch, set.Batch), slices.Index(s.Prefetch, set.Prefetch),
		slices.Index(s.Pin, set.Pin), max(slices.Index(s.Decode, set.Decode), 0), len(s.Copiers) / 2, len(s.ChunkBytes) / 2}
	if set.Copiers > 0 {
		p[5] = slices.Index(s.Copiers, set.Copiers)
	}
	if set.ChunkBytes > 0 {
		p[6] = slices.Index(s.ChunkBytes, set.ChunkBytes)
	}
	return p
}

// Settings lists the grid: each setting once. No axis but Decode, Copiers and
// ChunkBytes may be empty.
func (s Space) Settings() (list []Setting) {
	axes := s.axes()
	seen := map[Setting]bool{}
	for p := (place{}); ; {
		if set := s.at(p); !seen[set] {
			list, seen[set] = append(list, set), true
		}
		axis := len(axes) - 1
		for ; axis >= 0; axis-- {
			if p[axis]++; p[axis] < axes[axis] {
				break
			}
			p[axis] = 0
		}
		if axis < 0 {
			return list
		}
	}
}

// neighbours are the nearest settings along each axis of those that may be.
func (s Space) neighbours(set Setting, may func(Setting) bool) (list []Setting) {
	axes, here := s.axes(), s.place(set)
	for axis := range axes {
		for _, step := range []int{-1, 1} {
			there := here
			for there[axis] += step; there[axis] >= 0 && there[axis] < axes[axis]; there[axis] += step {
				if next := s.at(there); next != set && may(next) {
					list = append(list, next)
					break
				}
			}
		}
	}
	return list
}
