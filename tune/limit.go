package tune

import (
	"cmp"
	"slices"
	"strings"
)

// Limit is what a pipeline cannot be faster than.
type Limit struct {
	// Name is "read", "decode", "h2d", "device", or "overhead" where the
	// loader's own work is most of what workers do. It is "device" when the
	// transform on the device is the slowest stage, and when the device with
	// its steps is: that is what one wants. It is "latency" where no part is at
	// work for half of the time: they wait for each other.
	Name string `json:"limit"`
	// Where is "worker" or "device": of the busiest part.
	Where string `json:"limit_where,omitempty"`
	// Busy is the fraction of the time that the busiest part is at work.
	Busy float64 `json:"limit_busy_fraction"`
}

// Names of limits.
const (
	LimitRead     = "read"
	LimitDecode   = "decode"
	LimitLink     = "h2d"
	LimitDevice   = "device"
	LimitOverhead = "overhead"
	LimitLatency  = "latency"
)

// StageLoad is a stage of the best setting.
type StageLoad struct {
	Name    string  `json:"stage"`
	Where   string  `json:"where"`
	Seconds float64 `json:"seconds_per_sample"`
	Alone   float64 `json:"one_worker_seconds_per_sample"` // by the model; of the device the same
	Most    float64 `json:"max_samples_per_s"`             // if there were no other stage
	Busy    float64 `json:"busy_fraction"`                 // of the time that the workers, or the device, had
	GBPerS  float64 `json:"h2d_gb_per_s,omitempty"`        // over the link while it is at work; 0 where a decoder fetches the bytes
}

// loads are the stages of a measurement.
func loads(m Measurement, set Setting, v *Variant) []StageLoad {
	list := []StageLoad{}
	fetched := slices.ContainsFunc(m.Stages, func(s Stage) bool { return decodes(s.Name, s.Where) && s.Time > 0 })
	for _, c := range m.costs(set.Workers) {
		parallel := 1
		if c.Where == worker {
			parallel = set.Workers
		}
		seconds := c.at(set.Workers)
		l := StageLoad{Name: c.Name, Where: c.Where, Seconds: seconds, Alone: seconds}
		if seconds > 0 {
			l.Most = float64(parallel) / seconds
			// Work that began before the measured time, and small copies, which are
			// timed now and then only, may give too much.
			l.Busy = min(m.PerSecond()/l.Most, 1)
			if c.Name == link && !fetched {
				l.GBPerS = float64(m.LinkBytes) / float64(m.Samples) / seconds / 1e9
			}
		}
		if v != nil {
			if i := slices.IndexFunc(v.Stages, func(o StageCost) bool { return o.Name == c.Name }); i >= 0 {
				l.Alone = v.Stages[i].at(1)
			}
		}
		list = append(list, l)
	}
	return list
}

// onDevice is where the stages of the device are.
const onDevice = "device"

// link is the stage in which batches cross it.
const link = "h2d"

// decodes reports whether a stage is that of a device that decodes.
func decodes(stage, where string) bool {
	return where == onDevice && strings.HasPrefix(stage, LimitDecode)
}

// limit finds what is busiest: the workers together, the link, or the device.
func limit(r *Result) Limit {
	const mostly = 0.5
	if r.Fed {
		return Limit{LimitDevice, onDevice, 1 - r.DeviceWait}
	}
	l := slices.MaxFunc(parts(r.Stages), func(a, b Limit) int { return cmp.Compare(a.Busy, b.Busy) })
	if l.Busy < mostly {
		l.Name = LimitLatency
	}
	return l
}

// parts are what can limit, each with what it is busy with most: the stages of
// the device, and behind them the workers.
func parts(stages []StageLoad) (list []Limit) {
	of := map[string]string{"read": LimitRead, "decode": LimitDecode, "resize": LimitDecode, overhead: LimitOverhead}
	inWorkers := map[string]float64{}
	var workers float64
	for _, st := range stages {
		switch {
		case st.Where == worker:
			name := cmp.Or(of[st.Name], LimitDecode)
			inWorkers[name] += st.Busy
			workers += st.Busy
		case st.Name == link:
			list = append(list, Limit{LimitLink, onDevice, st.Busy})
		case decodes(st.Name, st.Where):
			list = append(list, Limit{LimitDecode, onDevice, st.Busy})
		default:
			list = append(list, Limit{LimitDevice, onDevice, st.Busy})
		}
	}
	most := LimitOverhead
	for _, name := range []string{LimitRead, LimitDecode, LimitOverhead} {
		if inWorkers[name] > inWorkers[most] {
			most = name
		}
	}
	// The loader reads small batches without workers.
	return append(list, Limit{most, worker, min(workers, 1)})
}
