package cudaexec

import (
	"os"
	"syscall"
	"testing"
	"unsafe"

	"github.com/pinion-gpu/pinion/step/graph"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/step"
)

// guarded copies an array to memory behind which nothing can be read.
func guarded(t *testing.T, data []byte) device.Ptr {
	t.Helper()
	page := os.Getpagesize()
	n := (len(data) + page - 1) / page * page
	memory := testkit.Must(syscall.Mmap(-1, 0, n+page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE))(t)
	t.Cleanup(func() { testkit.OK(t, syscall.Munmap(memory)) })
	testkit.OK(t, syscall.Mprotect(memory[n:], syscall.PROT_NONE))
	copy(memory[n-len(data):], data)
	return device.Ptr(uintptr(unsafe.Pointer(&memory[n-len(data)])))
}

// No kernel reads behind an array that is shorter than what it goes over; one that does
// ends the process.
func TestBounds(t *testing.T) {
	e := openTest(t)
	if _, ok := e.launcher.(*shim); !ok {
		t.Skip("arrays cannot be guarded")
	}
	b := newBuilder(t)
	f := dtype.F32
	short, rest, fill := b.random(f, 96), b.random(f, 416), b.random(f)
	high := func(x graph.Value, n int) graph.Value {
		return b.ok(b.Pad(x, fill, graph.Padding{Low: []int{0}, High: []int{n}, Interior: []int{0}}))
	}
	neg := func(x graph.Value) graph.Value { return b.unary(graph.Neg, x) }
	matrix := b.random(f, 512, 128)
	sums := b.ok(b.Reduce(graph.ReduceSum, matrix, 1))
	outputs := []graph.Value{
		high(short, 160), neg(high(neg(short), 32)), // a loop
		b.ok(b.Concatenate(0, short, rest)), b.ok(b.Concatenate(0, neg(short), neg(rest))),
		// Along the columns, and along the rows, of a kernel of rows.
		b.softmax(b.binary(graph.Add, matrix, b.ok(b.BroadcastInDim(high(short, 32), []int{512, 128}, []int{1})))),
		b.binary(graph.Add, sums, high(short, 416)), b.binary(graph.Mul, sums, b.ok(b.Concatenate(0, neg(short), neg(rest)))),
	}
	testkit.OK(t, b.SetOutputs(outputs...))
	want := run(t, reference(t), b.Graph, singles(b.Graph), b.in)
	fused, err := Fuse(b.Graph)
	testkit.OK(t, err)
	for name, tasks := range map[string][]*step.Task{"fused": fused, "each": singles(b.Graph)} {
		p := prepare(t, e, b.Graph, tasks, b.in)
		for i, v := range b.Parameters() {
			at := guarded(t, b.in[i])
			for _, c := range p.calls {
				for j := range c.in {
					if c.in[j] == p.at[v] {
						c.in[j] = at
					}
				}
			}
		}
		for i, got := range p.run(b.Graph) {
			for j := range outputs[i].Shape().Size() {
				g, _ := element(f, got, j)
				if w, _ := element(f, want[i], j); !near(f, g, w, 16) {
					t.Fatalf("%s: output %d, element %d: %v, want %v", name, i, j, g, w)
				}
			}
		}
	}
}

// Nor do those of attention, of lengths that are no multiples of a tile; results end where
// memory does, too.
func TestAttentionBounds(t *testing.T) {
	testkit.OnlyComputes(t)
	e := openTest(t)
	if _, ok := e.launcher.(*shim); !ok {
		t.Skip("arrays cannot be guarded")
	}
	for _, a := range []attended{
		{dtype.BF16, 1, 2, 1, 67, 131, 72, graph.AttentionOptions{Causal: true}},
		{dtype.F16, 1, 1, 1, 130, 33, 8, graph.AttentionOptions{HeadsBehind: true}},
		{dtype.F32, 1, 2, 2, 9, 11, 33, graph.AttentionOptions{}},
	} {
		b := newBuilder(t)
		testkit.OK(t, b.SetOutputs(b.attention(a)...))
		fused, err := Fuse(b.Graph)
		testkit.OK(t, err)
		p := prepare(t, e, b.Graph, fused, b.in)
		at := map[device.Ptr]device.Ptr{}
		for i, v := range b.Parameters() {
			at[p.at[v]] = guarded(t, b.in[i])
		}
		for _, v := range b.Outputs() {
			at[p.at[v]] = guarded(t, make([]byte, v.Shape().Bytes()))
		}
		for _, c := range p.calls {
			for _, list := range [][]device.Ptr{c.in, c.out} {
				for j := range list {
					list[j] = at[list[j]]
				}
			}
		}
		p.launch()
		testkit.OK(t, p.stream.Synchronize())
		p.close()
	}
}
