package pipeline

import "github.com/pinion-gpu/pinion/step"

// CaptureStats are those of the rank's programs.
func (r *Runner) CaptureStats() (list []step.CaptureStats) {
	for _, c := range r.chunks {
		for _, p := range []*program{c.forward, c.backward} {
			if p != nil {
				list = append(list, p.x.CaptureStats())
			}
		}
	}
	return list
}
