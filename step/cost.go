package step

// Speed is what a device can do, for estimates of how long a task takes.
type Speed struct {
	BytesPerSecond float64 // of memory. Default: 10e9, a processor's
	OpsPerSecond   float64 // additions outside of matrix products. Default: 1e9
	Multiplies     float64 // multiplications, with an addition each, a second in matrix products and convolutions. Default: 20e9
	Launch         float64 // seconds that any task takes. Default: 2e-6
}

// Estimate is how long a task takes: as long as its memory traffic or its arithmetic,
// whichever is longer, and a launch.
func (s Speed) Estimate(t *Task) float64 {
	orElse := func(v, d float64) float64 {
		if v > 0 {
			return v
		}
		return d
	}
	bytes, work, multiplies := float64(t.bytes()), 0.0, 0.0
	for _, n := range t.Nodes {
		w, m := n.Work()
		work, multiplies = work+w, multiplies+m
	}
	return orElse(s.Launch, 2e-6) + max(bytes/orElse(s.BytesPerSecond, 10e9), work/orElse(s.OpsPerSecond, 1e9), multiplies/orElse(s.Multiplies, 20e9))
}
