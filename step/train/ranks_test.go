package train_test

import (
	"encoding/binary"
	"math"
	"sync"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/parallel"
	"github.com/pinion-gpu/pinion/parallel/local"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/auto"
	"github.com/pinion-gpu/pinion/step/graph"
	"github.com/pinion-gpu/pinion/step/train"
)

// Ranks that share batches train as one device does with whole batches, but for the
// rounding of sums in another order: also with several micro-batches, within a budget, and
// with losses that are scaled.
func TestRanks(t *testing.T) {
	const batch, steps, size = 48, 25, 3
	x, y := points(240, 1)
	for name, o := range map[string]struct {
		scaler     *train.Scaler
		accumulate int
		budget     int64
		adam       bool
		share      train.Sharing
		average    dtype.DType
	}{
		"plain":         {},
		"micro-batches": {accumulate: 2},
		"scaled":        {scaler: &train.Scaler{Initial: 1 << 10}},
		"budget":        {budget: 1 << 20},
		"Adam":          {adam: true},
		"shared":        {adam: true, share: train.ShareUpdate},
		"shared micro":  {adam: true, share: train.ShareUpdate, accumulate: 2},
		"shared SGD":    {share: train.ShareUpdate},
		"weights":       {adam: true, share: train.ShareWeights},
		"weights micro": {adam: true, share: train.ShareWeights, accumulate: 2},
		"weights fp16":  {adam: true, share: train.ShareWeights, scaler: &train.Scaler{Initial: 1 << 10}},
		"bf16":          {average: dtype.BF16},
		"shared bf16":   {share: train.ShareUpdate, average: dtype.BF16, accumulate: 2},
		"weights bf16":  {share: train.ShareWeights, average: dtype.BF16},
	} {
		t.Run(name, func(t *testing.T) {
			micro := max(o.accumulate, 1)
			k := kind{batch: batch / micro, hidden: 32, scaler: o.scaler, descent: true, rate: 0.3}
			if o.adam {
				k.descent, k.rate = false, 0.01
			}
			options := train.Options{Accumulate: micro, Compile: step.Options{Budget: o.budget}}
			one := testkit.Must(build(k))(t)
			alone := one.open(t, small(t, "64MiB"), options)
			whole := run(t, alone, steps, batches(alone, x, y, batch/micro))

			var devices []device.Device
			for range size {
				dev := testkit.Must(device.Open("host:64MiB"))(t)
				t.Cleanup(func() { testkit.OK(t, dev.Close()) })
				devices = append(devices, dev)
			}
			k.batch = batch / micro / size
			options.Share, options.Average = o.share, o.average
			off := 1. // how much further from one device than for the rounding of sums
			if o.average != 0 {
				off = 20
			}
			runners, nets := make([]*train.Runner, size), make([]*network, size)
			losses := make([][]train.Result, size)
			var all sync.WaitGroup
			for rank, c := range testkit.Must(local.New(devices...))(t) {
				all.Go(func() {
					if err := func() (err error) {
						nets[rank], runners[rank], losses[rank], err = trainRank(t, c, k, options, x, y, steps)
						return err
					}(); err != nil {
						t.Errorf("rank %d: %v", rank, err)
						c.Abort(err)
					}
				})
			}
			all.Wait()
			if t.Failed() {
				return
			}
			for i := range whole {
				mean := 0.0
				for _, l := range losses {
					mean += l[i].Loss / size
				}
				if math.Abs(mean-whole[i].Loss) > off*1e-4*whole[i].Loss {
					t.Errorf("step %d has a loss of %v, on one device %v", i+1, mean, whole[i].Loss)
				}
			}
			got := make([][][]byte, size) // of ranks, who read them together
			for rank := range size {
				all.Go(func() {
					for _, w := range nets[rank].weights {
						got[rank] = append(got[rank], nets[rank].get(t, runners[rank], w))
					}
				})
			}
			all.Wait()
			for j, w := range one.weights {
				want, first := numbers(one.get(t, alone, w)), got[0][j]
				for rank := range size {
					if string(got[rank][j]) != string(first) {
						t.Errorf("rank %d has other weights", rank)
					}
				}
				for i, v := range numbers(first) {
					if math.Abs(float64(v-want[i])) > off*1e-3 {
						t.Fatalf("weight %d of parameter %d is %v, on one device %v", i, j, v, want[i])
					}
				}
			}
		})
	}
}

// Ranks that share updates hold their share of the moments, which Get puts together.
func TestShare(t *testing.T) {
	const size, steps = 4, 5
	x, y := points(240, 1)
	k := kind{batch: 6, hidden: 96, rate: 0.01}
	of := func(share train.Sharing) (peak int64, moments [][]byte) {
		var devices []device.Device
		for range size {
			dev := testkit.Must(device.Open("host:64MiB"))(t)
			t.Cleanup(func() { testkit.OK(t, dev.Close()) })
			devices = append(devices, dev)
		}
		var all sync.WaitGroup
		for rank, c := range testkit.Must(local.New(devices...))(t) {
			all.Go(func() {
				n, r, _, err := trainRank(t, c, k, train.Options{Share: share}, x, y, steps)
				if err != nil {
					t.Errorf("rank %d: %v", rank, err)
					c.Abort(err)
					return
				}
				testkit.WantError(t, "too few bytes", r.Get(n.State[0].Param, make([]byte, 1)), train.ErrArgument, "not 1")
				for _, s := range n.State {
					b := make([]byte, s.Param.Shape().Bytes())
					if err := r.Get(s.Param, b); err != nil {
						t.Errorf("rank %d: %v", rank, err)
					}
					if rank == 0 {
						moments, peak = append(moments, b), r.PeakBytes()
					}
				}
			})
		}
		all.Wait()
		return peak, moments
	}
	whole, want := of(train.ShareNothing)
	// Of weights of W bytes, moments are 2 W.
	weights := int64(4 * (2*96 + 96*96 + 96*3))
	for _, share := range []train.Sharing{train.ShareUpdate, train.ShareWeights} {
		shared, got := of(share)
		if whole-shared < weights { // a fourth of the moments stays
			t.Errorf("%d bytes where ranks share %v, %d where they share nothing; weights are %d", shared, share, whole, weights)
		}
		for i := range want {
			a, b := numbers(want[i]), numbers(got[i])
			for j := range a {
				if math.Abs(float64(a[j]-b[j])) > 1e-4 {
					t.Fatalf("element %d of state %d is %v where ranks share %v, else %v", j, i, b[j], share, a[j])
				}
			}
		}
	}
}

// An update that moves elements is not shared.
func TestShareRefused(t *testing.T) {
	dev := testkit.Must(device.Open("host:64MiB"))(t)
	defer dev.Close()
	comms := testkit.Must(local.New(dev, dev))(t)
	exec := testkit.Must(auto.Open(dev))(t)
	defer exec.Close()
	n := testkit.Must(build(kind{batch: 8, hidden: 8, rate: 0.1, descent: true}))(t)
	for i, s := range n.State {
		n.State[i].Next = n.v(n.g.Reverse(s.Param, 0))
	}
	_, err := train.Open(n.Step, exec, train.Options{Share: train.ShareUpdate, Compile: step.Options{Ranks: comms[0]}})
	testkit.WantError(t, "reversed weights", err, train.ErrArgument, "nothing to share")
	_, err = train.Open(n.Step, exec, train.Options{Share: 3, Compile: step.Options{Ranks: comms[0]}})
	testkit.WantError(t, "no such sharing", err, train.ErrArgument, "sharing 3")
}

// trainRank trains a rank on its share of each batch.
func trainRank(t *testing.T, c parallel.Comm, k kind, o train.Options, x []float32, y []int32, steps int) (*network, *train.Runner, []train.Result, error) {
	n, err := build(k)
	if err != nil {
		return nil, nil, nil, err
	}
	exec, err := auto.Open(c.Device())
	if err != nil {
		return nil, nil, nil, err
	}
	t.Cleanup(func() { testkit.OK(t, exec.Close()) })
	o.Compile.Ranks = c
	r, err := train.Open(n.Step, exec, o)
	if err != nil {
		return nil, nil, nil, err
	}
	t.Cleanup(func() { testkit.OK(t, r.Close()) })
	for _, s := range n.State {
		if err := r.Put(s.Param, n.initial[s.Param]); err != nil {
			return nil, nil, nil, err
		}
	}
	results, err := shares(t, r, c, k, x, y, steps)
	return n, r, results, err
}

// shares runs steps of a rank's share of batches, from the first sample on.
func shares(t *testing.T, r *train.Runner, c parallel.Comm, k kind, x []float32, y []int32, steps int) (results []train.Result, err error) {
	at := 0
	for range steps {
		result, err := r.Run(t.Context(), func(int) ([]*step.Tensor, error) {
			if at+k.batch*c.Size() > len(y) {
				at = 0
			}
			from := at + k.batch*c.Rank()
			at += k.batch * c.Size()
			var labels []byte
			for _, v := range y[from : from+k.batch] {
				labels = binary.LittleEndian.AppendUint32(labels, uint32(v))
			}
			px, err := r.Memory().Put(floats(x[2*from:2*(from+k.batch)]...), f32(k.batch, 2))
			if err != nil {
				return nil, err
			}
			py, err := r.Memory().Put(labels, graph.MakeShape(dtype.I32, k.batch))
			return []*step.Tensor{px, py}, err
		})
		if err != nil {
			return nil, err
		}
		results = append(results, result)
	}
	return results, nil
}

// Ranks meet once a step, however many micro-batches it has.
func TestRanksMeetOnce(t *testing.T) {
	n := testkit.Must(build(kind{batch: 8, hidden: 8, descent: true, rate: 0.1}))(t)
	over := testkit.Must(n.OverRanks())(t)
	reduced := 0
	for _, node := range over.Graph.Nodes() {
		if node.Op == graph.AllReduce {
			reduced += len(node.Inputs)
		}
	}
	if reduced != len(n.Gradients) {
		t.Errorf("%d values are reduced, of %d gradients", reduced, len(n.Gradients))
	}
	n.Gradients = nil
	_, err := n.OverRanks()
	testkit.WantError(t, "no gradients", err, train.ErrArgument, "Gradients")
}
