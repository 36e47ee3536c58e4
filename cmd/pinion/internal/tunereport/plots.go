package tunereport

import (
	"maps"
	"slices"
	"strconv"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/page"
	"github.com/pinion-gpu/pinion/internal/plot"
	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/tune"
)

// series are the lines of the plots, in the order of the legend.
var series = []plot.Series{
	{ID: "pinned", Name: "pinned", About: "measured: the best setting with so many workers and pinned memory", Mark: "circle"},
	{ID: "pageable", Name: "pageable", About: "measured, with pageable memory and the best copiers and chunks, where it is staged", Mark: "square"},
	{ID: "modelpinned", Name: "model", About: "what the model predicts, with pinned memory", Mark: "triangle"},
	{ID: "modelpageable", Name: "model", About: "what the model predicts, with pageable memory", Mark: "cross"},
}

// plots draws rates over workers, and how long the device waits, with a legend.
func (r *Report) plots() (list []page.Graph, legend []page.LegendRow) {
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	rate := plot.Plot{
		ID: "rate", Title: "Samples a second over workers", YName: "samples/s", XName: "workers", Label: number, Short: number,
		Value: func(v float64) string { return units.Digits(v) + "/s" },
		Tick:  tick,
	}
	wait := plot.Plot{
		ID: "wait", Title: "Time that the device waits, over workers", YName: "% of the time", XName: "workers", Label: number, Short: number,
		Limit: 1, LimitText: "1 %: the device counts as fed",
		Value: func(v float64) string { return units.Digits(v) + " %" },
		Tick:  func(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) },
	}
	best := r.Result.Best
	for i, pin := range []bool{true, false} {
		measured, waits, model := plot.Line{Series: series[i]}, plot.Line{Series: series[i]}, plot.Line{Series: series[2+i]}
		rows := map[int]tune.Row{}     // the choice, or the fastest that ran
		predicted := map[int]float64{} // the most
		for _, s := range r.Result.Settings {
			if s.Pin != pin || s.Batch != best.Batch || s.Decode != best.Decode {
				continue
			}
			predicted[s.Workers] = max(predicted[s.Workers], s.Predicted)
			if old, there := rows[s.Workers]; rateOK(s.PerSecond) && rateOK(s.Least) && rateOK(s.Most) && (!there || old.Setting != best && s.Rate() > old.Rate() || s.Setting == best) {
				rows[s.Workers] = s
			}
		}
		for _, w := range slices.Sorted(maps.Keys(predicted)) {
			if s, there := rows[w]; there {
				measured.Points = append(measured.Points, plot.Point{X: int64(w), Y: s.Rate(), Low: min(s.Least, s.Rate()), High: max(s.Most, s.Rate())})
				v := 100 * min(max(s.DeviceWait, 0), 1)
				waits.Points = append(waits.Points, plot.Point{X: int64(w), Y: v, Low: v, High: v})
			}
			if v := predicted[w]; rateOK(v) {
				model.Points = append(model.Points, plot.Point{X: int64(w), Y: v, Low: v, High: v})
			}
		}
		rate.Add(model)
		rate.Add(measured)
		wait.Add(waits)
	}
	for _, s := range series {
		if slices.ContainsFunc(rate.Lines, func(l plot.Line) bool { return l.Series == s }) {
			legend = append(legend, page.Legend(s))
		}
	}
	if svg := rate.Draw(800, 400); svg != "" {
		list = append(list, page.Graph{Title: "Samples a second over workers", SVG: svg})
	}
	if r.Result.StepSeconds > 0 {
		if svg := wait.Draw(800, 300); svg != "" {
			list = append(list, page.Graph{Title: "Time that the device waits", SVG: svg})
		}
	}
	return list, legend
}

// tick prints a round rate for an axis: "500", "4k", "2.5M".
func tick(v float64) string {
	unit := ""
	for _, u := range []string{"k", "M", "G"} {
		if v < 1e3 {
			break
		}
		v, unit = v/1e3, u
	}
	return strconv.FormatFloat(v, 'g', 4, 64) + unit
}
