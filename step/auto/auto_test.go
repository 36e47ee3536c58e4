package auto_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/pinion-gpu/pinion/step/graph"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/auto"
)

func TestOpen(t *testing.T) {
	dev := devicetest.Open(t)
	exec := testkit.Must(auto.Open(dev))(t)
	g := graph.New("twice")
	x := testkit.Must(g.Parameter("x", graph.MakeShape(dtype.U8, 3)))(t)
	testkit.OK(t, g.SetOutputs(testkit.Must(g.Binary(graph.Add, x, x))(t)))
	run := testkit.Must(step.Compile(g, exec, step.Options{}))(t)
	in := testkit.Must(run.Memory().Put([]byte{1, 2, 130}, x.Shape()))(t)
	out := testkit.Must(run.Run(context.Background(), []*step.Tensor{in}, nil))(t)
	got := make([]byte, 3)
	testkit.OK(t, out[0].Read(got))
	if !bytes.Equal(got, []byte{2, 4, 4}) {
		t.Errorf("got %v", got)
	}
	testkit.OK(t, errors.Join(in.Free(), out[0].Free(), run.Close(), exec.Close()))
}

// A device that runs nothing.
func TestNothing(t *testing.T) {
	_, err := auto.Open(idle{})
	testkit.WantError(t, "a device without kernels", err, device.ErrNotSupported, "idle:0", "no compiled kernels", "no Go functions")
}

type idle struct{ device.Device }

func (idle) Info() device.Info { return device.Info{ID: "idle:0"} }
