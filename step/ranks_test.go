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
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/parallel"
	"github.com/pinion-gpu/pinion/parallel/local"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/graph"
	"github.com/pinion-gpu/pinion/step/host"
)

// rank is an executor of one rank of several.
type rank struct {
	parallel.Comm
	exec step.Executor
}

// openRanks makes ranks on devices of their own.
func openRanks(t testing.TB, n int) []rank {
	var devices []device.Device
	for range n {
		dev := testkit.Must(device.Open("host"))(t)
		t.Cleanup(func() { testkit.OK(t, dev.Close()) })
		devices = append(devices, dev)
	}
	var all []rank
	for i, c := range testkit.Must(local.New(devices...))(t) {
		exec := testkit.Must(host.Open(devices[i]))(t)
		t.Cleanup(func() { testkit.OK(t, exec.Close()) })
		all = append(all, rank{c, exec})
	}
	return all
}

// each calls fn for all ranks at once.
func each(ranks []rank, fn func(rank)) {
	var all sync.WaitGroup
	for _, r := range ranks {
		all.Go(func() { fn(r) })
	}
	all.Wait()
}

// A sum and a mean of what ranks have, of which one is a result and one goes on.
func TestAllReduce(t *testing.T) {
	ranks := openRanks(t, 3)
	m := newMaker(t)
	x, y := m.param(f32(2)), m.param(graph.MakeShape(dtype.I32, 3))
	means := testkit.Must(m.AllReduce(graph.AllReduceOptions{Mean: true}, m.must(m.Unary(graph.Neg, x))))(t)
	sums := testkit.Must(m.AllReduce(graph.AllReduceOptions{}, y))(t)
	testkit.OK(t, m.SetOutputs(m.must(m.Unary(graph.Abs, means[0])), sums[0]))
	each(ranks, func(r rank) {
		x, err := step.Compile(m.Graph, r.exec, step.Options{Ranks: r})
		if err != nil {
			t.Error(err)
			return
		}
		defer x.Close()
		k := float32(r.Rank())
		a, _ := x.Memory().Put(floats(1+k, 10*k), f32(2))
		b, _ := x.Memory().Put(binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint32(nil, 7), uint64(r.Rank())), graph.MakeShape(dtype.I32, 3))
		for range 4 { // queued, recorded, and launched
			out, err := x.Run(context.Background(), []*step.Tensor{a, b}, nil)
			if err != nil {
				t.Error(err)
				return
			}
			got, ints := make([]byte, 8), make([]byte, 12)
			testkit.OK(t, out[0].Read(got))
			testkit.OK(t, out[1].Read(ints))
			if !bytes.Equal(got, floats(2, 10)) || binary.LittleEndian.Uint32(ints) != 21 || binary.LittleEndian.Uint64(ints[4:]) != 3 {
				t.Errorf("rank %d has %x and %x", r.Rank(), got, ints)
			}
			testkit.OK(t, out[0].Free())
			testkit.OK(t, out[1].Free())
		}
		testkit.OK(t, a.Free())
		testkit.OK(t, b.Free())
	})
}

// A plan says how long ranks are waited for, and so does Predict for any number of them.
func TestPredict(t *testing.T) {
	ranks := openRanks(t, 2)
	each(ranks, func(r rank) {
		n := modelOf(t, 2, true)
		speed := parallel.Speed{Latency: 30 * time.Microsecond, Bus: 1e7}
		seconds := func(*step.Task) float64 { return 20e-6 }
		x, err := step.Compile(n.Graph, r.exec, step.Options{Donate: n.donate, Ranks: r, RanksSpeed: speed, BucketBytes: 2048, Seconds: seconds})
		if err != nil {
			t.Error(err)
			return
		}
		defer x.Close()
		p := x.Plan()
		total, waited := x.Predict(seconds, 2, speed)
		if math.Abs(total-p.Seconds) > 1e-12 || math.Abs(waited-p.Beside) > 1e-12 || waited == 0 {
			t.Errorf("%v s with %v of waiting; the plan says %v and %v", total, waited, p.Seconds, p.Beside)
		}
		alone, waited := x.Predict(seconds, 1, speed)
		if waited != 0 || alone >= total {
			t.Errorf("alone, %v s with %v of waiting, and %v with others", alone, waited, total)
		}
		before := total
		for n := 4; n <= 1024; n *= 2 {
			more, waited := x.Predict(seconds, n, speed)
			// All that travels takes less than twice what it does between two.
			if more < before || waited > 2*total {
				t.Errorf("%d ranks: %v s with %v of waiting, and %v with half of them", n, more, waited, before)
			}
			before = more
		}
	})
}

// Ranks that train with batches of their own have the same weights, with the same bits,
// whatever the budget and the buckets.
func TestTrainRanks(t *testing.T) {
	const steps = 4
	ranks := openRanks(t, 3)
	nets := make([]*net, len(ranks))
	for i := range nets {
		nets[i] = modelOf(t, 2, true)
		rng := rand.New(rand.NewPCG(5, uint64(i)))
		for k := range 2 { // tokens and targets
			for j := 0; j < len(nets[i].inputs[k]); j += 4 {
				binary.LittleEndian.PutUint32(nets[i].inputs[k][j:], uint32(rng.IntN(11)))
			}
		}
	}
	compile := func(r rank, o step.Options) (*step.Executable, error) {
		o.Donate, o.Ranks = nets[r.Rank()].donate, r
		return step.Compile(nets[r.Rank()].Graph, r.exec, o)
	}
	var want [][]byte
	var most, resident int64
	try := func(what string, o step.Options) {
		results := make([][][]byte, len(ranks))
		each(ranks, func(r rank) {
			x, err := compile(r, o)
			if err != nil {
				t.Errorf("%s: %v", what, err)
				return
			}
			defer x.Close()
			if r.Rank() == 0 && want == nil {
				most, resident = x.PeakBytes(), x.Plan().Resident
			}
			results[r.Rank()] = train(t, nets[r.Rank()], x, steps)
		})
		if want == nil {
			want = results[0]
		}
		per := len(want) / steps
		for i, got := range results {
			for k := range want {
				if k%per > 0 && !bytes.Equal(got[k], want[k]) { // but losses, which are of each rank
					t.Fatalf("%s: result %d of rank %d differs", what, k, i)
				}
			}
		}
		if bytes.Equal(results[0][0], results[1][0]) {
			t.Errorf("%s: ranks had the same batch", what)
		}
	}
	try("no budget", step.Options{})
	try("small buckets", step.Options{BucketBytes: 2048})
	try("a bucket for each", step.Options{BucketBytes: 1})
	if testing.Short() {
		return
	}
	for _, link := range []float64{0, 1e9} {
		o := step.Options{Link: link, BucketBytes: 2048}
		for _, part := range []int64{2, 3} {
			o.Budget = resident + (most-resident)*part/4
			if _, err := compile(ranks[0], o); err != nil {
				t.Logf("budget %d of %d: %v", o.Budget, most, err)
				continue
			}
			try(fmt.Sprintf("link %v, budget %d", link, o.Budget), o)
		}
	}
}

// Ranks measure a step together, however fast each is, and run it as before.
func TestRanksMeasure(t *testing.T) {
	each(openRanks(t, 2), func(r rank) {
		n := modelOf(t, 1, true)
		x, err := step.Compile(n.Graph, r.exec, step.Options{Ranks: r})
		if err != nil {
			t.Error(err)
			return
		}
		defer x.Close()
		var in []*step.Tensor
		for i, p := range n.Parameters() {
			tensor, err := x.Memory().Put(n.inputs[i], p.Shape())
			if err != nil {
				t.Error(err)
				return
			}
			defer tensor.Free()
			in = append(in, tensor)
		}
		for range 2 {
			if _, err := x.Measure(context.Background(), in); err != nil {
				t.Errorf("rank %d: %v", r.Rank(), err)
			}
		}
	})
}

// takes is ranks whose operations take seconds on a simulated device, and do nothing.
type takes struct {
	parallel.Comm
	on      *simulated
	seconds float64
}

func (c takes) Device() device.Device { return c.on }

func (c takes) AllReduce(s device.Stream, _ dtype.DType, _ parallel.Op, _ ...parallel.Part) error {
	s.(*simulatedStream).pass(c.seconds)
	return nil
}

// The time that a task waits for other ranks is not its own.
func TestRanksMeasureWaiting(t *testing.T) {
	e := openSimulated(t, simulated{rate: 1e9}, func(*step.Task, int) float64 { return 10e-6 })
	m := newMaker(t)
	x := m.must(m.Unary(graph.Exp, m.param(f32(4))))
	sum := testkit.Must(m.AllReduce(graph.AllReduceOptions{}, x))(t)[0]
	y := m.must(m.Reduce(graph.ReduceSum, m.must(m.Binary(graph.Mul, x, x)), 0))
	testkit.OK(t, m.SetOutputs(y, m.must(m.Unary(graph.Neg, sum))))
	ranks := testkit.Must(local.New(e.dev.Device))(t)
	whole := testkit.Must(step.Compile(m.Graph, e, step.Options{Ranks: takes{ranks[0], e.dev, 1e-3}}))(t)
	defer whole.Close()
	times := measured(t, whole)
	for _, task := range whole.Tasks() {
		if got := times.Seconds(task); got > 11e-6 {
			t.Errorf("%v takes %v s", task, got)
		}
	}
}

// What ranks reduce begins while others are computed, and what reads it comes behind the
// beginning of the next.
func TestRanksOrder(t *testing.T) {
	r := openRanks(t, 1)[0]
	n := modelOf(t, 2, true)
	x := testkit.Must(step.Compile(n.Graph, r.exec, step.Options{Donate: n.donate, Ranks: r, BucketBytes: 4096}))(t)
	defer x.Close()
	var order []string
	for _, run := range x.Plan().Runs {
		task := x.Task(run)
		switch {
		case strings.Contains(task.String(), "AllReduce"):
			order = append(order, "reduce")
		case slices.ContainsFunc(task.Outputs, func(v graph.Value) bool { return slices.Contains(x.Graph().Outputs(), v) }):
			order = append(order, "update")
		case strings.Contains(task.String(), "DotGeneral"):
			order = append(order, "product")
		}
	}
	order = slices.Compact(order)
	if got := strings.Join(order, " "); !strings.Contains(got, "product reduce product reduce update product reduce update") {
		t.Error(got)
	}
}

// noting is ranks who note which stream each operation is queued on.
type noting struct {
	parallel.Comm
	streams *[]device.Stream
}

func (c noting) AllReduce(s device.Stream, t dtype.DType, op parallel.Op, parts ...parallel.Part) error {
	*c.streams = append(*c.streams, s)
	return c.Comm.AllReduce(s, t, op, parts...)
}

// What ranks do together runs beside other tasks also when a block has moved.
func TestRanksBlock(t *testing.T) {
	r := openRanks(t, 1)[0]
	mem := testkit.Must(step.OpenMemory(r.exec.Device(), nil))(t)
	defer mem.Close()
	block := step.NewBlock(mem)
	var streams []device.Stream
	compile := func(size int) (*step.Executable, *step.Tensor) {
		m := newMaker(t)
		x := m.must(m.Unary(graph.Neg, m.param(f32(size))))
		sum := testkit.Must(m.AllReduce(graph.AllReduceOptions{}, x))(t)[0]
		testkit.OK(t, m.SetOutputs(m.must(m.Unary(graph.Neg, sum))))
		whole := testkit.Must(step.Compile(m.Graph, r.exec, step.Options{Memory: mem, Block: block, Ranks: noting{r.Comm, &streams}}))(t)
		return whole, testkit.Must(mem.Put(floats(make([]float32, size)...), f32(size)))(t)
	}
	x, in := compile(4)
	defer x.Close()
	run := func() {
		out := testkit.Must(x.Run(context.Background(), []*step.Tensor{in}, nil))(t)
		testkit.OK(t, out[0].Free())
	}
	run()
	large, more := compile(1 << 12)
	defer large.Close()
	run()
	if len(streams) != 2 || streams[0] != streams[1] {
		t.Errorf("%d operations, on streams %v", len(streams), streams)
	}
	testkit.OK(t, in.Free())
	testkit.OK(t, more.Free())
}

// remaker is an executor that makes any values in any company.
type remaker struct{ *simulator }

func (remaker) Fuse(g *graph.Graph) (all []*step.Task, err error) {
	for _, n := range g.Nodes() {
		if n.Op != graph.Parameter {
			all = append(all, &step.Task{Nodes: []*graph.Node{n}, Inputs: n.Inputs, Outputs: []graph.Value{n.Value(0)}})
		}
	}
	return all, nil
}

func (remaker) Remake(values, given []graph.Value) (*step.Task, error) {
	t := &step.Task{Inputs: given, Outputs: values}
	for _, v := range values {
		t.Nodes = append(t.Nodes, v.Node())
	}
	return t, nil
}

// What ranks do together has one order, also where a budget has other tasks in another one.
func TestRanksKeepOrder(t *testing.T) {
	e := remaker{openSimulated(t, simulated{rate: 1e9}, func(*step.Task, int) float64 { return 1e-6 })}
	m := newMaker(t)
	a := m.must(m.Unary(graph.Neg, m.param(f32(1<<13))))
	early := m.must(m.Unary(graph.Exp, a))
	late := m.param(f32(2))
	for range 20 {
		late = m.must(m.Unary(graph.Sin, late))
	}
	sums := testkit.Must(m.AllReduce(graph.AllReduceOptions{}, early, late))(t)
	more := testkit.Must(m.AllReduce(graph.AllReduceOptions{Mean: true}, m.must(m.Unary(graph.Sin, late))))(t)
	last := m.must(m.Reduce(graph.ReduceSum, m.must(m.Unary(graph.Tanh, a)), 0))
	testkit.OK(t, m.SetOutputs(sums[0], sums[1], more[0], last))
	ranks := testkit.Must(local.New(e.dev.Device))(t)
	order := func(budget int64) (list []bool) {
		x := testkit.Must(step.Compile(m.Graph, e, step.Options{Ranks: takes{ranks[0], e.dev, 1e-6}, Budget: budget}))(t)
		defer x.Close()
		for _, run := range x.Plan().Runs {
			if n := x.Task(run).Nodes[0]; n.Op == graph.AllReduce {
				list = append(list, n.Attr.(*graph.Together).Mean)
			}
		}
		return list
	}
	if got, want := order(1<<20), order(0); !slices.Equal(got, want) || len(got) != 2 {
		t.Errorf("%v within a budget, %v without", got, want)
	}
}

// late is a context that ends once it was asked.
type late struct {
	context.Context
	asked int
}

func (c *late) Err() error {
	if c.asked++; c.asked > 1 {
		return context.Canceled
	}
	return nil
}

// A rank does what the others wait for, or nothing, when its context ends.
func TestRanksContext(t *testing.T) {
	ranks := openRanks(t, 2)
	m := newMaker(t)
	x := m.param(f32(2))
	for range 3 {
		x = testkit.Must(m.AllReduce(graph.AllReduceOptions{}, m.must(m.Unary(graph.Neg, x))))(t)[0]
	}
	testkit.OK(t, m.SetOutputs(x))
	attempt(t, ranks, func(r rank) error {
		x, err := step.Compile(m.Graph, r.exec, step.Options{Ranks: r.Comm})
		if err != nil {
			return err
		}
		defer x.Close()
		in := testkit.Must(x.Memory().Put(floats(1, float32(r.Rank())), f32(2)))(t)
		defer in.Free()
		var ctx context.Context = context.Background()
		if r.Rank() == 1 {
			ctx = &late{Context: ctx}
		}
		out, err := x.Run(ctx, []*step.Tensor{in}, nil)
		if err != nil {
			return err
		}
		if got := read(t, out[0]); !bytes.Equal(got, floats(-8, -4)) {
			t.Errorf("rank %d has %x", r.Rank(), got)
		}
		return out[0].Free()
	})
}

// Whoever waits for a rank that never comes is told why when its communicator is aborted,
// also in a step that is launched as one, and can close what it has.
func TestRanksAbort(t *testing.T) {
	for _, capture := range []step.Capture{step.CaptureNever, step.CaptureAlways} {
		ranks := openRanks(t, 2)
		m := newMaker(t)
		x := testkit.Must(m.AllReduce(graph.AllReduceOptions{}, m.must(m.Unary(graph.Neg, m.param(f32(2))))))(t)[0]
		testkit.OK(t, m.SetOutputs(m.must(m.Unary(graph.Neg, x))))
		reason, runs := errors.New("rank 1 went home"), make(chan struct{})
		each(ranks, func(r rank) {
			x := testkit.Must(step.Compile(m.Graph, r.exec, step.Options{Ranks: r.Comm, Capture: capture}))(t)
			defer x.Close()
			in := testkit.Must(x.Memory().Put(floats(1, 2), f32(2)))(t)
			defer in.Free()
			for range 4 {
				out, err := x.Run(context.Background(), []*step.Tensor{in}, nil)
				if err != nil {
					t.Error(err)
					return
				}
				testkit.OK(t, out[0].Free())
			}
			if r.Rank() == 1 {
				<-runs
				ranks[0].Abort(reason)
				return
			}
			close(runs)
			_, err := x.Run(context.Background(), []*step.Tensor{in}, nil)
			testkit.WantError(t, "a run", err, parallel.ErrAborted, reason.Error())
			_, err = x.Run(context.Background(), []*step.Tensor{in}, nil)
			testkit.WantError(t, "the next run", err, parallel.ErrAborted, reason.Error())
		})
	}
}

func TestRanksRefused(t *testing.T) {
	r := openRanks(t, 1)[0]
	m := newMaker(t)
	x := m.param(f32(2))
	sum := testkit.Must(m.AllReduce(graph.AllReduceOptions{}, x))(t)
	testkit.OK(t, m.SetOutputs(sum...))
	_, err := step.Compile(m.Graph, r.exec, step.Options{})
	testkit.WantError(t, "no ranks", err, step.ErrArgument, "AllReduce", "Options.Ranks")
	_, err = step.Compile(m.Graph, r.exec, step.Options{Ranks: r, BucketBytes: -1})
	testkit.WantError(t, "a bucket of -1", err, step.ErrArgument, "BucketBytes is -1")
	_, err = step.Compile(m.Graph, openRanks(t, 1)[0].exec, step.Options{Ranks: r})
	testkit.WantError(t, "ranks of another device", err, step.ErrArgument, "Options.Ranks on host")
	_, err = m.AllReduce(graph.AllReduceOptions{Mean: true}, m.param(graph.MakeShape(dtype.I32, 2)))
	testkit.WantError(t, "a mean of integers", err, step.ErrArgument, "i32")
	_, err = m.ReduceScatter(graph.AllReduceOptions{}, 3, x)
	testkit.WantError(t, "2 elements for 3 ranks", err, step.ErrArgument, "3 ranks")
	two := newMaker(t)
	testkit.OK(t, two.SetOutputs(testkit.Must(two.AllGather(2, two.param(f32(2))))(t)...))
	_, err = step.Compile(two.Graph, r.exec, step.Options{Ranks: r})
	testkit.WantError(t, "a graph for two ranks", err, step.ErrArgument, "not for 1 ranks")
}
