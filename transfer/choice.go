package transfer

import "runtime"

// Choice is how a model has pageable memory of one size copied.
type Choice struct {
	Path       string  `json:"path"`                  // "plain" or "staged"
	Copiers    int     `json:"copiers,omitempty"`     // of a staged copy, the caller's goroutine included
	PastCaches bool    `json:"past_caches,omitempty"` // copied with non-temporal stores
	Seconds    float64 `json:"predicted_seconds"`
}

// Choice returns what an engine with default options does with n bytes.
func (m *Model) Choice(n int64, toHost bool) Choice {
	c := m.choose(defaultCopiers()).at(max(n, 0), toHost)
	choice := Choice{Path: "plain"}
	if c.copiers > 0 {
		choice = Choice{Path: "staged", Copiers: c.copiers, PastCaches: c.pastCaches}
	}
	choice.Seconds = m.seconds(c, n, toHost)
	return choice
}

// seconds is what n bytes take when they are copied like that. Beyond what was
// measured a choice may name stores that have no curve; the copiers' other one
// then answers.
func (m *Model) seconds(c choice, n int64, toHost bool) float64 {
	seconds := 0.0
	for _, p := range m.Paths {
		if p.ToHost != toHost || p.Copiers != c.copiers || len(p.Curve) == 0 {
			continue
		}
		if exact := p.PastCaches == c.pastCaches; exact || seconds == 0 {
			seconds = p.Curve.At(n)
			if exact {
				break
			}
		}
	}
	return seconds
}

func defaultCopiers() int { return min(runtime.GOMAXPROCS(0), 12) }
