package measure_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/internal/measure"
)

// counted is a sample whose k-th run, counted from the one that warms up,
// returns values[k], and which logs what is called.
func counted(log *strings.Builder, name string, values ...float64) *measure.Sample {
	k := -1
	return &measure.Sample{
		Row:   measure.Row{Name: name, Unit: "ms"},
		Check: func() error { log.WriteString(" check " + name); return nil },
		Run: func() (float64, error) {
			log.WriteString(" " + name)
			k++
			return values[k], nil
		},
	}
}

// TestRun: samples are checked and warmed up, then timed in turn; the run
// that warms up does not count.
func TestRun(t *testing.T) {
	var log strings.Builder
	a := counted(&log, "a", 1000, 3, 1, 2)
	b := counted(&log, "b", 1000, 10, 40, 20)
	b.Figure = func(run float64) float64 { return 80 / run }
	skipped, err := measure.Plan{Repeats: 3}.Run(context.Background(), []*measure.Sample{a, b})
	if err != nil || skipped != nil {
		t.Fatalf("%v, skipped %+v", err, skipped)
	}
	if want := " check a a check b b a b a b a b"; log.String() != want {
		t.Errorf("called%s, want%s", &log, want)
	}
	if want := (measure.Row{Name: "a", Value: 2, Unit: "ms", Min: 1, Max: 3}); a.Row != want {
		t.Errorf("%+v, want %+v", a.Row, want)
	}
	if want := (measure.Row{Name: "b", Value: 4, Unit: "ms", Min: 2, Max: 8}); b.Row != want {
		t.Errorf("%+v, want %+v", b.Row, want)
	}
	if fmt.Sprint(a.Runs, b.Runs) != "[3 1 2] [10 40 20]" {
		t.Errorf("runs %v and %v", a.Runs, b.Runs)
	}
}

// TestRunSkips: what cannot be done is skipped, whether the check, the
// first run or a later one finds out.
func TestRunSkips(t *testing.T) {
	var log strings.Builder
	full, able, old := counted(&log, "full"), counted(&log, "able", 1, 1, 1), counted(&log, "old")
	full.Check = func() error { return fmt.Errorf("1 GiB: %w", errors.ErrUnsupported) }
	late := counted(&log, "late")
	late.Run = func() (float64, error) { // works while it warms up, and in the first repeat
		if strings.Count(log.String(), "|") == 2 {
			return 0, errors.ErrUnsupported
		}
		log.WriteString("|")
		return 1, nil
	}
	old.Row.By = "driver"
	old.Run = func() (float64, error) { return 0, errors.ErrUnsupported }
	samples := []*measure.Sample{full, late, able, old}
	skipped, err := measure.Plan{Repeats: 2}.Run(context.Background(), samples)
	if err != nil || full.Runs != nil || late.Runs != nil || len(able.Runs) != 2 || old.Runs != nil {
		t.Fatalf("%v, skipped %+v", err, skipped)
	}
	var got []string
	for _, s := range skipped {
		got = append(got, fmt.Sprintf("%s, %s: %v", s.Name, s.By, s.Err))
	}
	if want := []string{"full, : " + full.Check().Error(), "old, driver: unsupported operation", "late, : unsupported operation"}; !slices.Equal(got, want) {
		t.Errorf("skipped %q, want %q", got, want)
	}
}

// TestRunFails: an error names its row and ends the measurement.
func TestRunFails(t *testing.T) {
	wrong := errors.New("wrong bytes")
	for _, c := range []struct {
		fails int // this call: 0 is the check, 1 warms up, then come the repeats
		err   error
		by    string
		want  string
	}{
		{0, wrong, "", "row: wrong bytes"},
		{0, wrong, "driver", "row by driver: wrong bytes"},
		{1, wrong, "", "row: wrong bytes"},
		{3, wrong, "driver", "row by driver: wrong bytes"},
		{2, wrong, "", "row: wrong bytes"},
	} {
		calls := 0
		call := func() error {
			if calls++; calls > c.fails {
				return c.err
			}
			return nil
		}
		lacks := &measure.Sample{Check: func() error { return errors.ErrUnsupported }}
		s := &measure.Sample{
			Row:   measure.Row{Name: "row", By: c.by},
			Check: call,
			Run:   func() (float64, error) { return 1, call() },
		}
		skipped, err := measure.Plan{Repeats: 3}.Run(context.Background(), []*measure.Sample{lacks, s})
		if !errors.Is(err, c.err) || err.Error() != c.want || calls != c.fails+1 {
			t.Errorf("call %d fails: %v after %d calls, want %s", c.fails, err, calls, c.want)
		}
		if len(skipped) != 1 {
			t.Errorf("call %d fails: skipped %+v, want the row that is impossible", c.fails, skipped)
		}
	}
}

// TestRunCancelled: neither the next check nor the next repeat begins.
func TestRunCancelled(t *testing.T) {
	for _, after := range []int{0, 1, 2, 3} {
		ctx, cancel := context.WithCancel(context.Background())
		runs := 0
		run := func() (float64, error) {
			if runs++; runs == after {
				cancel()
			}
			return 1, nil
		}
		if after == 0 {
			cancel()
		}
		check := func() error { return nil }
		samples := []*measure.Sample{{Check: check, Run: run}, {Check: check, Run: run}}
		_, err := measure.Plan{Repeats: 2}.Run(ctx, samples)
		if !errors.Is(err, context.Canceled) || runs != after {
			t.Errorf("cancelled in run %d: %v after %d", after, err, runs)
		}
		cancel()
	}
}

// TestRunUntil: no repeat begins after the time is up, but enough of them do.
func TestRunUntil(t *testing.T) {
	for _, c := range []struct{ enough, want int }{{1, 1}, {2, 2}, {9, 3}} {
		s := &measure.Sample{Run: func() (float64, error) { return 1, nil }}
		p := measure.Plan{Repeats: 3, Enough: c.enough, Until: time.Now().Add(-time.Second)}
		if _, err := p.Run(context.Background(), []*measure.Sample{s}); err != nil || len(s.Runs) != c.want {
			t.Errorf("enough are %d: %d repeats, want %d (%v)", c.enough, len(s.Runs), c.want, err)
		}
	}
}

// TestRunProgress: steps go up to a number that never changes.
func TestRunProgress(t *testing.T) {
	var log strings.Builder
	var steps []string
	p := measure.Plan{Repeats: 2, Progress: func(step, of int, what string) {
		steps = append(steps, fmt.Sprintf("%d/%d %s", step, of, what))
	}}
	if _, err := p.Run(context.Background(), []*measure.Sample{counted(&log, "a", 1, 1, 1), counted(&log, "b", 1, 1, 1)}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"0/6 checking a", "1/6 checking b", "2/6 a", "3/6 b", "4/6 a", "5/6 b"}; !slices.Equal(steps, want) {
		t.Errorf("%q, want %q", steps, want)
	}
}
