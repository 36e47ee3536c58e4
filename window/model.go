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

// Model is the prediction by a compiled model. The session's graph has one input that is no
// tensor of the session, f32[n, channels, a window], and one output, f32[n, classes, a window],
// where n is at least Options.Batch: an [ErrArgument] otherwise. Where there are fewer
// windows than n, the rest is 0. The session is the caller's, and only for this until Run is
// over.
func (p *Plan) Model(s *step.Session, channels int) (Predict, error) {
	bad := func(format string, args ...any) (Predict, error) {
		return nil, fmt.Errorf("window: %w: %s", ErrArgument, fmt.Sprintf(format, args...))
	}
	ins, outs := s.Inputs(), s.Outputs()
	if len(ins) != 1 || len(outs) != 1 {
		return bad("the model has %d inputs and %d outputs; want one each", len(ins), len(outs))
	}
	// The input is among the parameters, of which the session keeps the others.
	fits := func(v graph.Value, bytes []byte) bool {
		shape := v.Shape()
		return shape.Type == dtype.F32 && len(shape.Dims) == 2+len(p.window) && slices.Equal(shape.Dims[2:], p.window) && shape.Bytes() == int64(len(bytes))
	}
	g := s.Executable().Graph()
	at := slices.IndexFunc(g.Parameters(), func(v graph.Value) bool { return fits(v, ins[0]) && v.Shape().Dims[1] == channels })
	if at < 0 {
		return bad("the model has no input f32[n, %d, %v]", channels, p.window)
	}
	n := g.Parameters()[at].Shape().Dims[0]
	if n < p.o.Batch {
		return bad("the model takes %d windows, and the plan has batches of %d", n, p.o.Batch)
	}
	i := slices.IndexFunc(g.Outputs(), func(v graph.Value) bool { return fits(v, outs[0]) && v.Shape().Dims[0] == n })
	if i < 0 {
		return bad("the model has no result f32[%d, classes, %v]", n, p.window)
	}
	// What is read while the next call runs is not in the session's place.
	var results [2][]float32
	for k := range results {
		results[k] = make([]float32, len(outs[0])/4)
	}
	turn := 0
	return func(ctx context.Context, windows []float32, count int) ([]float32, error) {
		in := numbers(ins[0])
		clear(in[copy(in, windows):])
		if _, err := s.Run(ctx, nil, nil); err != nil {
			return nil, err
		}
		result := results[turn]
		turn = 1 - turn
		return result[:copy(result, numbers(outs[0])[:len(result)/n*count])], nil
	}, nil
}

// numbers are pinned memory, which begins where any type may.
func numbers(b []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}
