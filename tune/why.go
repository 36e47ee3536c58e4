package tune

import (
	"fmt"
	"slices"
	"strings"
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
	text = append(text, r.choice())
	if !r.Settled {
		text = append(text, fmt.Sprintf("Trials vary so much that the choice is not sure: the error of its rate is %s. Others may use the machine, or the budget is short.", percent(r.Error)))
	}
	return text
}

// verdict names the limit.
func (r *Result) verdict() string {
	busy := percent(r.Limit.Busy)
	switch {
	case r.Fed:
		return fmt.Sprintf("The device limits: it waits %s of the time with steps of %s. Data come fast enough.", percent(r.DeviceWait), seconds(r.StepSeconds))
	case r.Limit.Busy < 0.5:
		return fmt.Sprintf("No stage is busy for most of the time (the %s is at %s): handing small batches on takes longer than filling them, so larger batches would help; or others use the machine.", r.Limit.Name, busy)
	}
	switch r.Limit.Name {
	case LimitDisk:
		return "Reading limits: workers are busy " + busy + " of the time, most of it with that. Larger batches, fewer or smaller files, or a faster disk would help."
	case LimitDecode:
		if r.Limit.Where == onDevice {
			return "Decoding limits: the device is at it " + busy + " of the time. Smaller images would help, or workers that decode a part of them."
		}
		return "Decoding limits: workers are busy " + busy + " of the time, most of it decoding. More processors, smaller images, or decoding on the device would help."
	case LimitLink:
		return "The link limits: copies to the device take " + busy + " of the time. Fewer bytes a sample would help."
	case LimitDevice:
		return "The device limits: transforming batches takes " + busy + " of its time."
	}
	return "The loader's own work limits: workers are busy " + busy + " of the time, most of it between samples. Larger samples would help."
}

// sentence tells of a stage that takes any time.
func (st StageLoad) sentence(workers int) string {
	switch {
	case st.Seconds <= 0 || st.Busy < 0.005:
		return ""
	case st.Where == worker && workers > 1:
		return fmt.Sprintf("%s: %s a sample in each of %d workers (%s with one), at most %.0f samples/s, %s of their time.",
			st.Name, seconds(st.Seconds), workers, seconds(st.Alone), st.Most, percent(st.Busy))
	}
	text := fmt.Sprintf("%s: %s a sample, at most %.0f samples/s, %s of the time.", st.Name, seconds(st.Seconds), st.Most, percent(st.Busy))
	if st.Bytes > 0 {
		text = strings.TrimSuffix(text, ".") + fmt.Sprintf(", %.2f GB/s while it copies.", st.Bytes/1e9)
	}
	return text
}

// scaling says how much of the work of one worker each of many does.
func (r *Result) scaling() string {
	v := r.Model.variant(r.Best)
	if v == nil || r.Best.Workers == 1 {
		return ""
	}
	var one, many float64
	for _, c := range v.Stages {
		if c.Where == worker {
			one += c.at(1)
			many += c.at(r.Best.Workers)
		}
	}
	if many <= 0 || one > many { // more than there are is luck
		return ""
	}
	return fmt.Sprintf("%d workers do as much as %.1f would without contention.", r.Best.Workers, float64(r.Best.Workers)*one/many)
}

// choice says what the choice is compared with.
func (r *Result) choice() string {
	const clearly = 1.005
	best := Row{Setting: r.Best, PerSecond: clearly * r.PerSecond}
	for _, row := range r.Settings {
		if row.Final && row.PerSecond > best.PerSecond && (!r.Fed || row.DeviceWait < mostWait) {
			best = row
		}
	}
	if best.Setting == r.Best {
		return fmt.Sprintf("No setting of the last race was clearly faster; %d of %d were tried.", len(r.tried()), r.GridSize)
	}
	memory := fmt.Sprintf("%s of host memory, the choice %s", mib(best.HostBytes), mib(r.HostBytes))
	if best.PinnedBytes != r.PinnedBytes {
		memory = fmt.Sprintf("%s of pinned memory, the choice %s", mib(best.PinnedBytes), mib(r.PinnedBytes))
	}
	return fmt.Sprintf("The fastest of the last race, %v, gave %.0f samples/s. It takes %s.", best.Setting, best.PerSecond, memory)
}

// tried are the settings that ran.
func (r *Result) tried() []Row {
	return slices.DeleteFunc(slices.Clone(r.Settings), func(row Row) bool { return row.Trials == 0 })
}

func mib(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

func percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }

// seconds prints a time in the unit that suits it.
func seconds(v float64) string {
	switch {
	case v < 1e-3:
		return fmt.Sprintf("%.3g µs", v*1e6)
	case v < 1:
		return fmt.Sprintf("%.3g ms", v*1e3)
	}
	return fmt.Sprintf("%.3g s", v)
}
