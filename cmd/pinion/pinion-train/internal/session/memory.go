package session

import (
	"strings"

	"github.com/pinion-gpu/pinion/step/graph"

	"github.com/gomlx/gomlx/ml/train"
	"github.com/gomlx/gomlx/ml/train/optimizer"
)

// Memory is device memory by what it is for, in bytes. Of a model that accumulates
// gradients, the step is the one that updates the weights.
type Memory struct {
	Weights   int64 `json:"weights_bytes"`
	Optimizer int64 `json:"optimizer_bytes"` // moments of Adam
	Sums      int64 `json:"sums_bytes"`      // of gradients that are accumulated
	Other     int64 `json:"other_bytes"`     // averages, counters, constants, results
	Batch     int64 `json:"batch_bytes"`     // the samples of a step
	Between   int64 `json:"between_bytes"`   // activations and gradients, which the planner places
}

// Plan is what the planner says of the step, once there is one.
type Plan struct {
	PeakBytes int64  // of the step, as planned
	Tasks     int    // of the step
	Runs      int    // of tasks; those above Tasks are computed again
	Memory    Memory // sums up to PeakBytes
	Text      string // by step.Executable.String
}

// Plan is that of the step that trains; nil before the first.
func (s *Session) Plan() *Plan {
	s.mu.Lock()
	x := s.largest
	s.mu.Unlock()
	if x == nil {
		return nil
	}
	p := x.Plan()
	m := Memory{Between: p.Bytes - p.Resident}
	trainable := map[string]bool{}
	variables := map[string]bool{}
	for v := range s.store.IterVariables() {
		variables[v.Path()], trainable[v.Path()] = true, v.Trainable
	}
	counted := int64(0)
	for _, v := range x.Graph().Parameters() {
		name, n := v.Node().Attr.(*graph.Input).Name, v.Shape().Bytes()
		counted += n
		switch {
		case !variables[name]:
			m.Batch += n
		case trainable[name]:
			m.Weights += n
		case strings.HasPrefix(name, "/"+optimizer.AdamDefaultScope+"/"):
			m.Optimizer += n
		case strings.HasPrefix(name, "/"+train.AccumulatedGradientsScope+"/"):
			m.Sums += n
		default:
			m.Other += n
		}
	}
	m.Other += p.Resident - counted // with what rounding up to whole lines takes
	return &Plan{x.PeakBytes(), len(x.Tasks()), len(p.Runs), m, x.String()}
}

// PeakBytes is the most device memory that was in use at a time: of steps, variables,
// and the loader's batches.
func (s *Session) PeakBytes() int64 {
	return s.backend.Stats().Allocated.Peak + s.loader.Stats().DeviceBytes
}

// Parameters is how many numbers the model learns.
func (s *Session) Parameters() (n int) {
	for v := range s.store.IterVariables() {
		if v.Trainable {
			n += v.Shape().Size()
		}
	}
	return n
}
