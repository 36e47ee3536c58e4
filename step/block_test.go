package step_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/graph"
	"github.com/pinion-gpu/pinion/step/host"
)

// Executables that share a block have the results that they have alone, whichever of them
// makes it grow, and take no more memory than the largest.
func TestBlock(t *testing.T) {
	exec := openExecutor(t)
	alloc := &counter{Device: exec.Device(), sizes: map[device.Ptr]int64{}}
	mem := testkit.Must(step.OpenMemory(exec.Device(), alloc))(t)
	rng := rand.New(rand.NewPCG(5, 6))
	block := step.NewBlock(mem)
	type part struct {
		m    maker
		x    *step.Executable
		in   []*step.Tensor
		want [][]byte
	}
	runs := func(x *step.Executable, in []*step.Tensor) (all [][]byte) {
		for _, v := range testkit.Must(x.Run(context.Background(), in, nil))(t) {
			b := make([]byte, v.Shape().Bytes())
			testkit.OK(t, v.Read(b))
			testkit.OK(t, v.Free())
			all = append(all, b)
		}
		return all
	}
	check := func(p *part) {
		t.Helper()
		for i, b := range runs(p.x, p.in) {
			if !bytes.Equal(b, p.want[i]) {
				t.Fatalf("result %d differs", i)
			}
		}
	}
	var parts []*part
	largest, grew := int64(0), 0
	for range 4 {
		p := &part{}
		p.m, _ = layers(t, rng, 2+rng.IntN(5))
		o := step.Options{Memory: mem}
		alone := testkit.Must(step.Compile(p.m.Graph, exec, o))(t)
		for _, v := range p.m.Parameters() {
			p.in = append(p.in, testkit.Must(mem.Put(randomFloats(rng, v.Shape().Size()), v.Shape()))(t))
		}
		p.want = runs(alone, p.in)
		testkit.OK(t, alone.Close())
		o.Block = block
		p.x = testkit.Must(step.Compile(p.m.Graph, exec, o))(t)
		if n := p.x.Plan().Bytes - p.x.Plan().Resident; n > largest {
			largest = n
			grew++
		}
		parts = append(parts, p)
		if got := block.Bytes(); got != largest {
			t.Errorf("a block of %d bytes; the largest executable needs %d", got, largest)
		}
		for range 3 { // the third is a replay, where the device has them
			for _, p := range parts {
				check(p)
			}
		}
	}
	if grew < 2 {
		t.Errorf("the block grew %d times", grew)
	}
	testkit.OK(t, parts[0].x.Close())
	check(parts[1])
	var wg sync.WaitGroup
	for _, p := range parts[1:] {
		wg.Go(func() {
			for range 5 {
				out, err := p.x.Run(context.Background(), p.in, nil)
				if err != nil {
					t.Error(err)
					return
				}
				b := make([]byte, len(p.want[0]))
				if err := out[0].Read(b); err != nil || !bytes.Equal(b, p.want[0]) {
					t.Errorf("beside others: %v", err)
				}
				for _, v := range out {
					if err := v.Free(); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	for _, p := range parts {
		testkit.OK(t, p.x.Close())
		for _, v := range p.in {
			testkit.OK(t, v.Free())
		}
	}
	if alloc.now != 0 || block.Bytes() != 0 {
		t.Errorf("%d bytes are left, and a block of %d", alloc.now, block.Bytes())
	}
	testkit.OK(t, mem.Close())
}

// A block that finds no room to grow fails the executable that asks, and serves the others.
func TestBlockOutOfMemory(t *testing.T) {
	dev := testkit.Must(device.Open("host:64KiB"))(t)
	defer dev.Close()
	exec := testkit.Must(host.Open(dev))(t)
	defer exec.Close()
	mem := testkit.Must(step.OpenMemory(dev, nil))(t)
	defer mem.Close()
	o := step.Options{Memory: mem, Block: step.NewBlock(mem)}
	square := func(n int) maker {
		m := newMaker(t)
		x := m.param(f32(n, n))
		e := m.must(m.Unary(graph.Exp, x))
		testkit.OK(t, m.SetOutputs(m.must(m.Reduce(graph.ReduceSum, m.must(m.DotGeneral(e, e, graph.DotAxes{Contracted: [2][]int{{1}, {1}}}))))))
		return m
	}
	small := testkit.Must(step.Compile(square(20).Graph, exec, o))(t)
	in := testkit.Must(mem.Put(floats(make([]float32, 400)...), f32(20, 20)))(t)
	_, err := step.Compile(square(100).Graph, exec, o)
	testkit.WantError(t, "100 x 100", err, device.ErrOutOfMemory, "for values between operations")
	out := testkit.Must(small.Run(context.Background(), []*step.Tensor{in}, nil))(t)
	testkit.OK(t, out[0].Free())
	testkit.OK(t, in.Free())
	testkit.OK(t, small.Close())

	m := square(4)
	o.Lend = []bool{true}
	_, err = step.Compile(m.Graph, exec, o)
	testkit.WantError(t, "results that are lent", err, step.ErrArgument, "block")
	_, err = step.OpenSession(m.Graph, exec, step.SessionOptions{Compile: step.Options{Block: o.Block}})
	testkit.WantError(t, "a session", err, step.ErrArgument, "block")
}

// hoarder is an allocator that keeps what is freed, and gives it to the next who asks for
// no more.
type hoarder struct {
	device.Device
	sizes map[device.Ptr]int64
	kept  []device.Ptr
}

func (h *hoarder) Alloc(n int64) (device.Ptr, error) {
	for i, p := range h.kept {
		if h.sizes[p] >= n {
			h.kept = slices.Delete(h.kept, i, i+1)
			return p, nil
		}
	}
	p, err := h.Device.Alloc(n)
	h.sizes[p] = n
	return p, err
}

func (h *hoarder) Free(p device.Ptr) error {
	h.kept = append(h.kept, p)
	return nil
}

// A block that grows leaves its memory to others. A tensor that lies there then may be an
// input of an executable that has not run since.
func TestBlockGrowsAway(t *testing.T) {
	exec := openExecutor(t)
	alloc := &hoarder{Device: exec.Device(), sizes: map[device.Ptr]int64{}}
	mem := testkit.Must(step.OpenMemory(exec.Device(), alloc))(t)
	o := step.Options{Memory: mem, Block: step.NewBlock(mem)}
	sum := func(n int) maker {
		m := newMaker(t)
		x := m.param(f32(n, n))
		product := m.must(m.DotGeneral(x, x, graph.DotAxes{Contracted: [2][]int{{1}, {1}}}))
		testkit.OK(t, m.SetOutputs(m.must(m.Reduce(graph.ReduceSum, product))))
		return m
	}
	small := testkit.Must(step.Compile(sum(32).Graph, exec, o))(t)
	large := testkit.Must(step.Compile(sum(64).Graph, exec, o))(t)
	if len(alloc.kept) != 1 {
		t.Fatalf("%d pieces of memory are free, not that of the smaller block", len(alloc.kept))
	}
	ones := make([]float32, 32*32)
	for i := range ones {
		ones[i] = 1
	}
	in := testkit.Must(mem.Put(floats(ones...), f32(32, 32)))(t)
	if len(alloc.kept) != 0 {
		t.Fatal("the input does not lie where the block was")
	}
	out := testkit.Must(small.Run(context.Background(), []*step.Tensor{in}, nil))(t)
	got := make([]byte, 4)
	testkit.OK(t, out[0].Read(got))
	if want := floats(32 * 32 * 32); !bytes.Equal(got, want) {
		t.Errorf("the sum is % x, not % x", got, want)
	}
	testkit.OK(t, in.Free())
	testkit.OK(t, out[0].Free())
	testkit.OK(t, small.Close())
	testkit.OK(t, large.Close())
	testkit.OK(t, mem.Close())
	for _, p := range alloc.kept {
		testkit.OK(t, alloc.Device.Free(p))
	}
}
