package train_test

import (
	"bytes"
	"context"
	"errors"
	"math"
	"testing"

	"github.com/pinion-gpu/pinion/step/graph"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/train"
)

// The scale grows after good steps, shrinks after others, which change nothing else, as
// PyTorch's does.
func TestScaler(t *testing.T) {
	exec := openExecutor(t)
	for _, parts := range []int{1, 2} {
		if onDevice && parts == 1 {
			continue
		}
		n := testkit.Must(build(kind{batch: 32, hidden: 16, rate: 0.01, scaler: &train.Scaler{Initial: 1024, Interval: 3}}))(t)
		r := n.open(t, exec, train.Options{Accumulate: parts})
		x, y := points(64, 1)
		weights := func() (all []byte) {
			for _, s := range n.State {
				if s.Param != n.Scale {
					all = append(all, n.get(t, r, s.Param)...)
				}
			}
			return all
		}
		bad := append([]float32{}, x...)
		bad[5] = float32(math.Inf(1))
		scale, good := 1024.0, 0
		for i, isBad := range []bool{false, false, false, false, true, true, false, false, true, false, false, false, false} {
			before, points := weights(), x
			if isBad {
				points = bad
			}
			got, err := r.Run(context.Background(), batches(r, points, y, 32))
			if isBad {
				testkit.WantError(t, "a bad step", err, train.ErrNotFinite)
				scale, good = scale/2, 0
			} else {
				testkit.OK(t, err)
				if good++; good == 3 {
					scale, good = scale*2, 0
				}
			}
			if got.Scale != scale || got.Skipped != isBad {
				t.Errorf("step %d: %+v, want a scale of %v", i+1, got, scale)
			}
			if bytes.Equal(before, weights()) != isBad {
				t.Errorf("step %d: an update was left out: %v, want %v", i+1, !isBad, isBad)
			}
		}
		if got := numbers(n.get(t, r, n.Scale)); float64(got[0]) != scale || int(got[1]) != good || got[2] != 0 {
			t.Errorf("the state is %v, want %v, %d", got, scale, good)
		}
	}
}

// A scale that is too large for f16 shrinks until gradients are finite, and then the model
// learns as it does in float32.
func TestScalerAdapts(t *testing.T) {
	exec := openExecutor(t)
	x, y := points(96, 3)
	const steps = 60
	plain := testkit.Must(build(kind{batch: 96, hidden: 16, rate: 0.01}))(t)
	r := plain.open(t, exec, train.Options{})
	want := run(t, r, steps, batches(r, x, y, 96))
	n := testkit.Must(build(kind{batch: 96, hidden: 16, rate: 0.01, scaler: &train.Scaler{Initial: 1 << 30}}))(t)
	s := n.open(t, exec, train.Options{Autocast: dtype.F16})
	got := run(t, s, steps, batches(s, x, y, 96))
	skipped := 0
	for _, g := range got {
		if g.Skipped {
			skipped++
		}
	}
	last := got[steps-1]
	if skipped == 0 || skipped > 20 || last.Skipped || last.Scale != math.Ldexp(1, 30-skipped) {
		t.Errorf("%d steps were left out, and the scale is %v", skipped, last.Scale)
	}
	if at := want[steps-1-skipped].Loss; math.Abs(last.Loss-at) > 0.05 {
		t.Errorf("a loss of %v, and %v in float32", last.Loss, at)
	}
	t.Logf("%d steps were left out; the scale is %v, the loss %.4f", skipped, last.Scale, last.Loss)
}

func TestScalerRefuses(t *testing.T) {
	g := graph.New("scaler")
	state := testkit.Must(g.Parameter("state", train.ScalerShape))(t)
	x := testkit.Must(g.Parameter("x", f32(4)))(t)
	for _, s := range []train.Scaler{{Initial: -1}, {Initial: math.Inf(1)}, {Initial: math.NaN()}, {Growth: 0.5}, {Backoff: 2}, {Backoff: -1}, {Interval: -1}} {
		_, err := s.State()
		testkit.WantError(t, "a bad scaler's state", err, train.ErrArgument, "scaler")
		_, _, _, err = s.Unscale(g, state, x)
		testkit.WantError(t, "a bad scaler", err, train.ErrArgument, "scaler")
	}
	var s train.Scaler
	_, err := s.Scale(g, x)
	testkit.WantError(t, "another state", err, train.ErrArgument, "f32[4]")
	_, _, _, err = s.Unscale(g, state)
	testkit.WantError(t, "no gradients", err, train.ErrArgument, "no gradients")
	ints := testkit.Must(g.Parameter("ints", graph.MakeShape(dtype.I32, 3)))(t)
	_, _, _, err = s.Unscale(g, state, ints)
	if !errors.Is(err, step.ErrArgument) {
		t.Errorf("gradients of integers: %v", err)
	}
}
