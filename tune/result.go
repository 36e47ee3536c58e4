package tune

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/pinion-gpu/pinion/internal/stats"
)

// Result is what a search found.
type Result struct {
	Best       Setting `json:"best"`
	PerSecond  float64 `json:"samples_per_s"` // [Row.Rate] of the best
	DeviceWait float64 `json:"device_wait_fraction"`
	Memory

	// Fed: the device is used as long as asked with each batch, and waits less
	// than 1 % of the time. Step is how long that is.
	Fed         bool    `json:"fed"`
	StepSeconds float64 `json:"step_seconds,omitempty"`

	// Settled: no other setting is more than 5 % faster, as far as the trials can
	// tell, and the rate of the choice is known to within 5 %; or there is no other
	// setting. Where trials vary too much for that, the choice is a guess, and is
	// not kept. Error is the standard error of its rate, as a share of it; 0 is
	// unknown.
	Settled bool    `json:"settled"`
	Error   float64 `json:"error_fraction,omitempty"`

	Limit
	Stages []StageLoad `json:"stages"` // of the best setting

	// Settings are all that were tried or refused, from the choice on: those
	// of the last race as that ranks them, the others by their rate.
	Settings []Row `json:"settings"`
	Model    Model `json:"model"`
	Grid     *Grid `json:"grid,omitempty"` // only of an exhaustive search

	// Unread are samples that could not be read, and were left out or, Replaced
	// of them, replaced, over all trials: one that is broken may count in each.
	Unread   int64 `json:"failed_samples,omitempty"`
	Replaced int64 `json:"replaced_samples,omitempty"`

	GridSize int       `json:"grid_size"` // settings there are
	Trials   int       `json:"trials"`
	Seconds  float64   `json:"seconds"` // that the trials took
	At       time.Time `json:"tuned_at"`
}

// Row is what is known of one setting.
type Row struct {
	Setting
	Memory
	Predicted  float64 `json:"predicted_samples_per_s"`
	Trials     int     `json:"trials"`
	PerSecond  float64 `json:"samples_per_s"` // the median
	Least      float64 `json:"min_samples_per_s"`
	Most       float64 `json:"max_samples_per_s"`
	DeviceWait float64 `json:"device_wait_fraction"`
	Final      bool    `json:"final"` // it was in the last race

	// Score is what settings of the last race are compared by: samples a second
	// with the drift of the machine taken out. The rates above are as they were
	// measured, so they may be in another order.
	Score float64 `json:"score_samples_per_s,omitempty"`

	Refused string `json:"refused_reason,omitempty"` // why it does not fit
}

// Rate is the samples a second that the setting counts with: Score where it was in
// the last race, else the median.
func (r *Row) Rate() float64 { return cmp.Or(r.Score, r.PerSecond) }

// Grid compares the choice with every other setting, measured beside it.
type Grid struct {
	Best       Setting `json:"best"`
	PerSecond  float64 `json:"samples_per_s"`        // of the best
	Choice     float64 `json:"choice_samples_per_s"` // in the same rounds
	Ratio      float64 `json:"choice_ratio"`         // of the choice to the best
	Error      float64 `json:"choice_ratio_error"`   // the standard error of Ratio
	Rounds     int     `json:"rounds"`               // of all settings
	LastRounds int     `json:"last_rounds"`          // of the fastest and the choice
	Settings   int     `json:"settings"`
	Seconds    float64 `json:"seconds"`
}

// result puts together what was found; the first of the field is the choice.
func (s *search) result(field []*runner) *Result {
	rows := s.rows(field)
	best := rows[0]
	merged := merge(s.trials[best.Setting].of(s.o.Step))
	r := &Result{
		Best: best.Setting, PerSecond: best.Rate(), DeviceWait: best.DeviceWait, Memory: best.Memory,
		Fed:      s.o.Step && best.DeviceWait < mostWait,
		Settled:  s.settled,
		Settings: rows, Model: s.model,
		GridSize: len(s.grid), Trials: s.tries(), Seconds: s.spent.Seconds(),
		At: time.Now().UTC().Truncate(time.Second),
	}
	if s.o.Step && merged.Batches > 0 {
		r.StepSeconds = merged.Step.Seconds() / float64(merged.Batches)
	}
	if e := field[0].err; !math.IsInf(e, 1) {
		r.Error = e
	}
	r.Stages = loads(merged, best.Setting, s.model.variant(best.Setting))
	r.Limit = limit(r)
	return r
}

// of are the measurements that count.
func (r *record) of(step bool) []Measurement {
	if step {
		return r.stepped
	}
	return r.free
}

// rows lists what is known of all settings that were tried or refused.
func (s *search) rows(field []*runner) (list []Row) {
	var rest []Row
	final := map[Setting]bool{}
	for _, r := range field {
		row := s.row(r.setting)
		row.Final, row.Score = true, r.score
		list, final[r.setting] = append(list, row), true
	}
	for _, set := range s.grid {
		if r := s.trials[set]; !final[set] && (r.refused != nil || len(r.of(s.o.Step)) > 0) {
			rest = append(rest, s.row(set))
		}
	}
	slices.SortStableFunc(rest, func(a, b Row) int {
		switch {
		case a.PerSecond > b.PerSecond:
			return -1
		case a.PerSecond < b.PerSecond:
			return 1
		}
		return 0
	})
	return append(list, rest...)
}

func (s *search) row(set Setting) Row {
	r := s.trials[set]
	row := Row{Setting: set, Memory: r.memory, Trials: len(r.of(s.o.Step))}
	row.Predicted = s.model.Rate(set)
	if s.o.Step {
		row.Predicted, _ = s.model.Stepped(set)
	}
	if r.refused != nil {
		row.Refused = r.refused.Error()
	}
	if row.Trials == 0 {
		return row
	}
	var rates, waits []float64
	for _, m := range r.of(s.o.Step) {
		rates, waits = append(rates, m.PerSecond()), append(waits, m.waitFraction())
	}
	row.PerSecond, row.Least, row.Most = stats.Median(rates), slices.Min(rates), slices.Max(rates)
	row.DeviceWait = stats.Median(waits)
	return row
}

// merge adds measurements of one setting up.
func merge(list []Measurement) (sum Measurement) {
	at := map[string]int{}
	for _, m := range list {
		sum.Took += m.Took
		sum.Elapsed += m.Elapsed
		sum.Samples += m.Samples
		sum.Batches += m.Batches
		sum.DeviceWait += m.DeviceWait
		sum.Step += m.Step
		sum.LinkBytes += m.LinkBytes
		for _, st := range m.Stages {
			i, there := at[st.Name]
			if !there {
				i, at[st.Name] = len(sum.Stages), len(sum.Stages)
				sum.Stages = append(sum.Stages, Stage{Name: st.Name, Where: st.Where})
			}
			sum.Stages[i].Time += st.Time
		}
	}
	return sum
}

// finalists is how many of the grid are measured once more beside the choice.
const finalists = 4

// exhaust measures the whole grid, and then the fastest of it beside the
// choice: of many settings that are measured a few times some look faster than
// they are, and the fastest looks so most. That goes on until the error of the
// ratio is small, or for as long as the search might take.
func (s *search) exhaust(choice Setting) (*Grid, error) {
	const rounds, least, enough = 5, 9, 0.01
	s.phase, s.runners, s.laps = exhaustion, map[Setting]*runner{}, 0
	var field []*runner
	for _, set := range s.fits {
		field = append(field, s.runner(set))
	}
	before := s.spent
	var err error
	for i := range rounds {
		if field, err = s.round(field, fmt.Sprintf("all settings, round %d of %d", i+1, rounds)); err != nil {
			return nil, err
		}
	}
	estimate(field, s.laps)
	settings := len(field)
	top := keep(field, finalists, s.o.Step)
	s.runners, s.laps = map[Setting]*runner{}, 0
	field = []*runner{s.runner(choice)}
	for _, r := range top {
		if r.setting != choice {
			field = append(field, s.runner(r.setting))
		}
	}
	g := &Grid{Rounds: rounds, Settings: settings}
	chosen, until := s.runner(choice), s.spent+s.o.Budget
	for g.LastRounds < least || g.Error > enough && s.spent < until {
		if field, err = s.round(field, fmt.Sprintf("the fastest, round %d", g.LastRounds+1)); err != nil {
			return nil, err
		}
		estimate(field, s.laps)
		if chosen.out { // memory that was free during the search is gone
			return nil, fmt.Errorf("tune: the choice beside the whole grid: %v: %w", choice, s.trials[choice].refused)
		}
		best := slices.MinFunc(fed(field, s.o.Step), faster)
		g.LastRounds++
		g.Best, g.PerSecond, g.Choice, g.Ratio = best.setting, best.score, chosen.score, chosen.score/best.score
		if g.Error = 0; best != chosen {
			g.Error = g.Ratio * math.Hypot(chosen.err, best.err)
		}
	}
	g.Seconds = (s.spent - before).Seconds()
	return g, nil
}
