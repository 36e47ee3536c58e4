package ranks_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/train"
	"github.com/gomlx/gomlx/ml/train/metric"
	"github.com/gomlx/gomlx/ml/train/optimizer"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/gomlx"
	"github.com/pinion-gpu/pinion/gomlx/ranks"
	"github.com/pinion-gpu/pinion/parallel"
	"github.com/pinion-gpu/pinion/parallel/local"
)

// together runs ranks that are goroutines.
func together(t *testing.T, size int, rank func(comm parallel.Comm) error) {
	t.Helper()
	var devices []device.Device
	for range size {
		dev, err := device.Open("host")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { dev.Close() })
		devices = append(devices, dev)
	}
	comms, err := local.New(devices...)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i, comm := range comms {
		all.Go(func() {
			if err := rank(comm); err != nil {
				t.Errorf("rank %d: %v", i, err)
				for _, c := range comms { // nobody waits for it
					c.Abort(err)
				}
			}
		})
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

const features, hidden, samples = 7, 13, 12

// net has weights that are shared by two and three ranks, evenly and not, and others.
func net(scope *model.Scope, _ any, in []*Node) []*Node {
	start := func(name string, dims ...int) *Node {
		size := 1
		for _, d := range dims {
			size *= d
		}
		values := make([]float32, size)
		for i := range values {
			values[i] = float32(math.Sin(float64(i)*0.7+float64(len(name)))) / 3
		}
		return scope.In("%s", name).VariableWithValue("weights", tensors.FromFlatDataAndDimensions(values, dims...)).NodeValue(in[0].Graph())
	}
	x := Tanh(Add(Dot(in[0], start("first", features, hidden)).Product(), start("bias", 1, hidden)))
	x = Tanh(Dot(x, start("square", hidden, hidden-1)).Product())
	return []*Node{Dot(x, start("last", hidden-1, 1)).Product()}
}

func loss(labels, predictions []*Node) *Node {
	return ReduceAllMean(Square(Sub(labels[0], predictions[0])))
}

// batch is a rank's part of the samples.
func batch(step, rank, size int) train.Batch {
	n := samples / size
	x, y := make([]float32, n*features), make([]float32, n)
	for i := range x {
		x[i] = float32(math.Cos(float64((rank*n*features+i)*(step+2)%97) / 5))
	}
	for i := range y {
		y[i] = float32(math.Sin(float64((rank*n + i) * (step + 1))))
	}
	return train.Batch{Inputs: []*tensors.Tensor{tensors.FromFlatDataAndDimensions(x, n, features)}, Labels: []*tensors.Tensor{tensors.FromFlatDataAndDimensions(y, n, 1)}}
}

// trained is what a rank trains.
type trained struct {
	backend *gomlx.Backend
	store   *model.Store
	opt     *ranks.Optimizer
	trainer *train.Trainer
	comm    parallel.Comm // nil: alone
	loss    []float64
}

func newTrained(comm parallel.Comm, opt *ranks.Optimizer) (*trained, error) {
	return newTrainedBy(gomlx.Options{}, comm, opt)
}

func newTrainedBy(o gomlx.Options, comm parallel.Comm, opt *ranks.Optimizer) (*trained, error) {
	o.Device = "host"
	if comm != nil {
		o.Ranks = comm
	}
	backend, err := gomlx.Open(o)
	if err != nil {
		return nil, err
	}
	store := model.NewStore()
	return &trained{backend, store, opt, train.NewTrainer(backend, store, net, loss, opt, nil, nil), comm, nil}, nil
}

// steps trains from one step to another.
func (r *trained) steps(from, to int) error {
	rank, size := 0, 1
	if r.comm != nil {
		rank, size = r.comm.Rank(), r.comm.Size()
	}
	for i := from; i < to; i++ {
		metrics, err := r.trainer.TrainStep(batch(i, rank, size))
		if err != nil {
			return err
		}
		r.loss = append(r.loss, float64(tensors.ToScalar[float32](metrics[0])))
	}
	return nil
}

// values are the variables whose path has a part, but for those of metrics.
func (r *trained) values(part string) (map[string][]float32, error) {
	m := map[string][]float32{}
	for v := range r.store.IterVariables() {
		if !strings.Contains(v.Path(), part) || v.DType() != dtypes.Float32 || strings.HasPrefix(v.Path(), "/"+metric.Scope+"/") {
			continue
		}
		value, err := v.Value()
		if err != nil {
			return nil, err
		}
		if m[v.Path()], err = tensors.CopyFlatData[float32](value); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// shape is that of a variable, as text.
func (r *trained) shape(path string) string {
	return fmt.Sprint(r.store.GetVariable(path).Shape().Dimensions)
}

func far(a, b []float32, tolerance float64) bool {
	return len(a) != len(b) || slices.ContainsFunc(a, func(x float32) bool { return math.IsNaN(float64(x)) }) ||
		slices.MaxFunc(diff(a, b), func(x, y float64) int { return int(math.Copysign(1, x-y)) }) > tolerance
}

func diff(a, b []float32) (d []float64) {
	for i := range a {
		d = append(d, math.Abs(float64(a[i]-b[i])))
	}
	return d
}

func inners() map[string]func() optimizer.Interface {
	return map[string]func() optimizer.Interface{
		"SGD":     func() optimizer.Interface { return optimizer.StochasticGradientDescent().Done() },
		"Adam":    func() optimizer.Interface { return optimizer.Adam().LearningRate(0.01).Done() },
		"AdamW":   func() optimizer.Interface { return optimizer.Adam().LearningRate(0.01).WeightDecay(0.1).Done() },
		"Adamax":  func() optimizer.Interface { return optimizer.Adam().LearningRate(0.01).Adamax().Done() },
		"RMSProp": func() optimizer.Interface { return optimizer.RMSProp().LearningRate(0.01).Done() },
	}
}

// Ranks that share updates train as those that do not. Weights are whole and the same on
// all, and of moments each rank has a part.
func TestShare(t *testing.T) {
	for name, inner := range inners() {
		for size := 1; size <= 3; size++ {
			t.Run(fmt.Sprint(name, size), func(t *testing.T) {
				run := func(wrap func(optimizer.Interface) (*ranks.Optimizer, error)) []*trained {
					list := make([]*trained, size)
					together(t, size, func(comm parallel.Comm) error {
						opt, err := wrap(inner())
						if err != nil {
							return err
						}
						r, err := newTrained(comm, opt)
						if err != nil {
							return err
						}
						list[comm.Rank()] = r
						return r.steps(0, 8)
					})
					return list
				}
				want, got := run(ranks.New), run(ranks.Share)
				for i, r := range got {
					for k := range r.loss {
						if math.Abs(r.loss[k]-want[i].loss[k]) > 1e-5 {
							t.Errorf("rank %d: step %d: the loss is %g, and %g if nothing is shared", i, k, r.loss[k], want[i].loss[k])
						}
					}
					weights, err := r.values("/weights")
					first, firstErr := got[0].values("/weights")
					whole, wholeErr := want[i].values("/weights")
					if err := errors.Join(err, firstErr, wholeErr); err != nil {
						t.Fatal(err)
					}
					for path, w := range weights {
						if strings.Contains(path, "moment") {
							continue
						}
						if far(w, whole[path], 1e-5) {
							t.Errorf("rank %d: %s is %v, and %v if nothing is shared", i, path, w, whole[path])
						}
						if !slices.Equal(w, first[path]) {
							t.Errorf("rank %d: %s is not that of rank 0", i, path)
						}
					}
					if a, b := r.store.NumVariables(), want[i].store.NumVariables(); a != b {
						t.Errorf("rank %d: %d variables, and %d if nothing is shared", i, a, b)
					}
					moments := func(r *trained) (n int) {
						for v := range r.store.IterVariables() {
							if strings.Contains(v.Path(), "moment") {
								n += int(v.Shape().ByteSize())
							}
						}
						return n
					}
					shared := func(n int) int { return (n + size - 1) / size }
					elements := shared(features*hidden) + shared(hidden*(hidden-1)) + hidden + hidden - 1
					if all := features*hidden + hidden*(hidden-1) + hidden + hidden - 1; moments(r)*all != moments(want[i])*elements {
						t.Errorf("rank %d: moments take %d bytes, and %d if nothing is shared", i, moments(r), moments(want[i]))
					}
				}
			})
		}
	}
}

// Four ranks that share updates have a quarter of the moments each, and nothing instead: new
// weights take the place of those before.
func TestShareMemory(t *testing.T) {
	const side, weight = 128, 128 * 128 * 4
	model := func(scope *model.Scope, _ any, in []*Node) []*Node {
		w := scope.VariableWithValue("weights", tensors.FromScalarAndDimensions(float32(0.01), side, side))
		return []*Node{Dot(in[0], w.NodeValue(in[0].Graph())).Product()}
	}
	peak := map[bool]int64{}
	for shared, wrap := range map[bool]func(optimizer.Interface) (*ranks.Optimizer, error){false: ranks.New, true: ranks.Share} {
		together(t, 4, func(comm parallel.Comm) error {
			r, err := newTrained(comm, must(wrap(inners()["Adam"]())))
			if err != nil {
				return err
			}
			defer r.backend.Finalize()
			r.trainer = train.NewTrainer(r.backend, r.store, model, loss, r.opt, nil, nil)
			for range 3 {
				x := func() []*tensors.Tensor {
					return []*tensors.Tensor{tensors.FromScalarAndDimensions(float32(1), 2, side)}
				}
				if _, err := r.trainer.TrainStep(train.Batch{Inputs: x(), Labels: x()}); err != nil {
					return err
				}
			}
			if comm.Rank() == 0 {
				peak[shared] = r.backend.Stats().Allocated.Peak
			}
			return nil
		})
	}
	t.Logf("%d bytes of weights; %d bytes if nothing is shared, %d if updates are", weight, peak[false], peak[true])
	if less := peak[false] - peak[true]; less < weight*14/10 {
		t.Errorf("ranks take %d bytes, and %d if nothing is shared: %d less, for weights of %d", peak[true], peak[false], less, weight)
	}
}

// What three ranks save, other numbers of ranks load, and go on as one that was never ended.
func TestSave(t *testing.T) {
	adam := inners()["AdamW"]
	alone, err := newTrained(nil, must(ranks.New(adam())))
	if err != nil {
		t.Fatal(err)
	}
	defer alone.backend.Finalize()
	if err := alone.steps(0, 8); err != nil {
		t.Fatal(err)
	}
	want, err := alone.values("")
	if err != nil {
		t.Fatal(err)
	}
	for _, from := range []int{0, 1, 2, 3} { // 0: no communicator
		for _, to := range []int{0, 2, 3} {
			t.Run(fmt.Sprint(from, "to", to), func(t *testing.T) {
				folder := t.TempDir()
				part := func(size int, f func(comm parallel.Comm) error) {
					if size > 0 {
						together(t, size, f)
					} else if err := f(nil); err != nil {
						t.Fatal(err)
					}
				}
				part(from, func(comm parallel.Comm) error {
					r, err := newTrained(comm, must(ranks.Share(adam())))
					if err != nil {
						return err
					}
					defer r.backend.Finalize()
					if err := r.steps(0, 4); err != nil {
						return err
					}
					return r.opt.Save(t.Context(), folder, comm, r.store, map[string]string{"step": "4"})
				})
				end := t.TempDir()
				losses := make([][]float64, max(to, 1))
				part(to, func(comm parallel.Comm) error {
					r, err := newTrained(comm, must(ranks.Share(adam())))
					if err != nil {
						return err
					}
					defer r.backend.Finalize()
					meta, err := r.opt.Load(t.Context(), folder, comm, r.store)
					if err != nil {
						return err
					}
					if fmt.Sprint(meta) != "map[step:4]" {
						return fmt.Errorf("meta is %v", meta)
					}
					// What was loaded can be saved before another step.
					if err := r.opt.Save(t.Context(), folder, comm, r.store, nil); err != nil {
						return err
					}
					if err := r.steps(4, 8); err != nil {
						return err
					}
					rank := 0
					if comm != nil {
						rank = comm.Rank()
					}
					losses[rank] = r.loss
					return r.opt.Save(t.Context(), end, comm, r.store, nil)
				})
				for i, want := range alone.loss[4:] {
					mean := 0.0
					for _, l := range losses {
						mean += l[i] / float64(len(losses))
					}
					if math.Abs(mean-want) > 1e-5 {
						t.Errorf("step %d: the loss is %g, want %g", 4+i, mean, want)
					}
				}
				// As a whole, everything is what one has that was never ended.
				r, err := newTrained(nil, must(ranks.New(adam())))
				if err != nil {
					t.Fatal(err)
				}
				defer r.backend.Finalize()
				if _, err := r.opt.Load(t.Context(), end, nil, r.store); err != nil {
					t.Fatal(err)
				}
				got, err := r.values("")
				if err != nil || len(got) != len(want) {
					t.Fatal(len(got), len(want), err)
				}
				for path, w := range want {
					if r.shape(path) != alone.shape(path) || far(got[path], w, 1e-5) {
						t.Errorf("%s is %s %v, want %s %v", path, r.shape(path), got[path], alone.shape(path), w)
					}
					if a, b := r.store.GetVariable(path).Trainable, alone.store.GetVariable(path).Trainable; a != b {
						t.Errorf("%s is trainable: %t, want %t", path, a, b)
					}
				}
			})
		}
	}
}

func must(o *ranks.Optimizer, err error) *ranks.Optimizer {
	if err != nil {
		panic(err)
	}
	return o
}

// Gradients of several batches are added up, batches may have other lengths, and models are
// evaluated, while updates are shared.
func TestShareBetween(t *testing.T) {
	together(t, 3, func(comm parallel.Comm) error {
		r, err := newTrained(comm, must(ranks.Share(inners()["Adam"]())))
		if err != nil {
			return err
		}
		defer r.backend.Finalize()
		if err := r.trainer.AccumulateGradients(2); err != nil {
			return err
		}
		if err := r.steps(0, 4); err != nil {
			return err
		}
		for range 2 {
			if _, err := r.trainer.TrainStep(batch(5, 0, 1)); err != nil { // a longer one
				return err
			}
		}
		if _, err := r.trainer.EvalStep(batch(0, 0, 1)); err != nil {
			return err
		}
		if got := optimizer.GetGlobalStep(r.store); got != 3 {
			return fmt.Errorf("%d steps, want 3", got)
		}
		for path, want := range map[string]string{
			"/first/weights":                           "[7 13]",
			"/acc_grads/first/weights":                 "[7 13]",
			"/AdamOptimizer/first/weights_1st_moment":  "[31]",
			"/AdamOptimizer/square/weights_2nd_moment": "[52]",
			"/AdamOptimizer/last/weights_2nd_moment":   "[12 1]",
			"/AdamOptimizer/bias/weights_1st_moment":   "[1 13]",
		} {
			if got := r.shape(path); got != want {
				return fmt.Errorf("%s is %s, want %s", path, got, want)
			}
		}
		return r.opt.Clear(r.store.RootScope())
	})
}

// On a backend without ranks, shared updates are the inner optimizer's.
func TestShareAlone(t *testing.T) {
	opt := must(ranks.Share(inners()["Adam"]()))
	a, err := newTrained(nil, opt)
	if err != nil {
		t.Fatal(err)
	}
	defer a.backend.Finalize()
	b, err := newTrained(nil, opt)
	if err != nil {
		t.Fatal(err)
	}
	defer b.backend.Finalize()
	b.trainer = train.NewTrainer(b.backend, b.store, net, loss, opt.Unwrap(), nil, nil)
	if err := errors.Join(a.steps(0, 4), b.steps(0, 4)); err != nil || !slices.Equal(a.loss, b.loss) {
		t.Errorf("losses %v, want %v; %v", a.loss, b.loss, err)
	}
}

// clipped divides gradients by the norm of all.
type clipped struct{ optimizer.Interface }

func (c clipped) UpdateGraphWithGradients(scope *model.Scope, gradients []*Node, t dtypes.DType) {
	norm := Const(gradients[0].Graph(), float32(1))
	for _, x := range gradients {
		norm = Add(norm, ReduceAllSum(Square(x)))
	}
	for i, x := range gradients {
		gradients[i] = Div(x, norm)
	}
	c.Interface.(train.OptimizeWithGradients).UpdateGraphWithGradients(scope, gradients, t)
}

// reversed has gradients the other way round.
type reversed struct{ optimizer.Interface }

func (c reversed) UpdateGraphWithGradients(scope *model.Scope, gradients []*Node, t dtypes.DType) {
	for i, x := range gradients {
		gradients[i] = Reverse(x, 0)
	}
	c.Interface.(train.OptimizeWithGradients).UpdateGraphWithGradients(scope, gradients, t)
}

// takesNone takes no gradients.
type takesNone struct{ optimizer.Interface }

// What does not go element by element is refused where it is shared, and only there.
func TestShareRefuses(t *testing.T) {
	for _, wrap := range []func(optimizer.Interface) (*ranks.Optimizer, error){ranks.New, ranks.Share} {
		if _, err := wrap(takesNone{}); !errors.Is(err, gomlx.ErrArgument) {
			t.Errorf("%v, want %v", err, gomlx.ErrArgument)
		}
	}
	adam := inners()["Adam"]()
	for name, c := range map[string]struct {
		inner  optimizer.Interface
		params map[string]any
		want   string
	}{
		"norm":    {clipped{adam}, nil, "ReduceSum"},
		"NaN":     {adam, map[string]any{optimizer.ParamClipNaN: true}, "ReduceLogicalAnd"},
		"reverse": {reversed{adam}, nil, "Reverse"},
	} {
		t.Run(name, func(t *testing.T) {
			step := func(comm parallel.Comm, opt *ranks.Optimizer) error {
				r, err := newTrained(comm, opt)
				if err != nil {
					return err
				}
				defer r.backend.Finalize()
				r.store.SetParams(c.params)
				return r.steps(0, 2)
			}
			together(t, 2, func(comm parallel.Comm) error {
				err := step(comm, must(ranks.Share(c.inner)))
				if !errors.Is(err, gomlx.ErrArgument) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "/first/weights") {
					return fmt.Errorf("%v, want %v with %s", err, gomlx.ErrArgument, c.want)
				}
				return step(comm, must(ranks.New(c.inner)))
			})
			if err := step(nil, must(ranks.Share(c.inner))); err != nil {
				t.Error(err)
			}
		})
	}
}

// What cannot be saved or loaded is an error on all ranks, and changes nothing.
func TestBadCheckpoints(t *testing.T) {
	folder := t.TempDir()
	together(t, 2, func(comm parallel.Comm) error {
		opt := must(ranks.Share(inners()["Adam"]()))
		r, err := newTrained(comm, opt)
		if err != nil {
			return err
		}
		defer r.backend.Finalize()
		if err := opt.Save(t.Context(), folder, comm, r.store, nil); err == nil {
			return errors.New("there was nothing to save")
		}
		if _, err := opt.Load(t.Context(), filepath.Join(folder, "none"), comm, r.store); err == nil || !strings.Contains(err.Error(), "index.json") {
			return fmt.Errorf("%v: there was no folder", err)
		}
		if err := r.steps(0, 1); err != nil {
			return err
		}
		if err := opt.Save(t.Context(), folder, comm, r.store, map[string]string{"pinion_gomlx_ranks": "x"}); err == nil {
			return errors.New("a key that is taken")
		}
		if err := opt.Save(t.Context(), folder, nil, r.store, nil); !errors.Is(err, gomlx.ErrArgument) {
			return fmt.Errorf("%v: a share was saved as a whole", err)
		}
		if err := opt.Save(t.Context(), folder, comm, r.store, nil); err != nil {
			return err
		}
		// One rank has a variable of another shape.
		other := model.NewStore()
		if comm.Rank() == 1 {
			if _, err := other.CreateVariable("/first/weights", tensors.FromScalarAndDimensions(float32(1), 2, 2)); err != nil {
				return err
			}
		}
		if _, err := opt.Load(t.Context(), folder, comm, other); err == nil || !strings.Contains(err.Error(), "/first/weights is (Float32)[2, 2] in the store") {
			return fmt.Errorf("%v", err)
		}
		if n := other.NumVariables(); n != comm.Rank() {
			return fmt.Errorf("%d variables after a Load that failed", n)
		}
		// Shares for other ranks than those of the backend.
		whole, err := newTrained(comm, opt)
		if err != nil {
			return err
		}
		defer whole.backend.Finalize()
		if err := comm.Barrier(t.Context()); err != nil {
			return err
		}
		if _, err := opt.Load(t.Context(), folder, nil, whole.store); err != nil {
			return err
		}
		if err := whole.steps(1, 2); err == nil || !strings.Contains(err.Error(), "different shape") {
			return fmt.Errorf("%v: whole moments went where shares belong", err)
		}
		return nil
	})
	index := filepath.Join(folder, "index.json")
	text, err := os.ReadFile(index)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(index, []byte(strings.Replace(string(text), "pinion_gomlx_ranks", "another", 1)), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := must(ranks.Share(inners()["Adam"]())).Load(t.Context(), folder, nil, model.NewStore()); !errors.Is(err, gomlx.ErrArgument) {
		t.Errorf("%v, want %v", err, gomlx.ErrArgument)
	}
}

// A program with checkpoints of its own reads whole values, and puts them back cut for other
// ranks.
func TestWhole(t *testing.T) {
	values := map[string][]byte{}
	shapes := map[string][]int{}
	together(t, 3, func(comm parallel.Comm) error {
		r, err := newTrained(comm, must(ranks.Share(inners()["Adam"]())))
		if err != nil {
			return err
		}
		defer r.backend.Finalize()
		if err := r.steps(0, 3); err != nil {
			return err
		}
		for v := range r.store.IterVariables() {
			var use func(data []byte) error
			if comm.Rank() == 1 {
				use = func(data []byte) error {
					shapes[v.Path()], values[v.Path()] = r.opt.WholeShape(v).Dimensions, slices.Clone(data)
					return nil
				}
			}
			if err := r.opt.Read(comm, v, use); err != nil {
				return err
			}
		}
		if comm.Rank() == 0 {
			v := r.store.GetVariable("/AdamOptimizer/first/weights_1st_moment")
			if err := r.opt.Read(nil, v, nil); !errors.Is(err, gomlx.ErrArgument) {
				return fmt.Errorf("%v: a share was read as a whole", err)
			}
		}
		return nil
	})
	alone, err := newTrained(nil, must(ranks.New(inners()["Adam"]())))
	if err != nil {
		t.Fatal(err)
	}
	defer alone.backend.Finalize()
	if err := alone.steps(0, 3); err != nil {
		t.Fatal(err)
	}
	want, err := alone.values("moment")
	if err != nil {
		t.Fatal(err)
	}
	for path, w := range want {
		got := make([]float32, len(values[path])/4)
		for i := range got {
			got[i] = math.Float32frombits(binary.LittleEndian.Uint32(values[path][i*4:]))
		}
		if fmt.Sprint(shapes[path]) != alone.shape(path) || far(got, w, 1e-5) {
			t.Errorf("%s is %v %v, want %s %v", path, shapes[path], got, alone.shape(path), w)
		}
	}
	together(t, 2, func(comm parallel.Comm) error {
		r, err := newTrained(comm, must(ranks.Share(inners()["Adam"]())))
		if err != nil {
			return err
		}
		defer r.backend.Finalize()
		for _, path := range slices.Sorted(maps.Keys(want)) { // in one order on all ranks
			whole := tensors.FromShape(alone.store.GetVariable(path).Shape())
			if err := whole.MutableBytes(func(to []byte) { copy(to, values[path]) }); err != nil {
				return err
			}
			part, err := r.opt.Part(comm, path, whole)
			if err != nil {
				return err
			}
			v, err := r.store.CreateVariable(path, part)
			if err != nil {
				return err
			}
			if err := r.opt.Read(comm, v, func(data []byte) error {
				if !bytes.Equal(data, values[path]) {
					return fmt.Errorf("%s is not what it was", path)
				}
				return nil
			}); err != nil {
				return err
			}
		}
		return r.steps(3, 5) // variables have the shapes that it asks for
	})
}

// What ranks do together has the shape that its function says.
func TestFunctionOfOtherRanks(t *testing.T) {
	together(t, 2, func(comm parallel.Comm) error {
		backend, err := gomlx.Open(gomlx.Options{Ranks: comm})
		if err != nil {
			return err
		}
		defer backend.Finalize()
		for _, name := range []string{gomlx.ShareOfMean, gomlx.GatherFromRanks} {
			exec, err := NewExec(backend, func(x *Node) *Node {
				return NewFunction(x.Graph(), name, func(g *Graph) []*Node { return []*Node{Parameter(g, "x", x.Shape())} }).Call(x)[0]
			})
			if err != nil {
				return err
			}
			if _, err := exec.Call([]float32{1, 2}); !errors.Is(err, gomlx.ErrArgument) {
				return fmt.Errorf("%s: %v, want %v", name, err, gomlx.ErrArgument)
			}
		}
		return nil
	})
}
