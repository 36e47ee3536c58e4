package pipeline

import (
	"time"

	"github.com/pinion-gpu/pinion/step/train"
)

// Report is how a step was cut, and what is expected of it.
type Report struct {
	Stages []Stage

	Bubble    float64 // how long ranks wait, relative to the time in which they compute: see [Bubble]
	Simulated float64 // the same by [Simulate], with the stages' seconds, and the longest send by Options.Link
	Seconds   float64 // the passes of a step, as simulated

	Took time.Duration // the last step of this rank, with everything; 0: there was none
}

// Stage is what one stage has to do. Seconds and bytes but for StateBytes are those of a
// micro-batch.
type Stage struct {
	Rank            int
	Operations      int // of both ways
	ForwardSeconds  float64
	BackwardSeconds float64

	StateBytes int64 // of state that its passes read, and of sums of gradients; moments, and weights in another type, are not in it
	KeptBytes  int64 // of what its way forward keeps for the way back
	InFlight   int   // micro-batches that are under way at most
	UpBytes    int64 // sent to the next stage
	DownBytes  int64 // sent to the stage before
}

// Plan reports how [Open] would cut a step for so many ranks, and fails as it does. It
// compiles nothing.
func Plan(s train.Step, ranks int, o Options) (*Report, error) {
	l, err := lay(&s, ranks, o)
	if err != nil {
		return nil, err
	}
	return l.report()
}

// Report says how the step was cut.
func (r *Runner) Report() (*Report, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	report, err := r.l.report()
	if err != nil {
		return nil, err
	}
	report.Took = r.took
	return report, nil
}

func (l *layout) report() (*Report, error) {
	list := make([]Stage, len(l.parts))
	forward, backward := make([]float64, len(list)), make([]float64, len(list))
	for n, s := range l.stage {
		list[s].Operations++
		if seconds := l.seconds(n); l.forward[n] {
			forward[s] += seconds
		} else {
			backward[s] += seconds
		}
	}
	for s, st := range l.parts {
		r := &list[s]
		r.Rank, r.ForwardSeconds, r.BackwardSeconds, r.InFlight = s%l.ranks, forward[s], backward[s], l.inFlight[s]
		for i := range st.state {
			r.StateBytes += l.step.State[i].Param.Shape().Bytes()
		}
		for _, i := range st.gradients {
			r.StateBytes += sumShape(l.step.Gradients[i]).Bytes()
		}
		for v := range st.kept {
			r.KeptBytes += v.Shape().Bytes()
		}
		for _, v := range st.up {
			r.UpBytes += v.Shape().Bytes()
		}
		for _, v := range st.down {
			r.DownBytes += v.Shape().Bytes()
		}
	}
	send := 0.0
	for _, s := range list {
		if l.o.Link > 0 {
			send = max(send, float64(max(s.UpBytes, s.DownBytes))/l.o.Link)
		}
	}
	chunks := len(l.parts) / l.ranks
	total, bubble, err := Simulate(l.schedule, forward, backward, send)
	return &Report{Stages: list, Bubble: Bubble(l.ranks, chunks, l.o.Micro), Simulated: bubble, Seconds: total}, err
}
