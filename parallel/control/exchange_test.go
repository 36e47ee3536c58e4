package control

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/internal/errs"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

func TestExchange(t *testing.T) {
	for _, size := range []int{1, 2, 5, 64} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			groups := group(t, size, 0)
			for i, bytesEach := range []int{0, 1, 1000, 100000 / size} {
				of := func(r int) []byte { return testkit.RandomBytes(bytesEach+r%3, uint64(100*i+r)) }
				for r, err := range each(t, groups, func(r int, g *Group) error {
					mine := of(r)
					all, err := g.Exchange(background, fmt.Sprint("step ", i), mine)
					if err != nil {
						return err
					}
					clear(mine) // which is the caller's again
					for from, got := range all {
						if !bytes.Equal(got, of(from)) {
							return fmt.Errorf("%d bytes of rank %d are others", len(got), from)
						}
						clear(got)
					}
					if len(all) != size {
						return fmt.Errorf("%d ranks", len(all))
					}
					return g.Agree(background, "the step", fmt.Sprint(i))
				}) {
					if err != nil {
						t.Errorf("rank %d: %v", r, err)
					}
				}
			}
			for r, g := range groups {
				if g.Err() != nil {
					t.Errorf("rank %d: %v", r, g.Err())
				}
				select {
				case <-g.Done():
					t.Errorf("rank %d is done", r)
				default:
				}
			}
		})
	}
}

func TestLargest(t *testing.T) {
	groups := group(t, 3, 0)
	_, err := groups[0].Exchange(background, "x", make([]byte, maxData+1))
	testkit.WantError(t, "too much", err, errs.ErrTooLarge, "1048577", "1048576")
	_, err = groups[0].Exchange(background, strings.Repeat("x", maxWhat+1), nil)
	testkit.WantError(t, "a long name", err, errs.ErrTooLarge, "4097")
	for r, err := range each(t, groups, func(r int, g *Group) error {
		all, err := g.Exchange(background, strings.Repeat("x", maxWhat), bytes.Repeat([]byte{byte(r)}, maxData))
		if err == nil && !bytes.Equal(all[2], bytes.Repeat([]byte{2}, maxData)) {
			err = errors.New("other bytes")
		}
		return err
	}) {
		testkit.OK(t, err)
		_ = r
	}
}

func TestDisagree(t *testing.T) {
	groups := group(t, 4, 0)
	for r, err := range each(t, groups, func(r int, g *Group) error {
		value := "1a2b"
		if r == 3 {
			value = "99ff" + strings.Repeat("x", 1000)
		}
		return g.Agree(background, "the model", value)
	}) {
		testkit.WantError(t, fmt.Sprint("rank ", r), err, ErrDisagree, "on the model: ranks 0-2 have 1a2b, rank 3 has 99ffx", "x…")
		if len(err.Error()) > 300 {
			t.Errorf("%d bytes of error", len(err.Error()))
		}
	}
	for _, err := range each(t, groups, func(_ int, g *Group) error { return g.Agree(background, "another", "a") }) {
		testkit.OK(t, err) // the run goes on
	}
}

// Ranks at different exchanges end the run, and all are told who is where.
func TestPlaces(t *testing.T) {
	groups := group(t, 4, 0)
	says := []string{"is not where others are", `ranks 0-1, 3 are at "weights"`, `rank 2 is at "optimizer"`}
	for r, err := range each(t, groups, func(r int, g *Group) error {
		what := "weights"
		if r == 2 {
			what = "optimizer"
		}
		_, err := g.Exchange(background, what, nil)
		return err
	}) {
		wantRank(t, fmt.Sprint("rank ", r), err, 2, says...)
	}
	wantEnd(t, groups, 2, says...)
}

// So do they if some never come.
func TestPlacesMissing(t *testing.T) {
	groups := group(t, 4, 8*time.Second)
	for r, err := range each(t, groups[:3], func(r int, g *Group) error {
		_, err := g.Exchange(background, []string{"a", "a", "b"}[r], nil)
		return err
	}) {
		wantRank(t, fmt.Sprint("rank ", r), err, 2, `ranks 0-1 are at "a", rank 2 is at "b", missing: rank 3`)
	}
	wantEnd(t, groups, 2)
}

// An exchange that was given up says who was missing, and there is none after it.
func TestGivenUp(t *testing.T) {
	groups := group(t, 3, 2*time.Second)
	ctx, cancel := context.WithCancel(background)
	waits := make(chan error, 1)
	go func() {
		_, err := groups[1].Exchange(ctx, "weights", nil)
		waits <- err
	}()
	testkit.Eventually(t, "rank 1 hears whom it waits for", func() bool {
		return strings.Contains(groups[1].awaited(), `rank 1 is at "weights", missing: ranks 0, 2`)
	})
	cancel()
	testkit.WantError(t, "given up", testkit.Receive(t, "the exchange", waits), context.Canceled, `"weights"`, "missing: ranks 0, 2")
	_, err := groups[1].Exchange(background, "more", nil)
	testkit.WantError(t, "after that", err, context.Canceled, "given up")
	_, err = groups[0].Exchange(ctx, "weights", nil)
	testkit.WantError(t, "a context that has ended", err, context.Canceled)
	if groups[0].Err() != nil {
		t.Error(groups[0].Err())
	}
	for r, err := range each(t, []*Group{groups[0], nil, groups[2]}, func(_ int, g *Group) error { // rank 1's part is there
		_, err := g.Exchange(background, "weights", nil)
		return err
	}) {
		if err != nil {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

// Calls of several goroutines of a rank come one after the other.
func TestTurns(t *testing.T) {
	groups := group(t, 3, 0)
	for _, err := range each(t, groups, func(_ int, g *Group) error {
		failures := make(chan error, 8)
		for range cap(failures) {
			go func() {
				_, err := g.Exchange(background, "the same", nil)
				failures <- err
			}()
		}
		var all error
		for range cap(failures) {
			all = errors.Join(all, <-failures)
		}
		return all
	}) {
		testkit.OK(t, err)
	}
}

// Ranks that exchange, agree and note their progress at random times, until one ends the
// run in one way or another: all others hear of the same rank.
func TestRandom(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			plan := rand.New(rand.NewPCG(seed, 0))
			size := 2 + plan.IntN(7)
			groups := group(t, size, 0)
			culprit, last, way := plan.IntN(size), plan.IntN(12), plan.IntN(3)
			steps := make([]int, last) // the same on all ranks
			for i := range steps {
				steps[i] = plan.IntN(3)
			}
			for r, err := range each(t, groups, func(r int, g *Group) error {
				own := rand.New(rand.NewPCG(seed, uint64(1+r)))
				for i, kind := range steps {
					g.Progress(int64(i), fmt.Sprint("step ", i))
					time.Sleep(time.Duration(own.IntN(1000)) * time.Microsecond)
					data := testkit.RandomBytes(own.IntN(5000), uint64(i))
					var err error
					switch kind {
					case 0:
						err = g.Agree(background, "i", fmt.Sprint(i))
					case 1:
						var all [][]byte
						if all, err = g.Exchange(background, fmt.Sprint(i), data); err == nil && !bytes.Equal(all[r], data) {
							err = fmt.Errorf("step %d: other bytes", i)
						}
					default:
						_, err = g.Exchange(background, "barrier", nil)
					}
					if err != nil {
						return err
					}
				}
				switch {
				case r != culprit:
					_, err := g.Exchange(background, "the last", nil)
					return err
				case way == 0:
					g.Fail(fmt.Errorf("step %d is bad", last))
				case way == 1:
					return g.Close()
				case r == 0:
					for _, l := range g.allLinks() {
						_ = l.conn.Close()
					}
				default:
					_ = g.up.conn.Close()
				}
				return nil
			}) {
				switch {
				case r == culprit && err != nil:
					t.Errorf("rank %d of %d: %v", r, size, err)
				case r == culprit:
				case way == 2 && culprit == 0: // each connection ends by itself, and rank 0 hears of some other
					if !errors.As(err, new(*RankError)) {
						t.Errorf("rank %d: %v", r, err)
					}
				default:
					wantRank(t, fmt.Sprintf("rank %d of %d, way %d", r, size, way), err, culprit)
				}
			}
		})
	}
}
