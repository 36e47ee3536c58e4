package harness_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/bench/internal/harness"
	"github.com/pinion-gpu/pinion/device"
)

// counted is a sample whose k-th run, counted from the one that warms up,
// returns values[k], and which logs what is called.
func counted(log *strings.Builder, name string, values ...float64) *harness.Sample {
	k := -1
	return &harness.Sample{
		Row:   harness.Row{Name: name, Unit: "ms"},
		Check: func() error { log.WriteString(" check " + name); return nil },
		Run: func() (float64, error) {
			log.WriteString(" " + name)
			k++
			return values[k], nil
		},
	}
}

// TestInTurn: samples are checked and warmed up, then timed in turn; the run
// that warms up does not count.
func TestInTurn(t *testing.T) {
	var log strings.Builder
	a := counted(&log, "a", 1000, 3, 1, 2)
	b := counted(&log, "b", 1000, 10, 40, 20)
	b.Figure = func(run float64) float64 { return 80 / run }
	skipped, err := harness.InTurn(context.Background(), 3, []*harness.Sample{a, b})
	if err != nil || skipped != nil {
		t.Fatalf("%v, skipped %+v", err, skipped)
	}
	if want := " check a a check b b a b a b a b"; log.String() != want {
		t.Errorf("called%s, want%s", &log, want)
	}
	if want := (harness.Row{Name: "a", Value: 2, Unit: "ms", Min: 1, Max: 3}); a.Row != want {
		t.Errorf("%+v, want %+v", a.Row, want)
	}
	if want := (harness.Row{Name: "b", Value: 4, Unit: "ms", Min: 2, Max: 8}); b.Row != want {
		t.Errorf("%+v, want %+v", b.Row, want)
	}
	if fmt.Sprint(a.Runs, b.Runs) != "[3 1 2] [10 40 20]" {
		t.Errorf("runs %v and %v", a.Runs, b.Runs)
	}
}

// TestInTurnSkips: what cannot be done is skipped, whether the check or the
// first run finds out.
func TestInTurnSkips(t *testing.T) {
	var log strings.Builder
	full, able, old := counted(&log, "full"), counted(&log, "able", 1, 1), counted(&log, "old")
	full.Check = func() error { return fmt.Errorf("1 GiB: %w", device.ErrOutOfMemory) }
	old.Row.By = "driver"
	old.Run = func() (float64, error) { return 0, device.ErrNotSupported }
	samples := []*harness.Sample{full, able, old}
	skipped, err := harness.InTurn(context.Background(), 1, samples)
	if err != nil || len(skipped) != 2 || full.Runs != nil || len(able.Runs) != 1 || old.Runs != nil {
		t.Fatalf("%v, skipped %+v", err, skipped)
	}
	if want := (harness.Skipped{Name: "full", Why: full.Check().Error()}); skipped[0] != want {
		t.Errorf("%+v, want %+v", skipped[0], want)
	}
	if want := (harness.Skipped{Name: "old", By: "driver", Why: device.ErrNotSupported.Error()}); skipped[1] != want {
		t.Errorf("%+v, want %+v", skipped[1], want)
	}
}

// TestInTurnFails: an error names its row and ends the measurement. What a
// repeat lacks is an error too: the row was possible before.
func TestInTurnFails(t *testing.T) {
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
		{2, device.ErrOutOfMemory, "", "row: " + device.ErrOutOfMemory.Error()},
	} {
		calls := 0
		call := func() error {
			if calls++; calls > c.fails {
				return c.err
			}
			return nil
		}
		lacks := &harness.Sample{Check: func() error { return device.ErrPinLimit }}
		s := &harness.Sample{
			Row:   harness.Row{Name: "row", By: c.by},
			Check: call,
			Run:   func() (float64, error) { return 1, call() },
		}
		skipped, err := harness.InTurn(context.Background(), 3, []*harness.Sample{lacks, s})
		if !errors.Is(err, c.err) || err.Error() != c.want || calls != c.fails+1 {
			t.Errorf("call %d fails: %v after %d calls, want %s", c.fails, err, calls, c.want)
		}
		if len(skipped) != 1 {
			t.Errorf("call %d fails: skipped %+v, want the row that is impossible", c.fails, skipped)
		}
	}
}

// TestInTurnCancelled: neither the next check nor the next repeat begins.
func TestInTurnCancelled(t *testing.T) {
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
		samples := []*harness.Sample{{Check: check, Run: run}, {Check: check, Run: run}}
		_, err := harness.InTurn(ctx, 2, samples)
		if !errors.Is(err, context.Canceled) || runs != after {
			t.Errorf("cancelled in run %d: %v after %d", after, err, runs)
		}
		cancel()
	}
}
