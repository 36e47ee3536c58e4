package tune

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/pinion-gpu/pinion/internal/units"
)

// Why says in sentences what limits the pipeline with the best setting, with
// the numbers that show it, and what could be done.
func (r *Result) Why() []string {
	text := []string{r.verdict()}
	for _, st := range r.Stages {
		if s := st.sentence(r.Best.Workers); s != "" {
			text = append(text, s)
		}
	}
	if s := r.scaling(); s != "" {
		text = append(text, s)
	}
	return append(text, r.choice())
}

// Doubt says why the choice is a guess; it is empty where the result is settled.
func (r *Result) Doubt() string {
	if r.Settled {
		return ""
	}
	text := "Not settled: trials of one setting differ by more than the settings do"
	switch {
	case r.Error == 0:
		text = "Not settled: there was no time for more than a few trials"
	default:
		text += fmt.Sprintf(" (the rate of the choice is known to ± %s)", units.Percent(r.Error))
	}
	return text + ". Treat the choice as a guess: other programs may use the machine, or the budget is too short."
}

// verdict names the limit.
func (r *Result) verdict() string {
	busy := units.Percent(r.Limit.Busy)
	if r.Fed {
		return fmt.Sprintf("The device is the limit: with steps of %s it waits %s of the time. Data arrives fast enough.", units.Seconds(r.StepSeconds), units.Percent(r.DeviceWait))
	}
	switch r.Limit.Name {
	case LimitLatency:
		return "Latency is the limit: no part is busy for half of the time (" + r.busy() + "). Larger batches or a larger prefetch would help, unless other programs use the machine."
	case LimitRead:
		return "Reading is the limit: workers are busy " + busy + " of the time, mostly reading. Fewer and larger files, or a faster disk, would help."
	case LimitDecode:
		if r.Limit.Where == onDevice {
			return "Decoding is the limit: the device decodes " + busy + " of the time. Smaller images, or decoding some in the workers, would help."
		}
		return "Decoding is the limit: workers are busy " + busy + " of the time, mostly decoding. More processors, smaller images, or decoding on the device would help."
	case LimitLink:
		return "The link is the limit: copies to the device take " + busy + " of the time. Fewer bytes per sample would help."
	case LimitDevice:
		return "The device is the limit: transforming batches takes " + busy + " of its time."
	}
	return "The loader's own work is the limit: workers are busy " + busy + " of the time, mostly between samples. Larger samples would help."
}

// busy says how busy every part is: "the link 12.0 %, workers 31.5 %".
func (r *Result) busy() string {
	names := map[string]string{LimitLink: "the link", LimitDecode: "decoding on the device", LimitDevice: "the device"}
	var text []string
	for _, p := range parts(r.Stages) {
		name := names[p.Name]
		if p.Where == worker {
			name = "workers"
		}
		if p.Busy > 0 {
			text = append(text, name+" "+units.Percent(p.Busy))
		}
	}
	return cmp.Or(strings.Join(text, ", "), "no stage took any time")
}

// sentence tells of a stage that takes any time.
func (st StageLoad) sentence(workers int) string {
	switch {
	case st.Seconds <= 0 || st.Busy < 0.005:
		return ""
	case st.Where == worker && workers > 1:
		return fmt.Sprintf("%s: %s per sample in each of %d workers (%s with one), at most %.0f samples/s, %s of their time.",
			st.Name, units.Seconds(st.Seconds), workers, units.Seconds(st.Alone), st.Most, units.Percent(st.Busy))
	}
	text := fmt.Sprintf("%s: %s per sample, at most %.0f samples/s, %s of the time.", st.Name, units.Seconds(st.Seconds), st.Most, units.Percent(st.Busy))
	if st.GBPerS > 0 {
		text = strings.TrimSuffix(text, ".") + fmt.Sprintf(", %.2f GB/s while it copies.", st.GBPerS)
	}
	return text
}

// scaling says how much of the work of one worker each of many does.
func (r *Result) scaling() string {
	if r.Best.Workers == 1 || r.Model.variant(r.Best) == nil { // then nothing is known of one
		return ""
	}
	var one, many float64
	for _, st := range r.Stages {
		if st.Where == worker {
			one += st.Alone
			many += st.Seconds
		}
	}
	if many <= 0 || one > many { // more than there are is luck
		return ""
	}
	return fmt.Sprintf("%d workers do the work of %.1f without contention.", r.Best.Workers, float64(r.Best.Workers)*one/many)
}

// choice says what the choice is compared with, by what the last race found.
func (r *Result) choice() string {
	const clearly = 1.005
	var choice, best Row
	for _, row := range r.Settings {
		if row.Setting == r.Best {
			choice = row
		}
		if row.Final && row.Score > best.Score && (!r.Fed || row.DeviceWait < mostWait) {
			best = row
		}
	}
	if choice.Score <= 0 || best.Score <= clearly*choice.Score {
		return fmt.Sprintf("No setting of the last race was clearly faster; %d of %d were tried.", len(r.tried()), r.GridSize)
	}
	takes := fmt.Sprintf("%s of host memory, the choice %s", units.Bytes(best.HostBytes), units.Bytes(choice.HostBytes))
	switch {
	case best.PinnedBytes != choice.PinnedBytes:
		takes = fmt.Sprintf("%s of pinned memory, the choice %s", units.Bytes(best.PinnedBytes), units.Bytes(choice.PinnedBytes))
	case best.threads() != choice.threads():
		takes = fmt.Sprintf("%d threads, the choice %d", best.threads(), choice.threads())
	}
	return fmt.Sprintf("The fastest of the last race, %v, is %s faster than the choice, but takes %s.", best.Setting, units.Percent(best.Score/choice.Score-1), takes)
}

// tried are the settings that ran.
func (r *Result) tried() []Row {
	return slices.DeleteFunc(slices.Clone(r.Settings), func(row Row) bool { return row.Trials == 0 })
}
