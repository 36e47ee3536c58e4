package linkmodel

import (
	"math"
	"math/bits"
)

// Staging is how a copy of pageable memory is staged. Without copiers it is
// not: the backend copies.
type Staging struct {
	Copiers    int  // goroutines that work on it, the caller's included
	PastCaches bool // they write with non-temporal stores
}

// RuleOfThumb is how n bytes are staged where there is no model: by all copiers,
// through slots of so many bytes. Stores past the caches are better on the way
// to the host, and on the way to the device while chunks are small: the copy
// engine is slow to read what is dirty in some core's cache.
func RuleOfThumb(n int64, copiers int, toHost bool, slot int64) Staging {
	return Staging{copiers, toHost || n < 2*int64(copiers)*slot}
}

// Table is what a model chooses, by size in steps of a quarter of an octave.
type Table [2][4 * 64]Staging // [to host][step]

// At returns the choice for n >= 0 bytes.
func (c *Table) At(n int64, toHost bool) Staging {
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

// Table returns the best choice for every size, with at most that many
// copiers.
func (m *Model) Table(copiers int) *Table {
	var c Table
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
					c[direction][i] = Staging{p.Copiers, p.PastCaches}
				}
			}
			// Beyond what was measured, part of which may have lain in caches,
			// the rule of thumb is better.
			if k := &c[direction][i]; k.Copiers > 0 && n > 2*most {
				*k = RuleOfThumb(n, copiers, toHost, DefaultSlotBytes)
			}
		}
	}
	return &c
}

// Choice is how a model has pageable memory of one size copied.
type Choice struct {
	Path       string  `json:"path"`                  // "plain" or "staged"
	Copiers    int     `json:"copiers,omitempty"`     // of a staged copy, the caller's goroutine included
	PastCaches bool    `json:"past_caches,omitempty"` // copied with non-temporal stores
	Seconds    float64 `json:"predicted_seconds"`
}

// Choice returns what an engine with default options does with n bytes.
func (m *Model) Choice(n int64, toHost bool) Choice {
	s := m.Table(DefaultCopiers()).At(max(n, 0), toHost)
	choice := Choice{Path: "plain"}
	if s.Copiers > 0 {
		choice = Choice{Path: "staged", Copiers: s.Copiers, PastCaches: s.PastCaches}
	}
	choice.Seconds = m.Seconds(s, n, toHost)
	return choice
}

// Seconds is what n bytes of pageable memory take when they are staged like
// that, or left to the backend. Beyond what was measured a choice may name
// stores that have no curve; the copiers' other one then answers.
func (m *Model) Seconds(s Staging, n int64, toHost bool) float64 {
	seconds := 0.0
	for _, p := range m.Paths {
		if p.ToHost != toHost || p.Copiers != s.Copiers || len(p.Curve) == 0 {
			continue
		}
		if exact := p.PastCaches == s.PastCaches; exact || seconds == 0 {
			seconds = p.Curve.At(n)
			if exact {
				break
			}
		}
	}
	return seconds
}
