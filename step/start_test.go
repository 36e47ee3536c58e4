package step_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/step"
)

// Runs that are queued one behind the other, of executables that share a block, have the
// results of runs that are waited for.
func TestStart(t *testing.T) {
	exec := openExecutor(t)
	mem := testkit.Must(step.OpenMemory(exec.Device(), nil))(t)
	rng := rand.New(rand.NewPCG(7, 8))
	o := step.Options{Memory: mem, Block: step.NewBlock(mem)}
	type part struct {
		x    *step.Executable
		in   []*step.Tensor
		want [][]byte
	}
	read := func(list []*step.Tensor) (all [][]byte) {
		for _, v := range list {
			b := make([]byte, v.Shape().Bytes())
			testkit.OK(t, v.Read(b))
			testkit.OK(t, v.Free())
			all = append(all, b)
		}
		return all
	}
	var parts []*part
	for range 3 {
		m, _ := layers(t, rng, 2+rng.IntN(4))
		p := &part{x: testkit.Must(step.Compile(m.Graph, exec, o))(t)}
		for _, v := range m.Parameters() {
			p.in = append(p.in, testkit.Must(mem.Put(randomFloats(rng, v.Shape().Size()), v.Shape()))(t))
		}
		p.want = read(testkit.Must(p.x.Run(context.Background(), p.in, nil))(t))
		parts = append(parts, p)
	}
	type run struct {
		*part
		out  []*step.Tensor
		done device.Event
	}
	var runs []run
	for range 20 {
		r := run{part: parts[rng.IntN(len(parts))], done: testkit.Must(exec.Device().NewEvent(device.EventNoTiming))(t)}
		var after []device.Event
		if len(runs) > 0 {
			after = append(after, runs[len(runs)-1].done)
		}
		r.out = testkit.Must(r.x.Start(context.Background(), r.in, nil, r.done, after...))(t)
		runs = append(runs, r)
	}
	testkit.OK(t, device.Wait(context.Background(), runs[len(runs)-1].done))
	for k, r := range runs {
		for i, b := range read(r.out) {
			if !bytes.Equal(b, r.want[i]) {
				t.Fatalf("run %d: result %d differs", k, i)
			}
		}
		testkit.OK(t, r.done.Close())
	}
	for _, p := range parts {
		testkit.OK(t, p.x.Wait())
		_, err := p.x.Start(context.Background(), p.in[1:], nil, nil)
		testkit.WantError(t, "inputs", err, step.ErrArgument, "inputs for")
		testkit.OK(t, p.x.Close())
		_, err = p.x.Start(context.Background(), p.in, nil, nil)
		testkit.WantError(t, "a start after Close", err, step.ErrClosed)
		testkit.WantError(t, "a wait after Close", p.x.Wait(), step.ErrClosed)
		read(p.in)
	}
	testkit.OK(t, mem.Close())
}
