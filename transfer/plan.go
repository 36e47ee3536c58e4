package transfer

import (
	"math"
	"math/bits"

	"github.com/pinion-gpu/pinion/internal/pagemem"
)

// plan is how a copy of pageable memory is carried out.
type plan struct {
	choice
	least, chunk int64 // bytes of a chunk: about what the first ones have, and the largest
}

// choice is a way of copying.
type choice struct {
	copiers    int  // that work on it, the caller included; 0: a plain copy
	pastCaches bool // the processor writes with non-temporal stores
}

// Copying a smaller chunk would take less time than queueing it does.
const (
	minChunk  = 128 << 10
	goodChunk = 256 << 10
)

// plan cuts n bytes.
func (c choice) plan(n, slot int64) plan {
	least := min(max(n/16, minChunk), goodChunk)
	return plan{c, pagemem.RoundUp(min(least, slot)), slot}
}

// usual is the choice where there is no model. Copies past the caches are
// better on the way to the host, and on the way to the device while chunks are
// small: the copy engine is slow to read what is dirty in some core's cache.
func usual(n int64, copiers int, toHost bool, slot int64) choice {
	return choice{copiers, toHost || n < 2*int64(copiers)*slot}
}

// choices are what a model says, by size in steps of a quarter of an octave.
type choices [2][4 * 64]choice // [to host][step]

// at returns the choice for n >= 0 bytes.
func (c *choices) at(n int64, toHost bool) choice {
	if toHost {
		return c[1][step(n)]
	}
	return c[0][step(n)]
}

// step returns the index of the range that holds n >= 0 bytes.
func step(n int64) int {
	if n < 4 {
		return int(n) & 3
	}
	e := bits.Len64(uint64(n)) - 1
	return 4*e + int(n>>(e-2))&3
}

// stepMiddle returns a size in the middle of the range.
func stepMiddle(i int) int64 {
	e := i / 4
	if e < 2 {
		return int64(i)
	}
	quarter := int64(1) << (e - 2)
	return int64(1)<<e + int64(i%4)*quarter + quarter/2
}

// worthwhile is how much faster a path must be to be chosen over one that
// takes fewer copiers: processors have other work, too.
const worthwhile = 0.985

// choose fills in the best choice for every size, with at most that many
// copiers.
func (m *Model) choose(copiers int) *choices {
	var c choices
	for direction := range c {
		toHost := direction == 1
		for i := range c[direction] {
			n := stepMiddle(i)
			if i/4 >= 62 {
				n = math.MaxInt64 / 2
			}
			best := math.Inf(1)
			var most int64 // that was measured
			// Paths are in ascending order of copiers.
			for _, p := range m.Paths {
				if p.ToHost != toHost || p.Copiers > copiers || len(p.Curve) == 0 {
					continue
				}
				if n < p.Curve[0].Bytes/2 && p.Copiers > 0 {
					continue // it was never tried on copies as small as that
				}
				most = max(most, p.Curve[len(p.Curve)-1].Bytes)
				if t := p.Curve.At(n); t < best*worthwhile {
					best = t
					c[direction][i] = choice{p.Copiers, p.PastCaches}
				}
			}
			// Beyond what was measured, part of which may have lain in caches,
			// the rule of thumb is better.
			if k := &c[direction][i]; k.copiers > 0 && n > 2*most {
				*k = usual(n, copiers, toHost, defaultSlotBytes)
			}
		}
	}
	return &c
}

// plan decides how n bytes of pageable memory are copied.
func (e *Engine) plan(n int64, toHost bool) plan {
	switch {
	case n == 0 || e.plain.Load():
		return plan{}
	case e.choices != nil:
		return e.choices.at(n, toHost).plan(n, e.options.SlotBytes)
	case n <= e.options.StageAbove:
		return plan{}
	}
	return e.stagedPlan(n, toHost)
}

// stagedPlan is the plan for n bytes that have to be staged, where no path is
// measured.
func (e *Engine) stagedPlan(n int64, toHost bool) plan {
	return usual(n, e.options.Copiers, toHost, e.options.SlotBytes).plan(n, e.options.SlotBytes)
}
