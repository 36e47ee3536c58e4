package cudaexec

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/models"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/graph"
	"github.com/pinion-gpu/pinion/step/plan"
)

// Within a budget, a normalised row is made again of the row, and an activation beside its
// gradient. The results are the same bits.
func TestRemake(t *testing.T) {
	if testing.Short() {
		t.Skip("it only computes")
	}
	e := openTest(t)
	c := models.GPT{Layers: 2, Width: 64, Heads: 2, Batch: 2, Length: 128, Vocabulary: 32, Type: dtype.BF16}
	if _, ok := device.As[device.Launcher](e.dev); ok { // so that products' scratch memory is not most of it
		c.Width, c.Batch, c.Length = 256, 16, 512
	}
	m := testkit.Must(c.Model())(t)
	ctx := context.Background()
	results := func(o step.Options) ([][]byte, *step.Executable) {
		t.Helper()
		o.Donate, o.Lend = m.Donate, m.Lend
		// Products take long, as on a device, and everything else as long as its memory.
		o.Speed = step.Speed{BytesPerSecond: 3e12, OpsPerSecond: 30e12, Multiplies: 30e12, Launch: 1e-9}
		x, err := step.Compile(m.Graph, e, o)
		testkit.OK(t, err)
		t.Cleanup(func() { testkit.OK(t, x.Close()) })
		in := testkit.Must(m.Start(ctx, e, x.Memory(), 1))(t)
		out := testkit.Must(m.Step(ctx, x, in))(t)
		var all [][]byte
		for _, r := range out {
			data := make([]byte, r.Shape().Bytes())
			testkit.OK(t, r.Read(data))
			all = append(all, data)
		}
		testkit.OK(t, m.Free(out))
		for _, p := range in {
			testkit.OK(t, p.Free())
		}
		return all, x
	}
	want, whole := results(step.Options{})
	_, err := step.Compile(m.Graph, e, step.Options{Budget: 1, Donate: m.Donate, Lend: m.Lend})
	var impossible *plan.ImpossibleError
	if !errors.As(err, &impossible) {
		t.Fatalf("a budget of one byte: %v", err)
	}
	var otherwise, besides int
	for _, share := range []int64{80, 40, 5} {
		got, x := results(step.Options{Budget: impossible.Found + (whole.PeakBytes()-impossible.Found)*share/100})
		for i := range want {
			if !bytes.Equal(got[i], want[i]) {
				t.Errorf("result %d differs at %d %% of what is between", i, share)
			}
		}
		for _, r := range x.Plan().Runs {
			switch {
			case r.Op < len(x.Tasks()):
			case r.Again:
				otherwise++
			default:
				besides++
			}
		}
		t.Logf("%v", x)
	}
	if otherwise == 0 || besides == 0 {
		t.Errorf("%d tasks made values of others that their task had made, and %d beside their own", otherwise, besides)
	}
}

// What is not computed element by element is not made in other company: sums would be
// other bits.
func TestRemakeWhatCannotBe(t *testing.T) {
	b := newBuilder(t)
	x := b.random(dtype.F32, 64, 64)
	sums := b.ok(b.Reduce(graph.ReduceSum, x, 1))
	y := b.binary(graph.Sub, x, b.ok(b.BroadcastInDim(sums, []int{64, 64}, []int{0})))
	_, err := remake([]graph.Value{y}, []graph.Value{x})
	testkit.WantError(t, "a row less its sum, of the row", err, step.ErrNotSupported, "ReduceSum")
	task, err := remake([]graph.Value{y}, []graph.Value{x, sums, y})
	testkit.OK(t, err)
	if len(task.Inputs) != 2 || len(task.Outputs) != 1 {
		t.Errorf("%v of %v", task.Outputs, task.Inputs)
	}
}
