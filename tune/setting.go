package tune

import (
	"fmt"
	"slices"

	"github.com/pinion-gpu/pinion/device"
)

// Setting is one way to run a pipeline.
type Setting struct {
	Workers  int    `json:"workers"`          // goroutines that read and decode
	Batch    int    `json:"batch"`            // samples in a batch
	Prefetch int    `json:"prefetch"`         // batches read ahead
	Pin      bool   `json:"pin"`              // whether host memory is page-locked
	Decode   string `json:"decode,omitempty"` // where samples are decoded; "" is the pipeline's own choice
}

// String returns "8 workers, batch 64, prefetch 4, pinned".
func (s Setting) String() string {
	workers, memory := "workers", "pageable"
	if s.Workers == 1 {
		workers = "worker"
	}
	if s.Pin {
		memory = "pinned"
	}
	text := fmt.Sprintf("%d %s, batch %d, prefetch %d, %s", s.Workers, workers, s.Batch, s.Prefetch, memory)
	if s.Decode != "" {
		text += ", decoded on " + s.Decode
	}
	return text
}

// Space is a grid of settings: every combination of its values, none of which
// comes twice on an axis, and which are in ascending order where they are
// numbers. No value at all for Decode means "".
type Space struct {
	Workers  []int
	Batch    []int
	Prefetch []int
	Pin      []bool
	Decode   []string
}

// axes is the number of values of every axis, Decode last.
func (s Space) axes() [5]int {
	return [5]int{len(s.Workers), len(s.Batch), len(s.Prefetch), len(s.Pin), max(len(s.Decode), 1)}
}

// check looks for axes without values, and for values that cannot be.
func (s Space) check() error {
	for _, axis := range [][]int{s.Workers, s.Batch, s.Prefetch} {
		if len(axis) == 0 || !slices.IsSorted(axis) || axis[0] < 1 || repeats(axis) {
			return fmt.Errorf("tune: %w: a space of %+v", device.ErrArgument, s)
		}
	}
	if len(s.Pin) == 0 || repeats(s.Pin) || repeats(s.Decode) {
		return fmt.Errorf("tune: %w: a space of %+v", device.ErrArgument, s)
	}
	return nil
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

// at is the setting at a place of the grid.
func (s Space) at(place [5]int) Setting {
	set := Setting{s.Workers[place[0]], s.Batch[place[1]], s.Prefetch[place[2]], s.Pin[place[3]], ""}
	if len(s.Decode) > 0 {
		set.Decode = s.Decode[place[4]]
	}
	return set
}

// place is where a setting lies in the grid.
func (s Space) place(set Setting) [5]int {
	return [5]int{slices.Index(s.Workers, set.Workers), slices.Index(s.Batch, set.Batch),
		slices.Index(s.Prefetch, set.Prefetch), slices.Index(s.Pin, set.Pin), max(slices.Index(s.Decode, set.Decode), 0)}
}

// Settings lists the grid. No axis but Decode may be empty.
func (s Space) Settings() (list []Setting) {
	axes := s.axes()
	for place := [5]int{}; ; {
		list = append(list, s.at(place))
		axis := len(axes) - 1
		for ; axis >= 0; axis-- {
			if place[axis]++; place[axis] < axes[axis] {
				break
			}
			place[axis] = 0
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
				if next := s.at(there); may(next) {
					list = append(list, next)
					break
				}
			}
		}
	}
	return list
}
