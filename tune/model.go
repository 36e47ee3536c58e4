package tune

import (
	"cmp"
	"math"
	"slices"
)

// Model predicts the rate of every setting from the costs of the stages, as a
// few short runs gave them.
type Model struct {
	Variants []Variant `json:"variants"`

	// Corrections by batch size and by prefetch: what was measured over what
	// the stages alone predict, at a few places of those axes.
	Batch    []Value `json:"batch_corrections,omitempty"`
	Prefetch []Value `json:"prefetch_corrections,omitempty"`

	// Steps is how long the device uses a batch, by batch size; empty where
	// batches are not used at all.
	Steps []Value `json:"steps,omitempty"`
}

// Variant is the costs where samples are decoded in one place and cross the
// link in one way: from pinned memory, from pageable memory, or staged.
type Variant struct {
	Decode     string      `json:"decode,omitempty"`
	Pin        bool        `json:"pin"`
	Staged     bool        `json:"staged,omitempty"`
	Stages     []StageCost `json:"stages"`
	Correction float64     `json:"correction"` // measured over predicted

	// What a sample costs on the link with so many copiers, or with chunks of
	// so many bytes, over what Stages say: at a few places of those axes.
	Copiers []Value `json:"copier_costs,omitempty"`
	Chunks  []Value `json:"chunk_costs,omitempty"`

	base Setting // that Stages were measured with, but for the workers
}

// StageCost is what a sample costs in a stage, in seconds, at a few numbers of
// workers: with contention for the disk, for memory or for processors it costs
// more with many. Between two of them it is a line, which is Amdahl's law there
// (a part that many can do, and a part that only one can); one law for all
// numbers would miss the bends where the disk or the processors run out.
type StageCost struct {
	Name    string  `json:"stage"`
	Where   string  `json:"where"`
	Seconds []Value `json:"costs"`
}

// Value is a value at one place of an axis.
type Value struct {
	At    int     `json:"at"`
	Value float64 `json:"value"`
}

// overhead is the stage of workers that is in no other: the loader's own work.
const overhead = "overhead"

// at is the cost of a sample with that many workers.
func (c StageCost) at(workers int) float64 {
	return interpolate(c.Seconds, workers, 0, func(at float64) float64 { return at })
}

// variant finds the costs for a setting.
func (m *Model) variant(s Setting) *Variant {
	for i := range m.Variants {
		if v := &m.Variants[i]; v.Decode == s.Decode && v.Pin == s.Pin && v.Staged == s.staged() {
			return v
		}
	}
	return nil
}

// Rate predicts the samples a second of a setting when every batch is given
// back at once: the least over the stages. It is 0 for a setting of which the
// model knows nothing.
func (m *Model) Rate(s Setting) float64 {
	v := m.variant(s)
	if v == nil {
		return 0
	}
	return m.rate(v, s)
}

// rate is the rate of a setting by the costs of a variant.
func (m *Model) rate(v *Variant, s Setting) float64 {
	return v.rate(s) * v.Correction * interpolate(m.Batch, s.Batch, 1, math.Log) * interpolate(m.Prefetch, s.Prefetch, 1, math.Log)
}

// rate is the rate by the stages alone.
func (v *Variant) rate(s Setting) float64 {
	var busy, slowest, behind float64
	for _, c := range v.Stages {
		cost := c.at(s.Workers)
		if c.Where == worker {
			busy += cost
			continue
		}
		if c.Name == link {
			cost *= v.staging(s)
		}
		slowest = max(slowest, cost)
		behind += cost
	}
	slowest = max(slowest, busy/float64(s.Workers))
	// Little's law: no more batches are under way than have a place, and each
	// takes as long as its samples take the workers, the last of them and the
	// copy.
	b := float64(s.Batch)
	latency := b*busy/float64(s.Workers) + busy + b*behind
	slowest = max(slowest, latency/(b*float64(s.Prefetch+1)))
	if slowest <= 0 {
		return 0
	}
	return 1 / slowest
}

// staging is how much more a sample costs on the link than with the copiers and
// the chunks that Stages were measured with. Copiers share the processors' part
// of a copy, and the link's part is there with any number of them: a line over
// one by their number. What chunks cost is taken to be the same with each.
func (v *Variant) staging(s Setting) float64 {
	return interpolate(v.Copiers, s.Copiers, 1, func(at float64) float64 { return 1 / at }) *
		interpolate(v.Chunks, int(s.ChunkBytes), 1, math.Log)
}

// Stepped predicts the samples a second of a setting, and the share of the
// time that the device waits, when the device uses every batch.
func (m *Model) Stepped(s Setting) (rate, wait float64) {
	rate = m.Rate(s)
	step := interpolate(m.Steps, s.Batch, 0, math.Log)
	if step <= 0 || rate <= 0 {
		return rate, 1
	}
	most := float64(s.Batch) / step
	return min(rate, most), max(0, 1-rate/most)
}

// interpolate is the value at a place: on the line between the nearest ones
// that are known, over the scale of the axis.
func interpolate(list []Value, at int, none float64, scale func(float64) float64) float64 {
	if len(list) == 0 {
		return none
	}
	i := slices.IndexFunc(list, func(v Value) bool { return v.At >= at })
	switch {
	case i < 0:
		return list[len(list)-1].Value
	case i == 0 || list[i].At == at:
		return list[i].Value
	}
	a, b := list[i-1], list[i]
	from := scale(float64(a.At))
	share := (scale(float64(at)) - from) / (scale(float64(b.At)) - from)
	return a.Value + share*(b.Value-a.Value)
}

// add puts the costs of a measurement to the stages: those of the device, and
// with ofWorkers those of the workers too.
func (v *Variant) add(costs []StageCost, ofWorkers bool) {
	for _, c := range costs {
		if c.Where == worker && !ofWorkers {
			continue
		}
		i := slices.IndexFunc(v.Stages, func(o StageCost) bool { return o.Name == c.Name })
		if i < 0 {
			v.Stages = append(v.Stages, c)
		} else {
			v.Stages[i].Seconds = append(v.Stages[i].Seconds, c.Seconds...)
			slices.SortFunc(v.Stages[i].Seconds, func(a, b Value) int { return cmp.Compare(a.At, b.At) })
		}
	}
}

// worker is where the stages of workers are.
const worker = "worker"

// costs are the stages of a measurement, a sample: what workers did outside
// every stage included, what they waited for left out.
func (m *Measurement) costs(workers int) (list []StageCost) {
	if m.Samples == 0 {
		return nil
	}
	rest := m.Elapsed.Seconds() * float64(workers)
	measured := false
	for _, s := range m.Stages {
		if s.Where == worker {
			rest -= s.Time.Seconds()
			measured = true
		}
		if s.Name != idle {
			list = append(list, StageCost{s.Name, s.Where, []Value{{workers, s.Time.Seconds() / float64(m.Samples)}}})
		}
	}
	if measured {
		list = append(list, StageCost{overhead, worker, []Value{{workers, max(rest, 0) / float64(m.Samples)}}})
	}
	return list
}

// seconds is what a sample costs in a stage.
func (m *Measurement) seconds(stage string) float64 {
	i := slices.IndexFunc(m.Stages, func(s Stage) bool { return s.Name == stage })
	if i < 0 || m.Samples == 0 {
		return 0
	}
	return m.Stages[i].Time.Seconds() / float64(m.Samples)
}

// idle is the stage in which workers wait.
const idle = "idle"
