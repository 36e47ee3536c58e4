package procbench

import (
	"slices"
	"time"

	"github.com/pinion-gpu/pinion/internal/stats"
)

// report makes the figures of what was measured.
func (b *bench) report() *Report {
	r := &Report{Size: b.o.Size, Procs: b.o.Procs, Repeats: b.o.Repeats}
	for _, what := range []string{OpenDevice, PinPrivate, MapShared, PinShared, SendPrivate} {
		if list := b.times[what]; len(list) > 0 {
			r.Times = append(r.Times, Timing{what, timesOf(list)})
		}
	}
	for _, p := range paths {
		if why := b.whySkipped(p); why != nil {
			r.Skipped = append(r.Skipped, Skipped{p.name, why})
			continue
		}
		for _, toHost := range directions {
			id := copyID{p.name, toHost}
			r.Rows = append(r.Rows, b.steady[id].row(id, b.steady[copyID{Private, toHost}], b.firsts[id]))
		}
	}
	return r
}

// row sums up one path in one direction. private, if not nil, are the samples
// of private pinned memory in the same direction.
func (s *samples) row(id copyID, private *samples, first []time.Duration) Row {
	row := Row{
		Path: id.path, Direction: direction(id.toHost), First: timesOf(first),
		Alone: timesOf(slices.Concat(s.alone...)), Together: timesOf(slices.Concat(s.together...)),
		Total: stats.Median(s.totals), Overlap: stats.Median(s.overlaps),
	}
	for i := range s.alone {
		p := Process{Alone: timesOf(s.alone[i]), Together: timesOf(s.together[i])}
		if private != nil {
			p.AloneOfPrivate = ratio(timesOf(private.alone[i]), p.Alone)
			p.TogetherOfPrivate = ratio(timesOf(private.together[i]), p.Together)
			if i == 0 {
				row.AloneOfPrivate, row.TogetherOfPrivate = p.AloneOfPrivate, p.TogetherOfPrivate
			}
			row.AloneOfPrivate = min(row.AloneOfPrivate, p.AloneOfPrivate)
			row.TogetherOfPrivate = min(row.TogetherOfPrivate, p.TogetherOfPrivate)
		}
		row.Processes = append(row.Processes, p)
	}
	return row
}

// ratio is the rate of b in terms of that of a.
func ratio(a, b Times) float64 { return float64(a.Median) / float64(b.Median) }

func timesOf(list []time.Duration) Times {
	median, least, most := stats.Spread(list)
	return Times{median, least, most}
}
