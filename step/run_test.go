package step_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	_ "github.com/pinion-gpu/pinion/device/host"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/host"
)

func newExecutor(t testing.TB) step.Executor {
	dev := testkit.Must(device.Open("host"))(t)
	t.Cleanup(func() { testkit.OK(t, dev.Close()) })
	exec := testkit.Must(host.Open(dev))(t)
	t.Cleanup(func() { testkit.OK(t, exec.Close()) })
	return exec
}

func floats(v ...float32) []byte {
	var b []byte
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

func ExampleCompile() {
	dev, _ := device.Open("host")
	defer dev.Close()
	exec, _ := host.Open(dev)
	defer exec.Close()

	g := step.NewGraph("square")
	x, _ := g.Parameter("x", step.MakeShape(dtype.F32, 3))
	y, _ := g.Binary(step.Mul, x, x)
	_ = g.SetOutputs(y)
	run, err := step.Compile(g, exec, step.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer run.Close()

	in, _ := run.Memory().Put(floats(1, 2, 3), x.Shape())
	defer in.Free()
	out, err := run.Run(context.Background(), []*step.Tensor{in}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer out[0].Free()
	b := make([]byte, 12)
	_ = out[0].Read(b)
	fmt.Println(out[0].Shape(), math.Float32frombits(binary.LittleEndian.Uint32(b[8:])))
	// Output: f32[3] 9
}
