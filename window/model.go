package window

import (
	"context"
	"fmt"
	"slices"
	"unsafe"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/graph"
)

// Model predicts windows of a plan by a compiled model.
type Model struct {
	p        *Plan
	s        *step.Session
	channels int
	windows  int          // that it takes at once
	results  [2][]float32 // in turn: one is added up while the next is made
	turn     int
}

// Model is the prediction by a session, which has one input, f32[n, channels, a window], and
// one output, f32[n, classes, a window], where n is at least Options.Batch: an [ErrArgument]
// otherwise. The session stays the caller's, and nobody else may run it meanwhile.
func (p *Plan) Model(s *step.Session) (*Model, error) {
	ins, outs := s.Shapes()
	fits := func(shapes []graph.Shape) bool {
		return len(shapes) == 1 && shapes[0].Type == dtype.F32 && len(shapes[0].Dims) == 2+len(p.window) && slices.Equal(shapes[0].Dims[2:], p.window)
	}
	if !fits(ins) || !fits(outs) || ins[0].Dims[0] != outs[0].Dims[0] {
		return nil, fmt.Errorf("window: %w: a model of %v makes %v; want f32[n, channels, window] and f32[n, classes, window], and windows are %v", ErrArgument, ins, outs, p.window)
	}
	if n := ins[0].Dims[0]; n < p.o.Batch {
		return nil, fmt.Errorf("window: %w: the model takes %d windows, and the plan has batches of %d", ErrArgument, n, p.o.Batch)
	}
	m := &Model{p: p, s: s, channels: ins[0].Dims[1], windows: ins[0].Dims[0]}
	for i := range m.results {
		m.results[i] = make([]float32, outs[0].Size())
	}
	return m, nil
}

// Run is [Plan.Run] with the model, as many channels as it takes, and predictions that are
// added up while the model runs on the next windows.
func (m *Model) Run(ctx context.Context, in Source, out Sink) error {
	return m.p.run(ctx, m.channels, in, m.predict, out, true)
}

// predict is the [Predict] of the model. Where there are fewer windows than it takes, the rest
// is 0.
func (m *Model) predict(ctx context.Context, windows []float32, n int) ([]float32, error) {
	in, out := numbers(m.s.Inputs()[0]), numbers(m.s.Outputs()[0])
	clear(in[copy(in, windows):])
	if _, err := m.s.Run(ctx, nil, nil); err != nil {
		return nil, err
	}
	result := m.results[m.turn]
	m.turn = 1 - m.turn
	return result[:copy(result, out[:len(out)/m.windows*n])], nil
}

// numbers are pinned memory, which begins where any type may.
func numbers(b []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}
