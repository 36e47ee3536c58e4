package tune

import (
	"context"
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
)

// The choice is within 5 % of the best of the grid, whatever the pipeline: in
// 99 of 100 searches, and never far from it.
func TestNearTheOptimum(t *testing.T) {
	if testing.Short() {
		t.Skip("it searches hundreds of times")
	}
	const seeds = 100
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		for name, space := range map[string]Space{"": grid, ", with copiers": staging} {
			t.Run(kind+name, func(t *testing.T) {
				missed := 0
				for seed := range uint64(seeds) {
					f := newFake(kind, seed)
					r := find(t, f, space, SearchOptions{Seed: seed})
					share := f.rate(r.Best) / optimum(f, space)
					if share < 0.95 {
						missed++
					}
					if share < 0.9 || missed > seeds/100 {
						t.Errorf("seed %d: %v has %.3f of the best", seed, r.Best, share)
					}
					if r.Seconds > 33 || r.Trials != f.tries {
						t.Errorf("seed %d: %d trials of %d took %.1f s of 30", seed, r.Trials, f.tries, r.Seconds)
					}
				}
			})
		}
	}
}

// With a step the choice keeps the device fed, if any setting does, and else
// is nearly as fast as any.
func TestFedDevice(t *testing.T) {
	if testing.Short() {
		t.Skip("it searches hundreds of times")
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		t.Run(kind, func(t *testing.T) {
			for seed := range uint64(40) {
				f := newFake(kind, seed)
				f.drift = 0.03
				// From a device that most settings feed to one that none does.
				f.step = 64 / (optimum(f, staging) * between(f.rng, 0.2, 1.2))
				r := find(t, f, staging, SearchOptions{Seed: seed, Step: true})
				rate, _ := f.stepped(r.Best)
				if share := rate / optimum(f, staging); share < 0.95 {
					t.Errorf("seed %d: %v has %.3f of the best", seed, r.Best, share)
				}
				if r.Fed != (r.DeviceWait < mostWait) || r.Fed && r.Limit.Name != LimitDevice {
					t.Errorf("seed %d: fed %v, wait %.3f, limit %v", seed, r.Fed, r.DeviceWait, r.Limit)
				}
				if !(r.StepSeconds > 0.99*f.step && r.StepSeconds < 1.01*f.step) {
					t.Errorf("seed %d: a step of %g s, want %g", seed, r.StepSeconds, f.step)
				}
			}
		})
	}
}

// Where everything is equally fast the cheapest is chosen: no pinned memory,
// one worker, little read ahead.
func TestCheapest(t *testing.T) {
	f := newFake("disk", 1)
	f.noise, f.drift = 0.002, 0
	f.read, f.decode, f.extra, f.disk, f.transform = 1e-6, 0, 0, 0, 1e-3
	r := find(t, f, grid, SearchOptions{})
	if want := (Setting{Workers: 1, Batch: 64, Prefetch: 1}); r.Best != want || r.PinnedBytes != 0 {
		t.Errorf("%v, want %v", r.Best, want)
	}
}

// A machine that is not steady is told from one that is.
func TestSettled(t *testing.T) {
	for noise, want := range map[float64]bool{0.001: true, 0.5: false} {
		f := newFake("decode", 2)
		f.drift, f.noise = 0, noise
		r := find(t, f, grid, SearchOptions{})
		if r.Settled != want || want && r.Seconds > 25 || (r.Error < 0.02) != want {
			t.Errorf("noise %g: settled %v after %.1f s, with an error of %g", noise, r.Settled, r.Seconds, r.Error)
		}
	}
}

// On a machine that others use as well, what is said to be settled is right: the
// choice is within 5 % of the best, but for one search in a hundred. What is not
// said to be settled may be worse.
func TestSettledIsRight(t *testing.T) {
	if testing.Short() {
		t.Skip("it only computes")
	}
	for _, noise := range []float64{0.02, 0.05, 0.1} {
		settled, wrong := 0, 0
		for _, kind := range slices.Sorted(maps.Keys(kinds)) {
			for seed := range uint64(10) {
				f := newFake(kind, seed)
				f.noise, f.bursts = noise, 0.1
				r := find(t, f, staging, SearchOptions{Seed: seed})
				if !r.Settled {
					continue
				}
				if settled++; f.rate(r.Best) < 0.95*optimum(f, staging) {
					wrong++
				}
			}
		}
		t.Logf("noise %g: %d settled, %d wrong", noise, settled, wrong)
		if settled == 0 || wrong > 1+settled/100 {
			t.Errorf("noise %g: %d of %d settled choices are not within 5 %% of the best", noise, wrong, settled)
		}
	}
}

// A search takes no more than its budget and one trial: that of the calibration,
// or of the first race, without which nothing would be known.
func TestShortBudget(t *testing.T) {
	for _, setup := range []float64{0.01, 0.2, 0.8, 3} {
		for _, step := range []bool{false, true} {
			for _, kind := range slices.Sorted(maps.Keys(kinds)) {
				f := newFake(kind, 1)
				f.setup, f.step = setup, 1e-3
				f.gpu = func(Setting) float64 { return 1000 }
				space := staging
				space.Decode = []string{"gpu"}
				r := find(t, f, space, SearchOptions{Budget: time.Second, Step: step})
				trial := setup + 0.02
				if r.Seconds > max(1, trial)+trial {
					t.Errorf("%s, trials of %g s, step %v: %d trials took %.2f s of 1", kind, setup, step, r.Trials, r.Seconds)
				}
			}
		}
	}
}

// A device that few workers feed gets few.
func TestFewWorkersForASlowDevice(t *testing.T) {
	f := newFake("decode", 3)
	f.drift, f.noise = 0, 0.003
	two := f.rate(Setting{Workers: 2, Batch: 64, Prefetch: 4})
	f.step = 64 / (0.9 * two)
	r := find(t, f, grid, SearchOptions{Step: true})
	if r.Best.Workers != 2 || r.Best.Pin || !r.Fed {
		t.Errorf("%v, fed %v", r.Best, r.Fed)
	}
}

// The batch size and the place of decoding are found too.
func TestMoreAxes(t *testing.T) {
	space := Space{Workers: []int{1, 4, 16}, Batch: []int{32, 64, 128, 256}, Prefetch: []int{2, 4}, Pin: []bool{true, false}, Decode: []string{"cpu", "gpu"}}
	for seed := range uint64(40) {
		f := newFake("per batch", seed)
		if seed%2 == 0 {
			f.odd = onlyIf(func(s Setting) bool { return s.Decode == "gpu" }, 0.3)
		}
		r := find(t, f, space, SearchOptions{Seed: seed})
		if share := f.rate(r.Best) / optimum(f, space); share < 0.95 {
			t.Errorf("seed %d: %v has %.3f of the best", seed, r.Best, share)
		}
		if len(r.Model.Variants) != 4 {
			t.Errorf("%d variants", len(r.Model.Variants))
		}
	}
}

// Decoding on the device that takes long to set up leaves time for few trials,
// which are planned for: the search ends in time, and near the best.
func TestSlowToSetUp(t *testing.T) {
	space := staging
	space.Decode = []string{"cpu", "gpu"}
	for seed := range uint64(60) {
		f := newFake("decode", seed)
		f.setup = 0.8
		most := 2.5 * f.rate(Setting{Workers: 16, Batch: 64, Prefetch: 4, Pin: true})
		if seed%3 == 0 {
			most /= 5 // the processors are faster
		}
		f.gpu = func(s Setting) float64 {
			return most * min(1, float64(s.Workers)/6) * (1 - 0.3/float64(s.Prefetch+1))
		}
		r := find(t, f, space, SearchOptions{Seed: seed})
		if share := f.rate(r.Best) / optimum(f, space); share < 0.95 || r.Seconds > 30.5 {
			t.Errorf("seed %d: %v has %.3f of the best, after %.1f s of 30", seed, r.Best, share, r.Seconds)
		}
	}
}

// What does not fit is refused and told, before or by its trial; the rest is
// searched.
func TestDoesNotFit(t *testing.T) {
	for seed := range uint64(40) {
		f := newFake("shallow", seed)
		f.room.PinnedBytes = 4 * 64 * f.sample
		f.short = map[Setting]bool{}
		for _, s := range grid.Settings() {
			if s.Prefetch == 8 || s.Workers == 32 && s.Prefetch > 1 || f.rng.IntN(8) == 0 {
				f.short[s] = true
			}
		}
		r := find(t, f, grid, SearchOptions{Seed: seed})
		if share := f.rate(r.Best) / optimum(f, grid); share < 0.95 || f.short[r.Best] {
			t.Errorf("seed %d: %v has %.3f of the best", seed, r.Best, share)
		}
		refused := 0
		for _, row := range r.Settings {
			if row.Refused != "" {
				refused++
			}
		}
		if refused == 0 {
			t.Error("nothing was refused")
		}
	}
}

// Where the most workers never fit, the model is calibrated with those that do, for
// each kind of memory.
func TestFewPlaces(t *testing.T) {
	f := newFake("decode", 1)
	f.places = 10
	r := find(t, f, grid, SearchOptions{})
	for _, row := range r.Settings {
		if fits := row.Workers <= f.places; (row.Refused == "") != fits || fits && row.Predicted == 0 {
			t.Errorf("%v: refused %q, predicted %g samples a second", row.Setting, row.Refused, row.Predicted)
		}
	}
}

func TestNothingFits(t *testing.T) {
	f := newFake("disk", 1)
	f.room.DeviceBytes = 1
	_, err := Search(context.Background(), f, grid, SearchOptions{})
	var short *DoesNotFitError
	if !errors.Is(err, ErrDoesNotFit) || !errors.As(err, &short) || short.FreeBytes != 1 || f.tries != 0 {
		t.Errorf("%v after %d trials", err, f.tries)
	}
	f = newFake("disk", 1)
	f.short = map[Setting]bool{}
	for _, s := range grid.Settings() {
		f.short[s] = true
	}
	if _, err := Search(context.Background(), f, grid, SearchOptions{}); !errors.Is(err, ErrDoesNotFit) {
		t.Errorf("%v, want %v", err, ErrDoesNotFit)
	}
}

func TestErrors(t *testing.T) {
	broken := errors.New("broken")
	f := newFake("disk", 1)
	f.fail = broken
	if _, err := Search(context.Background(), f, grid, SearchOptions{}); !errors.Is(err, broken) || f.tries != 1 {
		t.Errorf("%v after %d trials", err, f.tries)
	}
	ctx, cancel := context.WithCancel(context.Background())
	f = newFake("disk", 1)
	o := SearchOptions{Progress: func(spent, _ time.Duration, _ string) {
		if f.tries == 7 {
			cancel()
		}
	}}
	if _, err := Search(ctx, f, grid, o); !errors.Is(err, context.Canceled) || f.tries > 8 {
		t.Errorf("%v after %d trials", err, f.tries)
	}
	for _, c := range []struct {
		space Space
		o     SearchOptions
	}{
		{Space{}, SearchOptions{}},
		{grid, SearchOptions{Budget: -1}},
		{Space{Workers: []int{0}, Batch: []int{1}, Prefetch: []int{1}, Pin: []bool{false}}, SearchOptions{}},
		{Space{Workers: []int{8, 8, 8, 8, 8, 8}, Batch: []int{1}, Prefetch: []int{1}, Pin: []bool{false}}, SearchOptions{}},
		{Space{Workers: []int{8}, Batch: []int{1}, Prefetch: []int{1}, Pin: []bool{true, true, true, true, true, true}}, SearchOptions{}},
		{Space{Workers: []int{8}, Batch: []int{1}, Prefetch: []int{1}, Pin: []bool{true}, Decode: []string{"cpu", "cpu"}}, SearchOptions{}},
	} {
		if _, err := Search(context.Background(), newFake("disk", 1), c.space, c.o); !errors.Is(err, device.ErrArgument) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// One setting needs no race to speak of, and a budget of nothing still gives
// an answer.
func TestSmall(t *testing.T) {
	one := Space{Workers: []int{3}, Batch: []int{7}, Prefetch: []int{2}, Pin: []bool{false}}
	if r := find(t, newFake("link", 1), one, SearchOptions{}); r.Best != (Setting{Workers: 3, Batch: 7, Prefetch: 2}) || r.GridSize != 1 {
		t.Errorf("%+v", r)
	}
	if r := find(t, newFake("link", 1), grid, SearchOptions{Budget: 1}); r.PerSecond <= 0 || len(r.Settings) == 0 {
		t.Errorf("%+v", r)
	}
}

// An exhaustive search measures the whole grid, and says how the choice did, with
// the error of that: small, or as small as there was time for.
func TestExhaustive(t *testing.T) {
	var r *Result
	long := 0
	for seed := range uint64(40) {
		for _, noise := range []float64{0.02, 0.2} {
			f := newFake("decode", seed)
			f.noise = noise
			r = find(t, f, grid, SearchOptions{Exhaustive: true, Seed: seed})
			if r.Grid == nil || r.Grid.Settings != 56 || len(r.Settings) != 56 {
				t.Fatalf("%+v, %d rows", r.Grid, len(r.Settings))
			}
			truth := f.rate(r.Best) / f.rate(r.Grid.Best)
			if d := math.Abs(r.Grid.Ratio - truth); r.Grid.Best != r.Best && d > 4*r.Grid.Error {
				t.Errorf("seed %d, noise %g: a ratio of %.3f ± %.3f, in truth %.3f", seed, noise, r.Grid.Ratio, r.Grid.Error, truth)
			}
			if r.Grid.LastRounds < 9 || r.Grid.Error > 0.01 && r.Grid.LastRounds < 12 {
				t.Errorf("seed %d, noise %g: an error of %.3f after %d rounds", seed, noise, r.Grid.Error, r.Grid.LastRounds)
			}
			if r.Grid.LastRounds > 9 {
				long++
			}
		}
	}
	if long < 10 {
		t.Errorf("only %d searches went on", long)
	}
	for _, row := range r.Settings {
		if row.Trials < 5 {
			t.Errorf("%v was tried %d times", row.Setting, row.Trials)
		}
	}
}

// shrinking is a pipeline on a device where others take the memory at some
// trial: only one worker fits from then on, until they give it back.
type shrinking struct {
	*fake
	at, back int
}

func (p shrinking) Try(ctx context.Context, s Setting, r Run) (Measurement, error) {
	m, err := p.fake.Try(ctx, s, r)
	if p.tries > p.at && p.tries <= p.back && s.Workers > 1 {
		return Measurement{}, &DoesNotFitError{What: "device memory", AskedBytes: 2, FreeBytes: 1}
	}
	return m, err
}

// Whenever memory goes away, there is a result, or an error that says so.
func TestMemoryGoesAway(t *testing.T) {
	space := Space{Workers: []int{1, 8, 16}, Batch: []int{64}, Prefetch: []int{1, 2, 4}, Pin: []bool{true}}
	late := 0
	for at := range 150 {
		r, err := Search(context.Background(), shrinking{newFake("decode", 1), at, math.MaxInt}, space, SearchOptions{Exhaustive: true})
		switch {
		case errors.Is(err, ErrDoesNotFit):
			late++
		case err != nil || r.Grid == nil:
			t.Errorf("after trial %d: %v, %v", at, r, err)
		}
	}
	if late == 0 {
		t.Error("the choice always fitted")
	}
}

// Memory that was gone for a trial does not make the choice one that does not fit.
func TestMemoryComesBack(t *testing.T) {
	space := Space{Workers: []int{1, 8, 16}, Batch: []int{64}, Prefetch: []int{1, 2, 4}, Pin: []bool{true}}
	for at := range 150 {
		r, err := Search(context.Background(), shrinking{newFake("decode", 1), at, at + 1}, space, SearchOptions{Exhaustive: true})
		if err == nil && r.Settings[0].Refused != "" || err != nil && !errors.Is(err, ErrDoesNotFit) {
			t.Errorf("after trial %d: %v, %v", at, r, err)
		}
	}
}

// A search is a function of its seed.
func TestRepeatable(t *testing.T) {
	a := find(t, newFake("shallow", 9), grid, SearchOptions{Seed: 4})
	b := find(t, newFake("shallow", 9), grid, SearchOptions{Seed: 4})
	if a.Best != b.Best || a.PerSecond != b.PerSecond || a.Trials != b.Trials {
		t.Errorf("%v and %v", a.Best, b.Best)
	}
}

// estimate finds values and drift from laps of different settings.
func TestEstimate(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	truth := []float64{100, 103, 97, 150, 50}
	var all []*runner
	for range truth {
		all = append(all, &runner{})
	}
	const laps = 200
	for at := range laps {
		i := rng.IntN(len(truth) - at/100) // the last drops out
		slow := 1 - 0.3*float64(at)/laps
		if at%37 == 5 {
			slow /= 3 // something disturbs
		}
		all[i].ran(at, &Measurement{Samples: int64(1e6 * truth[i] * slow), Elapsed: 1e6 * time.Second})
	}
	estimate(all, laps)
	for i, r := range all {
		if ratio := r.score / all[0].score / (truth[i] / truth[0]); ratio < 0.98 || ratio > 1.02 {
			t.Errorf("setting %d is off by %.3f", i, ratio)
		}
	}
}
