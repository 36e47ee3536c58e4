package harness

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pinion-gpu/pinion/device"
)

// Sample is a row to be measured.
type Sample struct {
	Row    Row                       // name, by and unit; InTurn adds the figures
	Check  func() error              // does the work once and looks at what came of it
	Run    func() (float64, error)   // one repeat
	Figure func(run float64) float64 // what the row says of a repeat; nil: what Run returned
	Runs   []float64                 // what Run returned, repeat by repeat; InTurn sets it
}

// Measurable is a sample that makes a row of type R of itself, once it has
// Runs. A program's own embeds a [Sample], which makes a [Row].
type Measurable[R any] interface {
	Result() R
	base() *Sample
}

// Result is the row.
func (s *Sample) Result() Row { return s.Row }

func (s *Sample) base() *Sample { return s }

// Add measures samples by [InTurn] and adds their rows to d, and what was
// skipped.
func Add[R any, S Measurable[R]](ctx context.Context, d *Document[R], samples []S) error {
	var list []*Sample
	for _, s := range samples {
		list = append(list, s.base())
	}
	skipped, err := InTurn(ctx, d.Repeats, list)
	d.Skipped = append(d.Skipped, skipped...)
	if err != nil {
		return err
	}
	for _, s := range samples {
		if s.base().Runs != nil {
			d.Rows = append(d.Rows, s.Result())
		}
	}
	return nil
}

// settle is how long a driver is given to clear the device memory that the
// sample before freed: 768 MiB held up the first copy of the next by 0.4 ms.
const settle = 20 * time.Millisecond

// InTurn checks all samples and times them in turn, repeats times each, which
// is 1 or more. Samples that are [Impossible] are left without Runs, and are
// returned, also beside an error.
func InTurn(ctx context.Context, repeats int, samples []*Sample) (skipped []Skipped, err error) {
	var able []*Sample
	for _, s := range samples {
		if err := ctx.Err(); err != nil {
			return skipped, err
		}
		err := s.Check()
		if err == nil {
			_, err = s.Run() // warms up
		}
		switch {
		case Impossible(err):
			skipped = append(skipped, Skipped{s.Row.Name, s.Row.By, err.Error()})
		case err != nil:
			return skipped, s.failed(err)
		default:
			able = append(able, s)
		}
	}
	for range repeats {
		for _, s := range able {
			if err := ctx.Err(); err != nil {
				return skipped, err
			}
			time.Sleep(settle)
			v, err := s.Run()
			if err != nil {
				return skipped, s.failed(err)
			}
			s.Runs = append(s.Runs, v)
		}
	}
	for _, s := range able {
		figures := slices.Clone(s.Runs)
		if s.Figure != nil {
			for i, v := range s.Runs {
				figures[i] = s.Figure(v)
			}
		}
		s.Row = NewRow(s.Row.Name, s.Row.By, s.Row.Unit, figures)
	}
	return skipped, nil
}

func (s *Sample) failed(err error) error {
	if s.Row.By != "" {
		return fmt.Errorf("%s by %s: %w", s.Row.Name, s.Row.By, err)
	}
	return fmt.Errorf("%s: %w", s.Row.Name, err)
}

// Impossible reports whether err is about what the device or the machine lacks.
func Impossible(err error) bool {
	for _, lack := range []error{device.ErrNotSupported, device.ErrPinLimit, device.ErrOutOfMemory, errors.ErrUnsupported} {
		if errors.Is(err, lack) {
			return true
		}
	}
	return false
}
