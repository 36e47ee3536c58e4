package step_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/parallel"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/graph"
	"github.com/pinion-gpu/pinion/step/plan"
)

// slow is ranks whose operations take a while, so that whatever does not wait for them is
// there first.
type slow struct{ parallel.Comm }

func (c slow) linger(s device.Stream) error {
	caller, _ := device.As[device.Caller](c.Device())
	return caller.Call(s, func() error { time.Sleep(100 * time.Microsecond); return nil })
}

func (c slow) AllReduce(s device.Stream, t dtype.DType, op parallel.Op, parts ...parallel.Part) error {
	return errors.Join(c.linger(s), c.Comm.AllReduce(s, t, op, parts...))
}

func (c slow) ReduceScatter(s device.Stream, t dtype.DType, op parallel.Op, parts ...parallel.Part) error {
	return errors.Join(c.linger(s), c.Comm.ReduceScatter(s, t, op, parts...))
}

func (c slow) AllGather(s device.Stream, parts ...parallel.Part) error {
	return errors.Join(c.linger(s), c.Comm.AllGather(s, parts...))
}

// pair is a graph of one rank, and one of what all ranks compute, without ranks: each
// operation as often as there are ranks, and what they do together as sums and pieces.
type pair struct {
	maker
	size int
	all  maker
	of   map[graph.Value][]graph.Value // what a value is on each rank
}

// add copies an operation for each rank, with those that it needs.
func (p *pair) add(v graph.Value) graph.Value {
	n := v.Node()
	for _, x := range n.Inputs {
		if p.of[x] == nil {
			p.add(x)
		}
	}
	for r := range p.size {
		now := map[graph.Value]graph.Value{}
		for _, x := range n.Inputs {
			now[x] = p.of[x][r]
		}
		p.all.Copy(n, now)
		for i := range n.Shapes {
			p.of[n.Value(i)] = append(p.of[n.Value(i)], now[n.Value(i)])
		}
	}
	return v
}

func (p *pair) input(s graph.Shape) graph.Value {
	v := p.param(s)
	for r := range p.size {
		p.of[v] = append(p.of[v], p.all.must(p.all.Parameter(fmt.Sprint(v, " of ", r), s)))
	}
	return v
}

// sum is what ranks have of a value, added up in their order.
func (p *pair) sum(v graph.Value, mean bool) graph.Value {
	m, t := p.all, v.Shape().Type
	if t.Size() == 2 {
		t = dtype.F32
	}
	wide := func(r int) graph.Value {
		if x := p.of[v][r]; t != v.Shape().Type {
			return m.must(m.Convert(x, t))
		}
		return p.of[v][r]
	}
	x := wide(0)
	for r := 1; r < p.size; r++ {
		x = m.must(m.Binary(graph.Add, x, wide(r)))
	}
	if mean {
		x = m.must(m.Binary(graph.Div, x, m.must(m.Fill(float64(p.size), graph.MakeShape(t)))))
	}
	if t != v.Shape().Type {
		x = m.must(m.Convert(x, v.Shape().Type))
	}
	return x
}

func (p *pair) allReduce(mean bool, in ...graph.Value) []graph.Value {
	out := testkit.Must(p.AllReduce(graph.AllReduceOptions{Mean: mean}, in...))(p.t)
	for i, v := range out {
		x := p.sum(in[i], mean)
		p.of[v] = slices.Repeat([]graph.Value{x}, p.size)
	}
	return out
}

func (p *pair) reduceScatter(mean bool, in ...graph.Value) []graph.Value {
	out := testkit.Must(p.ReduceScatter(graph.AllReduceOptions{Mean: mean}, p.size, in...))(p.t)
	for i, v := range out {
		x := p.sum(in[i], mean)
		n := x.Shape().Dims[0] / p.size
		for r := range p.size {
			from, to := make([]int, x.Shape().Rank()), slices.Clone(x.Shape().Dims)
			from[0], to[0] = r*n, (r+1)*n
			p.of[v] = append(p.of[v], p.all.must(p.all.Slice(x, from, to, nil)))
		}
	}
	return out
}

func (p *pair) allGather(in ...graph.Value) []graph.Value {
	out := testkit.Must(p.AllGather(p.size, in...))(p.t)
	for i, v := range out {
		x := p.all.must(p.all.Concatenate(0, p.of[in[i]]...))
		p.of[v] = slices.Repeat([]graph.Value{x}, p.size)
	}
	return out
}

func (p *pair) allGatherInto(into, x graph.Value) graph.Value {
	v := p.must(p.AllGatherInto(p.size, into, x))
	var flat []graph.Value
	for _, o := range p.of[x] {
		flat = append(flat, p.all.must(p.all.Reshape(o, o.Shape().Size())))
	}
	whole := p.all.must(p.all.Reshape(p.all.must(p.all.Concatenate(0, flat...)), v.Shape().Dims...))
	p.of[v] = slices.Repeat([]graph.Value{whole}, p.size)
	return v
}

// randomPair makes graphs with operations of all kinds, with what ranks do together on
// several levels: of parameters, constants, views, scalars, of nothing, of values that
// others read, too, and of several types.
func randomPair(t testing.TB, rng *rand.Rand, size int) *pair {
	p := &pair{maker: newMaker(t), size: size, all: newMaker(t), of: map[graph.Value][]graph.Value{}}
	kinds := []dtype.DType{dtype.F32, dtype.F32, dtype.F32, dtype.F32, dtype.F64, dtype.BF16, dtype.I32, dtype.I64, dtype.U8}
	// All have 12*n elements: shares of 1, 2, 3 and 4 ranks.
	long := []int{12 * 16, 12 * 64}[rng.IntN(2)]
	shapes := [][]int{{long}, {12, long / 12}, {long / 4, 4}, {}, {0}, {12}}
	var values []graph.Value
	for range 3 + rng.IntN(3) {
		values = append(values, p.input(graph.MakeShape(kinds[rng.IntN(len(kinds))], shapes[[]int{0, 0, 1, 1, 2, 3, 4, 5}[rng.IntN(8)]]...)))
	}
	values = append(values, p.input(f32(long)), p.input(f32(long)))
	pick := func() graph.Value {
		if rng.IntN(3) > 0 {
			return values[len(values)-1-rng.IntN(min(8, len(values)))]
		}
		return values[rng.IntN(len(values))]
	}
	like := func(v graph.Value) graph.Value { // another one of its shape, or the same
		var list []graph.Value
		for _, x := range values {
			if x.Shape().Equal(v.Shape()) {
				list = append(list, x)
			}
		}
		return list[rng.IntN(len(list))]
	}
	put := func(v graph.Value) { values = append(values, p.add(v)) }
	for range 10 + rng.IntN(40) {
		x := pick()
		s := x.Shape()
		mean := s.Type.IsFloat() && rng.IntN(2) == 0
		switch rng.IntN(12) {
		case 0:
			put(p.must(p.Unary(graph.Abs, x)))
		case 1:
			put(p.must(p.Unary(graph.Sign, x)))
		case 2, 3:
			put(p.must(p.Binary([]graph.Op{graph.Add, graph.Max, graph.Sub}[rng.IntN(3)], x, like(x))))
		case 4:
			if s.Rank() > 0 {
				put(p.must(p.Reshape(x, [][]int{{s.Size()}, append([]int{1}, s.Dims...)}[rng.IntN(2)]...)))
			}
		case 5:
			if s.Rank() > 0 && s.Type.IsFloat() {
				put(p.must(p.Reduce(graph.ReduceMax, x, 0)))
			}
		case 6:
			if rng.IntN(2) == 0 {
				put(p.must(p.Fill(float64(rng.IntN(5)), s)))
			} else {
				put(p.must(p.Constant(anything(rng, s), s)))
			}
		case 7, 8:
			in := []graph.Value{x}
			for range rng.IntN(3) {
				in = append(in, like(x))
			}
			values = append(values, p.allReduce(mean, in...)...)
		case 9:
			if s.Rank() > 0 && s.Dims[0]%size == 0 {
				values = append(values, p.reduceScatter(mean, x)...)
			}
		case 10:
			if s.Rank() > 0 && s.Size() <= long {
				values = append(values, p.allGather(x)...)
			}
		case 11:
			if s.Rank() > 0 && s.Dims[0]%size == 0 && s.Size() > 0 {
				own := p.reduceScatter(mean, like(x))[0]
				values = append(values, own, p.allGatherInto(x, own))
			}
		}
	}
	var outputs, all []graph.Value
	for _, v := range values {
		if rng.IntN(4) == 0 || v == values[len(values)-1] {
			outputs = append(outputs, v)
		}
	}
	for r := range size {
		for _, v := range outputs {
			all = append(all, p.of[v][r])
		}
	}
	testkit.OK(t, p.SetOutputs(outputs...))
	testkit.OK(t, p.all.SetOutputs(all...))
	return p
}

// anything is elements of a shape, small numbers.
func anything(rng *rand.Rand, s graph.Shape) (b []byte) {
	for range s.Size() {
		k := rng.IntN(64)
		switch s.Type {
		case dtype.F32:
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(k-32)/3))
		case dtype.F64:
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(float64(k-32)/3))
		case dtype.BF16:
			b = binary.LittleEndian.AppendUint16(b, uint16(math.Float32bits(float32(k-32)/4)>>16))
		case dtype.I64:
			b = binary.LittleEndian.AppendUint64(b, uint64(k-32))
		case dtype.I32:
			b = binary.LittleEndian.AppendUint32(b, uint32(k-32))
		default:
			b = append(b, byte(k))
		}
	}
	return b
}

// run runs what all ranks do, with what each has for each parameter. The results are those
// of rank 0, of rank 1 and so on.
func (p *pair) run(x *step.Executable, data [][][]byte) (want [][]byte) {
	var in []*step.Tensor
	for i, v := range p.Parameters() {
		for r := range p.size {
			in = append(in, testkit.Must(x.Memory().Put(data[r][i], v.Shape()))(p.t))
		}
	}
	for _, v := range testkit.Must(x.Run(context.Background(), in, nil))(p.t) {
		want = append(want, read(p.t, v))
		testkit.OK(p.t, v.Free())
	}
	for _, v := range in {
		testkit.OK(p.t, v.Free())
	}
	return want
}

func read(t testing.TB, v *step.Tensor) []byte {
	b := make([]byte, v.Shape().Bytes())
	testkit.OK(t, v.Read(b))
	return b
}

// anything is elements for each parameter of each rank.
func (p *pair) anything(rng *rand.Rand) [][][]byte {
	data := make([][][]byte, p.size)
	for r := range data {
		for _, v := range p.Parameters() {
			data[r] = append(data[r], anything(rng, v.Shape()))
		}
	}
	return data
}

// attempt calls fn for all ranks at once. If it fails for one, the others wait in vain.
func attempt(t *testing.T, ranks []rank, fn func(rank) error) {
	t.Helper()
	each(ranks, func(r rank) {
		if err := fn(r); err != nil {
			t.Errorf("rank %d of %d: %v", r.Rank(), r.Size(), err)
			for _, other := range ranks {
				other.Abort(err)
			}
		}
	})
	if t.Failed() {
		t.FailNow()
	}
}

// budget is one between the least that a plan was found for and all that the graph takes.
func budget(g *graph.Graph, exec step.Executor, o step.Options, part float64) (int64, error) {
	whole, err := step.Plan(g, exec, o)
	if err != nil {
		return 0, err
	}
	o.Budget = 1
	_, err = step.Plan(g, exec, o)
	if e := (*plan.ImpossibleError)(nil); errors.As(err, &e) {
		return e.Found + int64(part*float64(whole.Bytes-e.Found)), nil
	}
	return 0, err
}

func seeds(all uint64) uint64 {
	if testing.Short() {
		return all / 3
	}
	return all
}

// Random graphs have on ranks, within any budgets, which differ between them, recorded or
// not, in a block that moves or not, with parameters that are donated and results that are
// lent, the results that one device has that does what all do.
func TestRanksRandom(t *testing.T) {
	var sent, again, launched int
	for seed := range seeds(48) {
		rng := rand.New(rand.NewPCG(seed, 3))
		p := randomPair(t, rng, 1+rng.IntN(4))
		ranks := openRanks(t, p.size)
		whole := testkit.Must(step.Compile(p.all.Graph, openExecutor(t), step.Options{}))(t)
		var data [4][][][]byte // of each run
		var want [4][][]byte
		for k := range data {
			if k > 0 && rng.IntN(2) == 0 {
				data[k], want[k] = data[k-1], want[k-1]
				continue
			}
			data[k] = p.anything(rng)
			want[k] = p.run(whole, data[k])
		}
		testkit.OK(t, whole.Close())
		o := step.Options{BucketBytes: []int64{0, 1, 2000}[rng.IntN(3)], Capture: []step.Capture{step.CaptureAlways, step.CaptureNever}[rng.IntN(2)]}
		for range p.Parameters() {
			o.Donate = append(o.Donate, rng.IntN(2) == 0)
		}
		blocks := rng.IntN(2) == 0
		if !blocks && rng.IntN(2) == 0 {
			for range p.Outputs() {
				o.Lend = append(o.Lend, rng.IntN(2) == 0)
			}
		}
		links, parts := make([]float64, p.size), make([]float64, p.size)
		for r := range p.size {
			links[r], parts[r] = []float64{0, 1e8, 1e12}[rng.IntN(3)], []float64{-1, 0, 0, 0.3, 0.7}[rng.IntN(5)]
		}
		attempt(t, ranks, func(r rank) (err error) {
			o := o
			o.Ranks, o.Link = slow{r.Comm}, links[r.Rank()]
			if part := parts[r.Rank()]; part >= 0 {
				if o.Budget, err = budget(p.Graph, r.exec, o, part); err != nil {
					return err
				}
			}
			o.Memory = testkit.Must(step.OpenMemory(r.exec.Device(), nil))(t)
			defer o.Memory.Close()
			if blocks {
				o.Block = step.NewBlock(o.Memory)
			}
			x, err := step.Compile(p.Graph, r.exec, o)
			if err != nil {
				return err
			}
			defer x.Close()
			for k := range data {
				if blocks && k == 2 {
					large := testkit.Must(step.Compile(p.all.Graph, r.exec, step.Options{Memory: o.Memory, Block: o.Block}))(t)
					defer large.Close()
				}
				var in []*step.Tensor
				for i, v := range p.Parameters() {
					in = append(in, testkit.Must(o.Memory.Put(data[k][r.Rank()][i], v.Shape()))(t))
				}
				donate := o.Donate
				if k == 3 {
					donate = nil
				}
				out, err := x.Run(context.Background(), in, donate)
				if err != nil {
					return err
				}
				for i, v := range out {
					if !bytes.Equal(read(t, v), want[k][r.Rank()*len(out)+i]) {
						return fmt.Errorf("seed %d: run %d: result %d differs\n%v\n%+v", seed, k, i, p.Graph, o)
					}
					testkit.OK(t, v.Free())
				}
				for _, v := range in {
					testkit.OK(t, v.Free())
				}
			}
			if r.Rank() > 0 {
				return nil
			}
			for _, l := range x.Plan().Lives {
				if l.Sent {
					sent++
				}
			}
			for _, l := range x.Plan().Runs {
				if l.Again {
					again++
				}
			}
			launched += x.CaptureStats().Launched
			return nil
		})
	}
	t.Logf("%d values sent, %d operations again, %d runs launched", sent, again, launched)
	if sent == 0 || again == 0 || launched == 0 {
		t.Error("not everything was tried")
	}
}

// The same for sessions, whose state stays on the device from run to run.
func TestRanksSessions(t *testing.T) {
	kept := 0
	for seed := range seeds(24) {
		rng := rand.New(rand.NewPCG(seed, 4))
		p := randomPair(t, rng, 1+rng.IntN(3))
		ranks := openRanks(t, p.size)
		state, stays := map[int]int{}, make([]bool, len(p.Parameters()))
		for i, v := range p.Outputs() {
			for j, w := range p.Parameters() {
				if !stays[j] && v.Shape().Equal(w.Shape()) && rng.IntN(3) > 0 {
					state[i], stays[j] = j, true
					kept++
					break
				}
			}
		}
		whole := testkit.Must(step.Compile(p.all.Graph, openExecutor(t), step.Options{}))(t)
		var data [4][][][]byte
		var want [4][][]byte
		for k := range data {
			data[k] = p.anything(rng)
			for i, j := range state {
				for r := range p.size {
					if k > 0 {
						data[k][r][j] = want[k-1][r*len(p.Outputs())+i]
					}
				}
			}
			want[k] = p.run(whole, data[k])
		}
		testkit.OK(t, whole.Close())
		o := step.Options{BucketBytes: []int64{0, 1, 2000}[rng.IntN(3)], Capture: []step.Capture{step.CaptureAuto, step.CaptureNever}[rng.IntN(2)]}
		attempt(t, ranks, func(r rank) error {
			o := o
			o.Ranks = slow{r.Comm}
			o.Memory = testkit.Must(step.OpenMemory(r.exec.Device(), nil))(t)
			defer o.Memory.Close()
			tensors := make([]*step.Tensor, len(stays))
			for j, v := range p.Parameters() {
				if stays[j] {
					tensors[j] = testkit.Must(o.Memory.Put(data[0][r.Rank()][j], v.Shape()))(t)
					defer tensors[j].Free()
				}
			}
			s, err := step.OpenSession(p.Graph, r.exec, step.SessionOptions{Compile: o, Tensors: tensors, State: state})
			if err != nil {
				return err
			}
			defer s.Close()
			for k := range data {
				var in, got [][]byte
				for j := range stays {
					if !stays[j] {
						in = append(in, data[k][r.Rank()][j])
					}
				}
				if _, err := s.Run(context.Background(), in, nil); err != nil {
					return err
				}
				outs := s.Outputs()
				for i := range p.Outputs() {
					if j, ok := state[i]; ok {
						got = append(got, read(t, tensors[j]))
					} else {
						got, outs = append(got, outs[0]), outs[1:]
					}
				}
				for i := range got {
					if !bytes.Equal(got[i], want[k][r.Rank()*len(got)+i]) {
						return fmt.Errorf("seed %d: run %d: result %d differs\n%v\n%+v, %v", seed, k, i, p.Graph, o, state)
					}
				}
			}
			return nil
		})
	}
	if kept == 0 {
		t.Error("no session has a state")
	}
}
