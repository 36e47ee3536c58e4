package tune

import (
	"cmp"
	"math"
	"slices"

	"github.com/pinion-gpu/pinion/internal/stats"
)

// tolerance is how much slower than the fastest a setting may be that is
// chosen because it takes less memory or fewer threads.
const tolerance = 0.03

// mostWait is the share of the time that the device may wait and still count
// as fed.
const mostWait = 0.01

// runner is a setting in races.
type runner struct {
	setting Setting
	memory  Memory
	out     bool // it turned out not to fit
	laps    []lap
	waits   []float64

	// What is known of it: its samples a second, the standard error of their
	// logarithm, and the share of the time that the device waited. Before a
	// race they are predicted.
	score, err, wait float64
}

// lap is one try.
type lap struct {
	at   int     // its number among the laps of all
	rate float64 // the logarithm of the samples a second
}

// ran notes a try.
func (r *runner) ran(at int, m *Measurement) {
	const least = 1e-9 // for a logarithm
	r.laps = append(r.laps, lap{at, math.Log(max(m.PerSecond(), least))})
	r.waits = append(r.waits, m.waitFraction())
}

// cheaper orders settings by what they take: pinned bytes, then threads (workers
// and copiers), then host bytes.
func cheaper(a, b *runner) int {
	return cmp.Or(
		cmp.Compare(a.memory.PinnedBytes, b.memory.PinnedBytes),
		cmp.Compare(a.setting.threads(), b.setting.threads()),
		cmp.Compare(a.memory.HostBytes, b.memory.HostBytes),
		cmp.Compare(a.memory.DeviceBytes, b.memory.DeviceBytes),
	)
}

// faster orders settings by their score.
func faster(a, b *runner) int { return cmp.Compare(b.score, a.score) }

// fed are those that keep the device busy, or all where none does or where
// there is nothing to be kept busy.
func fed(field []*runner, step bool) []*runner {
	if !step {
		return field
	}
	var list []*runner
	for _, r := range field {
		if r.wait < mostWait {
			list = append(list, r)
		}
	}
	if list == nil {
		return field
	}
	return list
}

// ranked orders a field: first those that would do as well as the fastest,
// from the cheapest on, then the others from the fastest on. The first is the
// choice.
func ranked(field []*runner, step bool) []*runner {
	able := fed(field, step)
	limit := (1 - tolerance) * slices.MinFunc(able, faster).score
	var good, rest []*runner
	for _, r := range field {
		if r.score >= limit && slices.Contains(able, r) {
			good = append(good, r)
		} else {
			rest = append(rest, r)
		}
	}
	slices.SortStableFunc(good, cheaper)
	slices.SortStableFunc(rest, faster)
	return append(good, rest...)
}

// keep is what goes on to the next race: n of the field.
func keep(field []*runner, n int, step bool) []*runner {
	if len(field) <= n {
		return field
	}
	return byTurns(field, step)[:n]
}

// byTurns orders a field by turns from the front of the ranking and from the
// fastest, so that of those in front neither cheap nor fast settings are missing
// because there are many of the other kind.
func byTurns(field []*runner, step bool) (list []*runner) {
	byRank := ranked(field, step)
	bySpeed := slices.Clone(field)
	slices.SortStableFunc(bySpeed, faster)
	for i := range field {
		for _, r := range []*runner{byRank[i], bySpeed[i]} {
			if !slices.Contains(list, r) {
				list = append(list, r)
			}
		}
	}
	return list
}

// estimate works out what is known of all runners together. The logarithm of a
// rate is taken as a value of the setting, plus a drift of the machine that
// changes slowly from lap to lap, plus noise. Setting and drift are found by
// turns, as what is left of the other: back-fitting, here with medians, which
// a lap that something disturbed does not move.
func estimate(all []*runner, laps int) {
	const passes = 20
	drift := make([]float64, laps)
	rest := make([]float64, laps) // of a lap, without its setting
	for range passes {
		for _, r := range all {
			var values []float64
			for _, l := range r.laps {
				values = append(values, l.rate-drift[l.at])
			}
			r.score = stats.Median(values)
			for _, l := range r.laps {
				rest[l.at] = l.rate - r.score
			}
		}
		for i := range drift {
			drift[i] = stats.Median(rest[max(i-driftLaps, 0):min(i+driftLaps+1, laps)])
		}
		// Only differences between laps are drift.
		middle := stats.Median(drift)
		for i := range drift {
			drift[i] -= middle
		}
	}
	// The noise of a lap, by the median deviation, which a few disturbed laps do
	// not move. A setting that is fitted to one or two laps leaves nothing in them,
	// and of more laps the one in the middle says nothing.
	const least = 3
	var deviations []float64
	for _, r := range all {
		if len(r.laps) < least {
			continue
		}
		var own []float64
		for _, l := range r.laps {
			own = append(own, math.Abs(rest[l.at]-drift[l.at]))
		}
		slices.Sort(own)
		deviations = append(deviations, own[1:]...)
	}
	sigma := math.Inf(1)
	if len(deviations) >= 2*least {
		const ofNormal = 1.4826 // standard deviation over median deviation
		sigma = ofNormal * stats.Median(deviations)
	}
	for _, r := range all {
		r.score, r.wait = math.Exp(r.score), stats.Median(r.waits)
		r.err = 1.2533 * sigma / math.Sqrt(float64(len(r.laps))) // of a median
	}
}

// driftLaps is how many laps before and after one tell how the machine drifts.
const driftLaps = 4

// settled reports whether the choice is known to be good: two standard errors
// of the difference would not make any other setting more than 5 % faster, and its
// own rate is known to within 5 %, which matters where the others dropped out. The
// choice need not be the fastest by score.
func settled(choice *runner, field []*runner, step bool) bool {
	const most = 0.05
	for _, r := range fed(field, step) {
		if r != choice && !(choice.score*math.Exp(-2*math.Hypot(r.err, choice.err)) >= (1-most)*r.score) {
			return false
		}
	}
	return choice.err <= most
}

// decided reports whether more rounds could not change the choice: it is
// settled, and what is cheaper is known to be too slow.
func decided(field []*runner, step bool) bool {
	choice, able := ranked(field, step)[0], fed(field, step)
	best := slices.MinFunc(able, faster).score
	for _, r := range able {
		if cheaper(r, choice) < 0 && !(r.score*math.Exp(2*r.err) <= (1-tolerance)*best) {
			return false
		}
	}
	return settled(choice, field, step)
}

// choose ranks the last field: the first is the choice. A cheaper setting is not
// chosen for its luck, so all but the fastest are ranked by their score less the
// standard error of the difference. The fastest is the one with the highest score
// less its own error, so not one of few laps.
func choose(field []*runner, step bool) (_ []*runner, isSettled bool) {
	low := func(r *runner) float64 { return r.score * math.Exp(-r.err) }
	best := slices.MaxFunc(field, func(a, b *runner) int { return cmp.Compare(low(a), low(b)) })
	measured := map[*runner]float64{}
	for _, r := range field {
		measured[r] = r.score
		if r != best && !math.IsInf(best.err, 1) && !math.IsInf(r.err, 1) {
			r.score *= math.Exp(-math.Hypot(r.err, best.err))
		}
	}
	list := ranked(field, step)
	for _, r := range field {
		r.score = measured[r]
	}
	return list, settled(list[0], field, step)
}
