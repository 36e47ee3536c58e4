package tune

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

// dwindling is a pipeline for which memory goes short when the races begin. To
// find that of the last setting that was measured takes the rest of the budget;
// what was not tried by then fits.
type dwindling struct {
	*fake
	racing, over bool
	known        map[Setting]bool // what was measured and fits as far as is known
	refused      map[Setting]bool
}

func (p *dwindling) Try(ctx context.Context, s Setting, r Run) (Measurement, error) {
	if !p.racing {
		p.known[s] = true
	}
	if !p.racing || p.over && !p.refused[s] {
		return p.fake.Try(ctx, s, r)
	}
	delete(p.known, s)
	p.refused[s] = true
	if len(p.known) == 0 {
		p.over = true
		if _, limited := ctx.Deadline(); limited {
			<-ctx.Done()
		}
	}
	return Measurement{}, &DoesNotFitError{What: "device memory", AskedBytes: 2, FreeBytes: 1}
}

// Where nothing fits any more of what was measured when the budget is used up,
// the search goes on until something does.
func TestNothingMeasuredFits(t *testing.T) {
	for seed := range uint64(3) {
		for _, step := range []bool{false, true} {
			t.Run(fmt.Sprintf("seed %d, step %t", seed, step), func(t *testing.T) {
				p := &dwindling{fake: newFake("decode", seed), known: map[Setting]bool{}, refused: map[Setting]bool{}}
				p.fake.step = 1e-3
				r, err := Search(context.Background(), p, grid, SearchOptions{Seed: seed, Step: step, Budget: 400 * time.Millisecond,
					Progress: func(_, _ time.Duration, what string) { p.racing = strings.Contains(what, "race") }})
				if err != nil {
					t.Fatal(err)
				}
				if p.refused[r.Best] {
					t.Errorf("%v, which does not fit", r.Best)
				}
			})
		}
	}
}
