package cudaexec

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/graph"
	"github.com/pinion-gpu/pinion/step/internal/cudac"
)

// attended is an attention.
type attended struct {
	t                                           dtype.DType
	batch, heads, keyHeads, queries, keys, each int
	graph.AttentionOptions
}

func (a attended) String() string {
	return fmt.Sprintf("%v,%dx%d:%d,%d:%d,%d,causal=%t,behind=%t", a.t, a.batch, a.heads, a.keyHeads, a.queries, a.keys, a.each, a.Causal, a.HeadsBehind)
}

func (a attended) shape(heads, length int) []int {
	if a.HeadsBehind {
		return []int{a.batch, length, heads, a.each}
	}
	return []int{a.batch, heads, length, a.each}
}

// normal adds a parameter of normally distributed numbers, the same ones over and over
// where there are many.
func (b *builder) normal(d dtype.DType, dims ...int) graph.Value {
	x := make([]float64, graph.MakeShape(d, dims...).Size())
	for i := range x {
		if i < 1<<16 {
			x[i] = b.rng.NormFloat64()
		} else {
			x[i] = x[i-1<<16]
		}
	}
	return b.put(d, x, dims...)
}

// attention adds one, with its gradients.
func (b *builder) attention(a attended) []graph.Value {
	b.t.Helper()
	q, dout := b.normal(a.t, a.shape(a.heads, a.queries)...), b.normal(a.t, a.shape(a.heads, a.queries)...)
	k, v := b.normal(a.t, a.shape(a.keyHeads, a.keys)...), b.normal(a.t, a.shape(a.keyHeads, a.keys)...)
	out, sums, err := b.Attention(q, k, v, a.AttentionOptions)
	testkit.OK(b.t, err)
	dq, dk, dv, err := b.AttentionBackward(q, k, v, out, sums, dout, a.AttentionOptions)
	testkit.OK(b.t, err)
	return []graph.Value{out, sums, dq, dk, dv}
}

// Results are near those of the host: numbers are rounded once where both are (bf16 has 8
// bits, f16 has 11), and sums of gradients have as many terms as there are queries.
func TestAttention(t *testing.T) {
	if testing.Short() {
		t.Skip("it only computes")
	}
	e := openTest(t)
	e.attends = attentions{}
	causal, behind := graph.AttentionOptions{Causal: true}, graph.AttentionOptions{HeadsBehind: true}
	both := graph.AttentionOptions{Causal: true, HeadsBehind: true, Scale: 0.2}
	var all checks
	list := []attended{
		{dtype.BF16, 1, 1, 1, 16, 16, 64, graph.AttentionOptions{}},
		{dtype.BF16, 1, 2, 1, 150, 150, 128, causal},
		{dtype.F16, 1, 2, 2, 130, 70, 64, both},
		{dtype.F16, 2, 1, 1, 65, 129, 128, behind},
		{dtype.BF16, 1, 1, 1, 40, 200, 64, causal},
		{dtype.BF16, 1, 1, 1, 200, 40, 64, causal},
		{dtype.F16, 1, 4, 2, 17, 33, 16, both},
		{dtype.BF16, 1, 1, 1, 20, 20, 80, causal},
		{dtype.BF16, 1, 2, 2, 5, 7, 8, behind},
		{dtype.BF16, 1, 1, 1, 9, 10, 12, causal}, // a head of no whole 16 bytes
		{dtype.F16, 1, 1, 1, 7, 9, 136, both},
		{dtype.F32, 1, 4, 2, 33, 33, 40, both},
		{dtype.F64, 2, 1, 1, 9, 20, 3, causal},
		{dtype.F32, 1, 1, 1, 4, 4, 64, graph.AttentionOptions{Scale: -1}},
		{dtype.BF16, 1, 1, 1, 4, 4, 64, graph.AttentionOptions{Scale: -1}},
	}
	if _, ok := e.launcher.(*shim); !ok {
		list = append(list,
			attended{dtype.BF16, 1, 2, 1, 777, 777, 128, causal},
			attended{dtype.F16, 2, 2, 2, 512, 1000, 64, behind},
			attended{dtype.BF16, 1, 2, 2, 1024, 1024, 128, both},
			attended{dtype.F32, 1, 2, 2, 500, 500, 64, both})
	}
	for _, a := range list {
		b := newBuilder(t)
		slack := map[dtype.DType]float64{dtype.F64: 100, dtype.F32: 20, dtype.F16: 8, dtype.BF16: 4}[a.t]
		all.add(a.String(), b.compared(e, slack, b.attention(a)...))
	}
	all.run(t)
}

// The library's attentions are the host's, and what one way leaves is right for the
// other: our own kernels go back from the library's sums, and the reverse.
func TestLibraryAttention(t *testing.T) {
	causal := graph.AttentionOptions{Causal: true}
	behind := graph.AttentionOptions{HeadsBehind: true, Causal: true, Scale: 0.2}
	for name, ways := range map[string]attentions{"both": {forward: true, backward: true}, "forward": {forward: true}, "backward": {backward: true}} {
		t.Run(name, func(t *testing.T) {
			e := openLibraryTest(t)
			e.attends = ways
			list := []attended{
				{dtype.BF16, 2, 2, 1, 30, 128, 64, causal},
				{dtype.F16, 1, 2, 2, 20, 128, 64, graph.AttentionOptions{}},
				{dtype.F16, 2, 2, 2, 64, 64, 16, behind},
				{dtype.F16, 1, 1, 1, 9, 10, 12, causal}, // which the library does not take
				{dtype.F32, 1, 1, 1, 9, 10, 16, causal},
			}
			_, host := e.launcher.(*shim)
			if !host {
				list = append(list,
					attended{dtype.BF16, 2, 4, 2, 512, 512, 128, causal},
					attended{dtype.F16, 2, 2, 2, 256, 640, 64, graph.AttentionOptions{HeadsBehind: true}},
					attended{dtype.BF16, 1, 2, 2, 1024, 1024, 128, behind})
			}
			var all checks
			for _, a := range list {
				b := newBuilder(t)
				outputs := b.attention(a)
				slack := map[dtype.DType]float64{dtype.F32: 20, dtype.F16: 16, dtype.BF16: 8}[a.t]
				all.add(a.String(), b.compared(e, slack, outputs...))
				for i, byLib := range []bool{ways.forward, ways.backward} {
					n := outputs[3*i].Node()
					task := &step.Task{Nodes: []*graph.Node{n}, Inputs: n.Inputs}
					for j := range n.Shapes {
						task.Outputs = append(task.Outputs, n.Value(j))
					}
					k, err := e.Compile(task)
					testkit.OK(t, err)
					takes := byLib && a.t != dtype.F32 && (host || a.each%8 == 0)
					if _, taken := k.(*byLibrary); taken && !takes || host && taken != takes {
						t.Errorf("%v: %v: by the library: %t", a, n.Op, taken)
					}
				}
			}
			all.run(t)
			for _, note := range e.Notes() {
				t.Log(note)
			}
		})
	}
}

// What is launched again from a recording has the bits of what was queued.
func TestLibraryAttentionCaptured(t *testing.T) {
	e := openLibraryTest(t)
	e.attends = attentions{forward: true, backward: true}
	recorder, ok := device.As[device.Capturer](e.dev)
	if !ok || !recorder.CanCapture() {
		t.Skip("the device records nothing")
	}
	b := newBuilder(t)
	outputs := b.attention(attended{dtype.BF16, 2, 2, 2, 128, 128, 64, graph.AttentionOptions{Causal: true}})
	testkit.OK(t, b.SetOutputs(outputs...))
	tasks, err := Fuse(b.Graph)
	testkit.OK(t, err)
	p := prepare(t, e, b.Graph, tasks, b.in)
	defer p.close()
	for _, c := range p.calls {
		if _, ok := c.k.(*byLibrary); !ok {
			t.Logf("not by the library: %v", e.Notes())
		}
	}
	p.launch()
	want := p.read(b.Graph)
	for _, v := range outputs {
		testkit.OK(t, p.stream.Memset(p.at[v], 0xff, v.Shape().Bytes()))
	}
	g, err := recorder.Capture(p.stream, func() error {
		p.launch()
		return nil
	})
	testkit.OK(t, err)
	for range 3 {
		testkit.OK(t, g.Launch(p.stream))
	}
	for i, got := range p.read(b.Graph) {
		if string(got) != string(want[i]) {
			t.Errorf("output %d differs", i)
		}
	}
	testkit.OK(t, g.Close())
}

// What the environment says.
func TestAttentionVariable(t *testing.T) {
	for choice, want := range map[string]attentions{"": usualAttentions, "own": {}, "cudnn": {forward: true, backward: true}, "cudnn-forward+stored": {forward: true, stored: true}, "cudnn-backward": {backward: true}} {
		if got, err := attentionsBy(choice); got != want || err != nil {
			t.Errorf("%q: %+v, %v", choice, got, err)
		}
	}
	_, err := attentionsBy("cuda")
	testkit.WantError(t, "a typing error", err, step.ErrArgument, AttentionVariable)
}

// With gradients of scores in scratch memory, results are those without, to rounding, also
// where the batch goes in parts.
func TestAttentionStored(t *testing.T) {
	if testing.Short() {
		t.Skip("it only computes")
	}
	e := openTest(t)
	e.attends = attentions{stored: true}
	usual, usualGathering := mostStored, gathering
	defer func() { mostStored, gathering = usual, usualGathering }()
	list := []attended{
		{dtype.BF16, 1, 1, 1, 16, 16, 64, graph.AttentionOptions{}},
		{dtype.BF16, 1, 2, 1, 150, 150, 128, graph.AttentionOptions{Causal: true}},
		{dtype.F16, 1, 2, 2, 130, 70, 64, graph.AttentionOptions{Causal: true, HeadsBehind: true, Scale: 0.2}},
		{dtype.F16, 2, 1, 1, 65, 129, 128, graph.AttentionOptions{HeadsBehind: true}},
		{dtype.BF16, 1, 1, 1, 40, 200, 40, graph.AttentionOptions{Causal: true}},
		{dtype.F16, 4, 4, 2, 17, 33, 16, graph.AttentionOptions{Causal: true}},
	}
	if _, ok := e.launcher.(*shim); !ok {
		list = append(list,
			attended{dtype.BF16, 2, 2, 1, 777, 777, 128, graph.AttentionOptions{Causal: true}},
			attended{dtype.F16, 2, 2, 2, 512, 1000, 64, graph.AttentionOptions{HeadsBehind: true}})
	}
	for _, gathering = range []tiling{{4, 2, 32}, {8, 1, 64}, {4, 1, 32}} {
		mostStored = usual
		var all checks
		for _, a := range list {
			if a.batch == 4 {
				mostStored = 2 * 4 * 33 * 128 * 2 // half of it at a time
			}
			b := newBuilder(t)
			outputs := b.attention(a)
			all.add(a.String(), b.compared(e, map[dtype.DType]float64{dtype.F16: 8, dtype.BF16: 4}[a.t], outputs...))
			n := outputs[2].Node()
			task := &step.Task{Nodes: []*graph.Node{n}, Inputs: n.Inputs, Outputs: outputs[2:]}
			u, err := e.attention(task)
			testkit.OK(t, err)
			if want := 3 * max(a.batch/2, 1); a.batch != 2 && len(u.launches) != want {
				t.Errorf("%v: %d launches, want %d", a, len(u.launches), want)
			}
			if a.batch == 4 && u.launches[0].text != u.launches[3].text {
				t.Error("parts of a batch have kernels of their own")
			}
		}
		all.run(t)
	}
	// What does not fit goes the usual way, as do gradients of keys alone.
	mostStored = 1
	b := newBuilder(t)
	outputs := b.attention(list[0])
	n := outputs[2].Node()
	for _, some := range [][]graph.Value{outputs[2:], outputs[3:]} {
		u, err := e.attention(&step.Task{Nodes: []*graph.Node{n}, Inputs: n.Inputs, Outputs: some})
		testkit.OK(t, err)
		if len(u.launches) != 2 {
			t.Errorf("%d launches", len(u.launches))
		}
		mostStored = usual
	}
}

// However the kernels divide the work, results are right.
func TestAttentionTilings(t *testing.T) {
	testkit.OnlyComputes(t)
	usual := tilings
	defer func() { tilings = usual }()
	for _, tilings = range [][3]tiling{
		{{8, 1, 32}, {8, 1, 64}, {8, 1, 64}},
		{{4, 2, 32}, {4, 1, 32}, {4, 1, 16}},
		{{4, 2, 64}, {4, 1, 16}, {4, 1, 64}},
	} {
		e := openTest(t)
		e.attends = attentions{}
		for _, each := range []int{64, 128} {
			b := newBuilder(t)
			b.compare(e, 4, b.attention(attended{dtype.BF16, 1, 2, 1, 140, 150, each, graph.AttentionOptions{Causal: true}})...)
		}
	}
}

// Kernels are CUDA C, to a compiler that knows it. It takes their instructions as they are.
func TestAttentionCompiles(t *testing.T) {
	clang, err := exec.LookPath("clang-14")
	if err != nil {
		t.Skip("there is no clang-14")
	}
	header, err := os.ReadFile("testdata/nvptx.hpp")
	testkit.OK(t, err)
	text := string(header) + prelude + attentionText
	for _, a := range []attended{
		{dtype.BF16, 1, 2, 1, 150, 150, 128, graph.AttentionOptions{Causal: true}},
		{dtype.F16, 1, 2, 1, 150, 150, 40, graph.AttentionOptions{}},
		{dtype.F64, 1, 2, 1, 150, 150, 40, graph.AttentionOptions{}},
	} {
		b := newBuilder(t)
		testkit.OK(t, b.SetOutputs(b.attention(a)...))
		tasks, err := Fuse(b.Graph)
		testkit.OK(t, err)
		e := &executor{arch: [2]int{8, 0}, functions: map[string]*function{}}
		for _, e.attends.stored = range []bool{false, true} {
			for _, task := range tasks {
				u, err := e.attention(task)
				testkit.OK(t, err)
				for _, l := range u.launches {
					e.function(l)
				}
			}
		}
		for _, f := range e.pending {
			text += "\n" + f.text
		}
	}
	dir := t.TempDir()
	testkit.OK(t, os.WriteFile(dir+"/kernels.cu", []byte(text), 0o644))
	c := exec.Command(clang, "-D__CUDACC__", "-x", "cuda", "--cuda-gpu-arch=sm_80", "--cuda-device-only", "-nocudainc", "-nocudalib",
		"-Xclang", "-target-feature", "-Xclang", "+ptx70", "-std=c++17", "-O2", "-S", "-o", dir+"/kernels.ptx", dir+"/kernels.cu")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", c, err, out)
	}
	ptx, err := os.ReadFile(dir + "/kernels.ptx")
	testkit.OK(t, err)
	for _, part := range strings.Split(string(ptx), ".entry")[1:] {
		if strings.Contains(part, "mma.sync") && strings.Contains(part, ".local") {
			t.Error("what tensor cores work on is not in registers but in local memory")
		}
	}
}

// Nothing depends on the order in which blocks run.
func TestAttentionRepeats(t *testing.T) {
	testkit.OnlyComputes(t)
	e := openTest(t)
	e.attends = attentions{}
	a := attended{dtype.BF16, 1, 2, 1, 300, 300, 128, graph.AttentionOptions{Causal: true}}
	if _, ok := e.launcher.(*shim); ok {
		a.queries, a.keys, a.each = 70, 140, 64
	}
	b := newBuilder(t)
	outputs := b.attention(a)
	testkit.OK(t, b.SetOutputs(outputs...))
	fused, err := Fuse(b.Graph)
	testkit.OK(t, err)
	if len(fused) != 2 {
		t.Errorf("%d tasks, of an attention and its gradients", len(fused))
	}
	first := run(t, e, b.Graph, fused, b.in)
	for range 2 {
		for i, got := range run(t, e, b.Graph, fused, b.in) {
			if string(got) != string(first[i]) {
				t.Fatalf("output %d differs in another run", i)
			}
		}
	}
	// What nobody reads is not computed, and changes nothing else.
	for i := range outputs {
		testkit.OK(t, b.SetOutputs(outputs[i]))
		fused, err := Fuse(b.Graph)
		testkit.OK(t, err)
		if got := run(t, e, b.Graph, fused, b.in); string(got[0]) != string(first[i]) {
			t.Errorf("output %d differs by itself", i)
		}
	}
}

// Fragments lie where the PTX ISA says ("Matrix Fragments for mma.m16n8k16 with floating
// point type", and ldmatrix), in the shim as on a GPU.
func TestFragments(t *testing.T) {
	e := openTest(t)
	if e.arch[0] < 8 {
		t.Skip("the device has no such instructions")
	}
	const text = `
    const %[1]s *A = (const %[1]s *)p.p[0], *B = (const %[1]s *)p.p[1];
    f32 *C = (f32 *)p.p[2];
    u16 *M = (u16 *)p.p[3];
    const int groupID = threadIdx.x >> 2, threadID_in_group = threadIdx.x %% 4;
    u32 a[4] = {0, 0, 0, 0}, b[2] = {0, 0};
    f32 c[4];
    for (int i = 0; i < 8; i++) {
        const int row = (0 <= i && i < 2) || (4 <= i && i < 6) ? groupID : groupID + 8;
        const int col = i < 4 ? threadID_in_group * 2 + (i & 1) : threadID_in_group * 2 + (i & 1) + 8;
        a[i / 2] |= (u32)A[row * 16 + col].bits << 16 * (i %% 2);
    }
    for (int i = 0; i < 4; i++) {
        const int row = i < 2 ? threadID_in_group * 2 + (i & 1) : threadID_in_group * 2 + (i & 1) + 8;
        b[i / 2] |= (u32)B[row * 8 + groupID].bits << 16 * (i %% 2);
    }
    for (int i = 0; i < 4; i++) c[i] = C[(i < 2 ? groupID : groupID + 8) * 8 + threadID_in_group * 2 + (i & 1)];
    mma(%[1]s(), c, a, b[0], b[1]);
    for (int i = 0; i < 4; i++) C[(i < 2 ? groupID : groupID + 8) * 8 + threadID_in_group * 2 + (i & 1)] = c[i];

    u16 *S = (u16 *)shared_bytes();
    for (int i = threadIdx.x; i < 256; i += 32) S[i] = (u16)i;
    __syncthreads();
    u32 r[4];
    load_matrices(r, shared_begin() + 16 * threadIdx.x);
    for (int m = 0; m < 4; m++) M[(m * 32 + threadIdx.x) * 2] = (u16)r[m], M[(m * 32 + threadIdx.x) * 2 + 1] = (u16)(r[m] >> 16);
    load_transposed(r, shared_begin() + 16 * threadIdx.x);
    for (int m = 0; m < 4; m++) M[256 + (m * 32 + threadIdx.x) * 2] = (u16)r[m], M[256 + (m * 32 + threadIdx.x) * 2 + 1] = (u16)(r[m] >> 16);
`
	for _, d := range []dtype.DType{dtype.BF16, dtype.F16} {
		b := newBuilder(t)
		a, x, c := b.random(d, 16, 16), b.random(d, 16, 8), b.random(dtype.F32, 16, 8)
		matrices := b.put(dtype.U16, make([]float64, 512), 512)
		f := e.function(launch{text: "    // const attention s" + fmt.Sprintf(text, cudac.Stored(d)), pointers: []graph.Value{a, x, c, matrices}, library: attentionText, threads: 32})
		k, err := e.ready(f)
		testkit.OK(t, err)
		stream := testkit.Must(e.dev.NewStream())(t)
		var args device.Args
		var at []device.Ptr
		for _, data := range b.in {
			p := testkit.Must(e.dev.Alloc(int64(len(data))))(t)
			testkit.OK(t, stream.CopyH2D(p, data))
			args.Ptr(p)
			at = append(at, p)
		}
		testkit.OK(t, k.Launch(stream, device.Grid{Threads: 32, SharedBytes: 512}, &args))
		got := [2][]byte{slices.Clone(b.in[2]), slices.Clone(b.in[3])}
		testkit.OK(t, stream.CopyD2H(got[0], at[2]))
		testkit.OK(t, stream.CopyD2H(got[1], at[3]))
		testkit.OK(t, stream.Synchronize())
		for i := range 16 {
			for j := range 8 {
				want, _ := element(dtype.F32, b.in[2], i*8+j)
				for k := range 16 {
					p, _ := element(d, b.in[0], i*16+k)
					q, _ := element(d, b.in[1], k*8+j)
					want += p * q
				}
				if c, _ := element(dtype.F32, got[0], i*8+j); c != want {
					t.Errorf("%v: element %d, %d of the product: %v, want %v", d, i, j, c, want)
				}
			}
		}
		for lane := range 32 {
			for m := range 4 {
				for half := range 2 {
					straight, transposed := m*64+lane/4*8+2*(lane%4)+half, m*64+(2*(lane%4)+half)*8+lane/4
					_, s := element(dtype.U16, got[1], (m*32+lane)*2+half)
					_, tr := element(dtype.U16, got[1], 256+(m*32+lane)*2+half)
					if int(s) != straight || int(tr) != transposed {
						t.Errorf("lane %d, matrix %d: elements %d and, transposed, %d; want %d and %d", lane, m, s, tr, straight, transposed)
					}
				}
			}
		}
		for _, p := range at {
			testkit.OK(t, e.dev.Free(p))
		}
		testkit.OK(t, stream.Close())
	}
}

// time measures what a launch takes that has so many products, of causal attention.
func (a attended) time(b *testing.B, p *prepared, products float64, launch func() error) {
	b.Helper()
	if err := launch(); err != nil {
		b.Skip(err)
	}
	testkit.OK(b, p.stream.Synchronize())
	begin, end := testkit.Must(p.dev.NewEvent(0))(b), testkit.Must(p.dev.NewEvent(0))(b)
	took := time.Duration(0)
	for b.Loop() {
		testkit.OK(b, p.stream.Record(begin))
		testkit.OK(b, launch())
		testkit.OK(b, p.stream.Record(end))
		testkit.OK(b, p.stream.Synchronize())
		took += testkit.Must(end.Since(begin))(b)
	}
	flop := 2 * products * float64(a.batch*a.heads*a.queries*a.keys*a.each) / 2
	b.ReportMetric(flop*float64(b.N)/took.Seconds()/1e12, "TFLOP/s")
	testkit.OK(b, begin.Close())
	testkit.OK(b, end.Close())
}

// benchmarkLibrary measures the library's attention and its gradients, which are all three
// of them, where there is one that takes them.
func benchmarkLibrary(b *testing.B, e *executor, g *builder, tasks []*step.Task, a attended) {
	usual := e.attends
	e.attends = attentions{forward: true, backward: true}
	p := prepare(b, e, g.Graph, tasks, g.in)
	e.attends = usual
	defer p.close()
	for i, c := range p.calls {
		b.Run("library/"+[]string{"forward", "backward"}[i], func(b *testing.B) {
			k, ok := c.k.(*byLibrary)
			if !ok {
				b.Skip(e.Notes())
			}
			launch := func() error { return k.Launch(p.stream, c.in, c.out, c.scratch) }
			if i > 0 { // what it needs
				testkit.OK(b, p.calls[0].k.Launch(p.stream, p.calls[0].in, p.calls[0].out, p.calls[0].scratch))
			}
			a.time(b, p, []float64{2, 5}[i], launch)
			b.ReportMetric(float64(k.Scratch())/(1<<20), "MiB-scratch")
		})
	}
}

// benchmarkStored measures the way back with gradients of scores in scratch memory, all of
// its kernels together, and how queries gather them.
func benchmarkStored(b *testing.B, e *executor, g *builder, tasks []*step.Task, a attended) {
	usual, usualGathering := e.attends, gathering
	defer func() { e.attends, gathering = usual, usualGathering }()
	e.attends = attentions{stored: true}
	for _, gathering = range []tiling{{4, 2, 32}, {8, 1, 32}, {8, 1, 64}, {4, 1, 64}} {
		p := prepare(b, e, g.Graph, tasks, g.in)
		c := p.calls[1]
		b.Run(fmt.Sprintf("stored/backward%v", gathering), func(b *testing.B) {
			testkit.OK(b, p.calls[0].k.Launch(p.stream, p.calls[0].in, p.calls[0].out, p.calls[0].scratch))
			a.time(b, p, 5, func() error { return c.k.Launch(p.stream, c.in, c.out, c.scratch) })
			b.ReportMetric(float64(c.k.Scratch())/(1<<20), "MiB-scratch")
		})
		p.close()
	}
}

// Attention of a GPT's size, forward and backward, by the way that the kernels divide it:
// warps of a block, groups of 16 rows that a warp has, and rows of a tile. Of the products,
// half are counted, since it is causal: two forward and five back, half of those for each
// of the two kernels, though they do three and four.
func BenchmarkAttention(b *testing.B) {
	e := openTest(b)
	a := attended{dtype.BF16, 16, 16, 16, 1024, 1024, 128, graph.AttentionOptions{Causal: true}}
	_, small := e.launcher.(*shim)
	if small {
		a.batch, a.heads, a.keyHeads, a.queries, a.keys = 1, 1, 1, 16, 16
	}
	usual := tilings
	defer func() { tilings = usual }()
	type way struct {
		name    string
		tilings [3]tiling
	}
	ways := []way{{"usual", usual}}
	if !small {
		for i, list := range [][3]tiling{
			{{8, 1, 32}, {8, 1, 64}, {8, 1, 64}},
			{{8, 1, 128}, {4, 1, 32}, {4, 1, 32}},
			{{4, 2, 32}, {4, 1, 64}, {4, 1, 64}},
			{{4, 2, 64}, {8, 1, 16}, {8, 1, 16}},
		} {
			ways = append(ways, way{fmt.Sprint(i), list})
		}
	}
	g := newBuilder(b)
	testkit.OK(b, g.SetOutputs(g.attention(a)...))
	tasks, err := Fuse(g.Graph)
	testkit.OK(b, err)
	if !small {
		benchmarkLibrary(b, e, g, tasks, a)
		benchmarkStored(b, e, g, tasks, a)
	}
	for _, w := range ways {
		tilings = w.tilings
		e.attends = attentions{}
		p := prepare(b, e, g.Graph, tasks, g.in)
		for i, c := range p.calls {
			k := c.k.(*kernels)
			for j, name := range [][]string{{"forward"}, {"queries", "keys"}}[i] {
				products := []float64{2, 2.5, 2.5}[i+j]
				one := *k
				one.calls = k.calls[j : j+1]
				b.Run(fmt.Sprintf("%s/%s%v", w.name, name, w.tilings[i+j]), func(b *testing.B) {
					launch := func() error { return one.Launch(p.stream, c.in, c.out, c.scratch) }
					for k := range j { // what this one needs
						before := one
						before.calls = p.calls[i].k.(*kernels).calls[k : k+1]
						testkit.OK(b, before.Launch(p.stream, c.in, c.out, c.scratch))
					}
					a.time(b, p, products, launch)
				})
			}
		}
		p.close()
	}
}
