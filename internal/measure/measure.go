package measure

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Sample is one thing to time.
type Sample struct {
	Row    Row                       // name, by and unit; Plan.Run adds the figures
	Check  func() error              // does the work once and looks at the outcome; nil: nothing to check
	Run    func() (float64, error)   // one repeat
	Figure func(run float64) float64 // what the row says of a repeat; nil: what Run returned
	Runs   []float64                 // what Run returned, repeat by repeat; Plan.Run sets it
}

// Result is the row.
func (s *Sample) Result() Row { return s.Row }

// Base is the sample itself, also of a type that embeds it.
func (s *Sample) Base() *Sample { return s }

// Plan says how samples are timed. Only Repeats is needed.
type Plan struct {
	Repeats int // of each sample; at least 1

	// Once each sample has Enough repeats, none begins after Until. The zero
	// Until is never.
	Enough int
	Until  time.Time

	Settle  time.Duration // pause before each repeat, not timed
	Shuffle *rand.Rand    // a new order in every turn; nil: always that of the list

	// Impossible reports whether an error only says that the device or the
	// machine cannot do something; such a sample is skipped. Nil: only
	// errors.ErrUnsupported does.
	Impossible func(error) bool

	// Progress, if set, is called before each step, with a word about it. The
	// number of steps stays the same from the first call to the last.
	Progress func(step, steps int, what string)
}

// Skipped is a sample that could not be timed, and why.
type Skipped struct {
	Name, By string // as in Row
	Err      error
}

// Run checks all samples and times them in turn. Samples that turn out to be
// impossible are left without Runs and returned, also beside an error. Any other
// error ends the run and names the sample.
func (p Plan) Run(ctx context.Context, samples []*Sample) (skipped []Skipped, err error) {
	steps := len(samples) * (1 + p.Repeats)
	var order, lost []*Sample
	for i, s := range samples {
		if err := p.step(ctx, i, steps, "checking "+s.name()); err != nil {
			return skipped, err
		}
		if err := s.warm(); p.impossible(err) {
			skipped = append(skipped, Skipped{s.Row.Name, s.Row.By, err})
		} else if err != nil {
			return skipped, s.failed(err)
		} else {
			order = append(order, s)
		}
	}
	for repeat := range p.Repeats {
		if repeat >= p.Enough && !p.Until.IsZero() && time.Now().After(p.Until) {
			break
		}
		if p.Shuffle != nil {
			p.Shuffle.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		}
		for i, s := range order {
			if err := p.step(ctx, len(samples)*(1+repeat)+i, steps, s.name()); err != nil {
				return skipped, err
			}
			time.Sleep(p.Settle)
			if v, err := s.Run(); p.impossible(err) {
				s.Runs, lost = nil, append(lost, s) // memory may have run short meanwhile
				skipped = append(skipped, Skipped{s.Row.Name, s.Row.By, err})
			} else if err != nil {
				return skipped, s.failed(err)
			} else {
				s.Runs = append(s.Runs, v)
			}
		}
		order = slices.DeleteFunc(order, func(s *Sample) bool { return slices.Contains(lost, s) })
	}
	for _, s := range order {
		s.finish()
	}
	return skipped, nil
}

// step comes before each check and each repeat.
func (p Plan) step(ctx context.Context, step, steps int, what string) error {
	if p.Progress != nil {
		p.Progress(step, steps, what)
	}
	return ctx.Err()
}

func (p Plan) impossible(err error) bool {
	if p.Impossible == nil {
		return errors.Is(err, errors.ErrUnsupported)
	}
	return err != nil && p.Impossible(err)
}

// warm checks the sample and runs it once.
func (s *Sample) warm() error {
	if s.Check != nil {
		if err := s.Check(); err != nil {
			return err
		}
	}
	_, err := s.Run()
	return err
}

// finish makes the row.
func (s *Sample) finish() {
	figures := slices.Clone(s.Runs)
	if s.Figure != nil {
		for i, v := range s.Runs {
			figures[i] = s.Figure(v)
		}
	}
	s.Row = NewRow(s.Row.Name, s.Row.By, s.Row.Unit, figures)
}

func (s *Sample) name() string {
	if s.Row.By != "" {
		return s.Row.Name + " by " + s.Row.By
	}
	return s.Row.Name
}

func (s *Sample) failed(err error) error { return fmt.Errorf("%s: %w", s.name(), err) }
