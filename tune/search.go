package tune

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pinion-gpu/pinion/device"
)

// SearchOptions tune a [Search]. The zero value works.
type SearchOptions struct {
	// Budget is how long trials may take together. A trial under way when it is
	// used up is cut short; only the first one always ends. Default: 30 s.
	Budget time.Duration

	// Step: batches are used for as long as the device would, and the question
	// is which setting keeps it from waiting.
	Step bool

	// Exhaustive measures all of the grid afterwards, beside the choice. It
	// does not count in the budget, and takes long.
	Exhaustive bool

	// Seed orders the trials of a round.
	Seed uint64

	// Progress, if set, is called before each trial, with the time that trials
	// took so far.
	Progress func(spent, budget time.Duration, what string)
}

const defaultBudget = 30 * time.Second

// Search finds the setting of the space to run p with: the cheapest in pinned
// bytes, and then in threads, of those that are within 3 % of the fastest.
// With Step it is the cheapest of those with which the device waits less than
// 1 % of the time; where there is none, of those within 3 % of the fastest.
//
// It calibrates a [Model] by some short runs, leaves out what that finds slow,
// and races the rest by successive halving: K. Jamieson and A. Talwalkar,
// "Non-stochastic Best Arm Identification and Hyperparameter Optimization",
// 2016. It fails with [ErrDoesNotFit] when no setting does.
func Search(ctx context.Context, p Pipeline, space Space, o SearchOptions) (*Result, error) {
	if o.Budget < 0 {
		return nil, fmt.Errorf("tune: %w: a budget of %v", device.ErrArgument, o.Budget)
	}
	if o.Budget == 0 {
		o.Budget = defaultBudget
	}
	s := &search{ctx: ctx, p: p, space: space, o: o, trials: map[Setting]*record{}, took: map[string]taken{}, runners: map[Setting]*runner{}}
	s.run = min(max(o.Budget/100, 10*time.Millisecond), time.Second)
	if err := s.enter(); err != nil {
		return nil, err
	}
	if err := s.calibrate(); err != nil {
		return nil, err
	}
	field, err := s.compete()
	if err != nil {
		return nil, err
	}
	result := s.result(field)
	if o.Exhaustive {
		if result.Grid, err = s.exhaust(result.Best); err != nil {
			return nil, err
		}
		result.Settings = s.rows(field)
	}
	return result, nil
}

// search is one run of [Search].
type search struct {
	ctx    context.Context
	p      Pipeline
	space  Space
	o      SearchOptions
	run    time.Duration // how long a trial measures
	spent  time.Duration
	took   map[string]taken // by the place of decoding
	grid   []Setting        // as listed
	fits   []Setting        // what is left of it
	trials map[Setting]*record
	model  Model

	phase   phase
	settled bool // the choice is known to be good
	runners map[Setting]*runner
	laps    int // of the races so far
	rounds  int
}

// phase is how far a search is.
type phase int

const (
	calibration phase = iota
	racing
	exhaustion // of the whole grid
)

// record is all that is known of a setting.
type record struct {
	memory  Memory
	refused error // why it does not fit
	stepped []Measurement
	free    []Measurement // without a step
}

// taken is how long trials took together.
type taken struct {
	trials int
	all    time.Duration
}

// enter looks which settings fit.
func (s *search) enter() error {
	if err := s.space.check(); err != nil {
		return err
	}
	s.grid = s.space.Settings()
	var first error
	for _, set := range s.grid {
		r := &record{}
		s.trials[set] = r
		var err error
		if r.memory, err = s.p.Need(set); errors.Is(err, ErrDoesNotFit) {
			r.refused = err
			if first == nil {
				first = err
			}
			continue
		} else if err != nil {
			return fmt.Errorf("tune: %v: %w", set, err)
		}
		s.fits = append(s.fits, set)
	}
	if len(s.fits) == 0 {
		return fmt.Errorf("tune: none of %d settings: %w", len(s.grid), first)
	}
	return nil
}

// bounded reports whether the budget ends trials: of the whole grid it does not,
// nor before something that fits was measured, in races with a step by such a
// trial.
func (s *search) bounded() bool {
	switch {
	case s.phase == exhaustion:
		return false
	case s.phase == racing && s.o.Step:
		return len(s.ran()) > 0
	}
	return slices.ContainsFunc(s.fits, func(set Setting) bool {
		r := s.trials[set]
		return len(r.free)+len(r.stepped) > 0
	})
}

// over reports whether the budget is used up.
func (s *search) over() bool { return s.bounded() && s.spent >= s.o.Budget }

// trial runs a setting, and cuts it short when the budget is used up.
func (s *search) trial(set Setting, step bool) (m Measurement, late bool, err error) {
	ctx := s.ctx
	if s.bounded() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.o.Budget-s.spent)
		defer cancel()
	}
	m, err = s.p.Try(ctx, set, Run{For: s.run, Step: step})
	return m, s.bounded() && errors.Is(err, context.DeadlineExceeded) && s.ctx.Err() == nil, err
}

// try runs one trial. It is not ok where the setting turns out not to fit, which
// refuses it from then on, and where there is no time left.
func (s *search) try(set Setting, step bool, what string) (m Measurement, ok bool, err error) {
	if err := s.ctx.Err(); err != nil {
		return m, false, err
	}
	if s.o.Progress != nil {
		s.o.Progress(min(s.spent, s.o.Budget), s.o.Budget, what+": "+set.String())
	}
	start := time.Now()
	m, late, err := s.trial(set, step)
	r := s.trials[set]
	if late {
		s.spent += max(m.Took, time.Since(start))
		return m, false, nil
	}
	if errors.Is(err, ErrDoesNotFit) {
		s.spent += time.Since(start)
		r.refused = err
		s.fits = slices.DeleteFunc(s.fits, func(f Setting) bool { return f == set })
		if len(s.fits) == 0 {
			return m, false, fmt.Errorf("tune: none of %d settings: %w", len(s.grid), err)
		}
		return m, false, nil
	}
	if err != nil {
		return m, false, fmt.Errorf("tune: %v: %w", set, err)
	}
	r.refused = nil // memory that was gone came back
	s.spent += m.Took
	t := s.took[set.Decode]
	s.took[set.Decode] = taken{t.trials + 1, t.all + m.Took}
	if step {
		r.stepped = append(r.stepped, m)
	} else {
		r.free = append(r.free, m)
	}
	return m, true, nil
}

// fewest is how many settings the last race has at most.
const fewest = 4

// compete races what the model finds plausible, and returns the last field.
func (s *search) compete() (field []*runner, err error) {
	field = s.plausible()
	s.phase = racing
	if field, err = s.halve(field, s.spent+(s.o.Budget-s.spent)/2); err != nil {
		return nil, err
	}
	if len(field) > 0 {
		if field, err = s.refine(field); err != nil {
			return nil, err
		}
	}
	for len(field) > 0 && !decided(field, s.o.Step) && s.spent+s.takes(s.leaders()...) <= s.o.Budget {
		if field, err = s.race(s.leaders(), s.spent+(s.o.Budget-s.spent)/2, "last race"); err != nil {
			return nil, err
		}
	}
	if len(field) < fewest && s.over() && !s.o.Step { // what the calibration measured has to do
		s.recall()
		field = nil
	}
	if len(field) == 0 { // all of the last race dropped out, or it has to be others
		field = s.leaders()
	}
	field, s.settled = choose(field, s.o.Step)
	s.settled = s.settled || len(s.fits) == 1 // there was nothing to choose from
	return field, nil
}

// recall takes the trials of the calibration for laps.
func (s *search) recall() {
	for _, set := range s.fits {
		for _, m := range s.trials[set].free {
			s.runner(set).ran(s.laps, &m)
			s.laps++
		}
	}
	estimate(s.ran(), s.laps)
}

// halve races the field and goes on with the better half of it, in as many
// races of the same length as it takes.
func (s *search) halve(field []*runner, until time.Duration) (_ []*runner, err error) {
	races := 1
	for n := len(field); n > fewest; n = (n + 1) / 2 {
		races++
	}
	for ; ; races-- {
		field, err = s.race(field, s.spent+(until-s.spent)/time.Duration(races), "race")
		if err != nil || races == 1 || len(field) == 0 {
			return field, err
		}
		field = keep(field, max((len(field)+1)/2, fewest), s.o.Step)
	}
}

// refine races the neighbours of the leaders, which the model may have thought
// too little of, until there are none that did not run yet or no time for them.
func (s *search) refine(field []*runner) (_ []*runner, err error) {
	const most = 6 // that join in one race
	fits := func(set Setting) bool { return slices.Contains(s.fits, set) }
	for {
		next := s.leaders()
		known := len(next)
		if known == 0 {
			return nil, nil
		}
		for _, leader := range ranked(next, s.o.Step) {
			for _, set := range s.space.neighbours(leader.setting, fits) {
				r := s.runner(set)
				if len(r.laps) == 0 && len(next) < known+most && !slices.Contains(next, r) {
					next = append(next, r)
				}
			}
		}
		if len(next) == known || s.spent+s.takes(next...) > s.o.Budget {
			return field, nil
		}
		if field, err = s.race(next, s.spent+(s.o.Budget-s.spent)/3, "race of neighbours"); err != nil {
			return nil, err
		}
	}
}

// leaders are the best of all that ran.
func (s *search) leaders() []*runner { return keep(s.ran(), fewest, s.o.Step) }

// runner is the setting in the races: what it ran before counts.
func (s *search) runner(set Setting) *runner {
	r := s.runners[set]
	if r == nil {
		r = &runner{setting: set, memory: s.trials[set].memory}
		s.runners[set] = r
	}
	return r
}

// ran lists all that ran and did not drop out.
func (s *search) ran() (list []*runner) {
	for _, set := range s.grid {
		if r := s.runners[set]; r != nil && len(r.laps) > 0 && !r.out {
			list = append(list, r)
		}
	}
	return list
}

// race runs rounds of the field until it is time or the choice is clear; one
// round at least. What does not fit drops out.
func (s *search) race(field []*runner, until time.Duration, what string) ([]*runner, error) {
	for {
		before := s.spent
		var err error
		if field, err = s.round(field, what); err != nil {
			return nil, err
		}
		if len(field) == 0 && s.over() {
			return nil, nil
		}
		if len(field) == 0 { // but others are left, or the round had failed
			for _, set := range s.fits {
				field = append(field, s.runner(set))
			}
			continue
		}
		estimate(s.ran(), s.laps)
		// A round that would end too late is none.
		if took := s.spent - before; s.over() || s.spent+took > until || decided(field, s.o.Step) {
			return field, nil
		}
	}
}

// round tries every setting of the field once. It returns those that fit.
func (s *search) round(field []*runner, what string) ([]*runner, error) {
	order := rand.New(rand.NewPCG(s.o.Seed, uint64(s.rounds))).Perm(len(field))
	s.rounds++
	for _, i := range order {
		if s.over() {
			break
		}
		r := field[i]
		m, ok, err := s.try(r.setting, s.o.Step, what)
		if err != nil {
			return nil, err
		}
		if ok {
			r.ran(s.laps, &m)
			s.laps++
		}
		r.out = s.trials[r.setting].refused != nil
	}
	return slices.DeleteFunc(field, func(r *runner) bool { return r.out || len(r.laps) == 0 }), nil
}
