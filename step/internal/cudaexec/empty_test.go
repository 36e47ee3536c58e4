package cudaexec

import (
	"context"
	"testing"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/step"
)

// A step may have results without elements, and no task for them.
func TestEmpty(t *testing.T) {
	e := openTest(t)
	b := newBuilder(t)
	x := b.random(dtype.I64, 5)
	testkit.OK(t, b.SetOutputs(b.ok(b.Slice(x, []int{2}, []int{2}, []int{1}))))
	run := testkit.Must(step.Compile(b.Graph, e, step.Options{}))(t)
	defer run.Close()
	in := testkit.Must(run.Memory().Put(b.in[0], x.Shape()))(t)
	out := testkit.Must(run.Run(context.Background(), []*step.Tensor{in}, nil))(t)
	if n := out[0].Shape().Size(); n != 0 {
		t.Errorf("%d elements", n)
	}
	testkit.OK(t, out[0].Read(nil))
	testkit.OK(t, out[0].Free())
	testkit.OK(t, in.Free())
}
