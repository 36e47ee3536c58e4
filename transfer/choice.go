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
	copiers := defaultCopiers()
	direction := 0
	if toHost {
		direction = 1
	}
	c := m.choose(copiers)[direction][step(max(n, 0))]
	choice := Choice{Path: "plain"}
	if c.copiers > 0 {
		choice = Choice{Path: "staged", Copiers: c.copiers, PastCaches: c.pastCaches}
	}
	for _, path := range m.Paths {
		if path.ToHost == toHost && path.Copiers == c.copiers && (c.copiers == 0 ||
			path.PastCaches == c.pastCaches) {
			choice.Seconds = path.Curve.At(n)
		}
	}
	return choice
}

func defaultCopiers() int { return min(runtime.GOMAXPROCS(0), 12) }
