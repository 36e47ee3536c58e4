package main

import (
	"fmt"
	"path"
	"strings"

	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/tune"
)

// tuneFile is what `pinion tune --json` prints.
type tuneFile struct {
	provenance
	Dataset string       `json:"dataset"`
	Samples int64        `json:"samples"`
	Spec    string       `json:"spec"`
	Best    tune.Setting `json:"best"`
	Rate    float64      `json:"samples_per_s"`
	Settled bool         `json:"settled"`
	Seconds float64      `json:"seconds"`
	Trials  int          `json:"trials"`
	Limit   string       `json:"limit"`
	Busy    float64      `json:"limit_busy_fraction"`
	Grid    *struct {
		Best     tune.Setting `json:"best"`
		Ratio    float64      `json:"choice_ratio"`
		Error    float64      `json:"choice_ratio_error"` // of older results 0
		Settings int          `json:"settings"`
		Seconds  float64      `json:"seconds"`
	} `json:"grid"`
}

func (f *tuneFile) check() error {
	if f.Best.Workers <= 0 || f.Best.Batch <= 0 || f.Rate <= 0 || f.Seconds <= 0 || f.Samples <= 0 {
		return fmt.Errorf("%v with %g samples/s of %d, in %g s, is no setting that was found", f.Best, f.Rate, f.Samples, f.Seconds)
	}
	if f.Grid != nil && (f.Grid.Ratio <= 0 || f.Grid.Settings <= 0) {
		return fmt.Errorf("%g of the best of %d settings is no comparison", f.Grid.Ratio, f.Grid.Settings)
	}
	return nil
}

// writeTunes writes what searches found as one table.
func writeTunes(w *strings.Builder, files []*tuneFile) {
	if len(files) == 0 {
		return
	}
	var stems []string
	for _, f := range files {
		stems = append(stems, f.file)
	}
	fmt.Fprintf(w, "\n### %s: settings found\n\n", strings.Join(stems, ", "))
	fmt.Fprintf(w, "`pinion tune --exhaustive` on %s (%s). The choice is compared with the fastest of all settings, measured in turn.\n",
		plain(files[0].DeviceName), plain(files[0].Device))
	t := newTable("dataset", "samples", "choice", ">samples/s", "limit", ">trials", ">seconds", ">of the best", "the best", "commit")
	for _, f := range files {
		ratio, best := "", ""
		if f.Grid != nil {
			ratio, best = units.Percent(f.Grid.Ratio), f.Grid.Best.String()
			if f.Grid.Error > 0 {
				ratio += " ± " + units.Percent(f.Grid.Error)
			}
			ratio += fmt.Sprintf(" of %d", f.Grid.Settings)
		}
		t.add(plain(path.Base(f.Dataset)), fmt.Sprintf("%s of %s", number(float64(f.Samples)), plain(f.Spec)), f.Best.String(), number(f.Rate),
			fmt.Sprintf("%s, %s busy", plain(f.Limit), units.Percent(f.Busy)), fmt.Sprint(f.Trials), fmt.Sprintf("%.1f", f.Seconds),
			ratio, best, fmt.Sprintf("%.12s", f.Commit))
	}
	t.write(w)
}
