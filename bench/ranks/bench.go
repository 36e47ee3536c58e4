package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pinion-gpu/pinion/bench/internal/harness"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/measure"
	"github.com/pinion-gpu/pinion/internal/models"
	"github.com/pinion-gpu/pinion/parallel"
	parallelauto "github.com/pinion-gpu/pinion/parallel/auto"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/graph"
	"github.com/pinion-gpu/pinion/step/train"
)

const pinion = "Pinion"

// row is a figure, with what it should be.
type row struct {
	measure.Row
	AtMost float64 `json:"at_most,omitempty"`
}

type bench struct {
	options
	ctx     context.Context
	size    int                 // ranks, of all processes
	first   int                 // rank of this process
	ranks   *parallelauto.Ranks // nil where ranks are goroutines
	devices []device.Device     // of this process's ranks, as what follows
	comms   []parallel.Comm
	execs   []step.Executor        // kernels are made once for all kinds
	state   map[graph.Value][]byte // that the model being measured begins with
	harness.Document[row]
}

func (b *bench) measure() error {
	for _, g := range []struct {
		name    string
		measure func() error
	}{{"share", b.share}, {"stages", b.stages}, {"split", b.split}} {
		if b.only != "" && !slices.Contains(strings.Split(b.only, ","), g.name) {
			continue
		}
		began := time.Now()
		if err := g.measure(); err != nil {
			return fmt.Errorf("%s: %w", g.name, err)
		}
		note("%-8s %5.1f s", g.name, time.Since(began).Seconds())
	}
	return nil
}

func (b *bench) print(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(b.Document)
}

func (b *bench) add(name, unit string, values ...float64) *row {
	b.Rows = append(b.Rows, row{Row: measure.NewRow(name, pinion, unit, values)})
	return &b.Rows[len(b.Rows)-1]
}

// trained is what runs a step: a runner of train's, or stages.
type trained interface {
	Put(param graph.Value, data []byte) error
	Run(ctx context.Context, batch func(micro int) ([]*step.Tensor, error)) (train.Result, error)
	Close() error
	Memory() *step.Memory
}

// kind is a way to run a step on ranks.
type kind struct {
	open func(c parallel.Comm, s train.Step, exec step.Executor) (trained, error)        // what runs it on a rank
	then func(c parallel.Comm, r trained, batch func(int) ([]*step.Tensor, error)) error // looks at it when all have run; or nil
}

// result is what steps of a kind took, and the losses of the first of them.
type result struct {
	seconds []float64 // of the slowest rank
	losses  []float64 // the means of ranks
}

// warm is how many steps run before they are timed; their losses are compared.
const warm = 3

// time runs kinds of a step on ranks, in turn, since how fast a GPU is changes. data are
// the samples of a rank.
func (b *bench) time(m *models.Model, data func(c parallel.Comm, step, micro int) [][]byte, kinds ...kind) ([]result, error) {
	s := m.Training()
	shapes := make([]graph.Shape, len(s.Batch))
	for i, p := range s.Batch {
		shapes[i] = p.Shape()
	}
	if err := b.start(m, s); err != nil {
		return nil, err
	}
	out := make([]result, len(kinds))
	for i := range out {
		out[i] = result{seconds: make([]float64, b.repeats), losses: make([]float64, warm)}
	}
	var mu sync.Mutex
	err := onRanks(b.comms, func(c parallel.Comm) (err error) {
		batch := func(r trained, n int) func(int) ([]*step.Tensor, error) {
			return batchOf(r.Memory(), shapes, func(micro int) [][]byte { return data(c, n, micro) })
		}
		runners := make([]trained, len(kinds))
		for i, k := range kinds {
			r, err := k.open(c, s, b.execs[c.Rank()-b.first])
			if err != nil {
				return err
			}
			defer func() { err = joined(err, r.Close()) }()
			for param, data := range b.state {
				if err := r.Put(param, data); err != nil {
					return err
				}
			}
			runners[i] = r
		}
		for i := range warm + b.repeats {
			for k, r := range runners {
				if err := c.Barrier(b.ctx); err != nil {
					return err
				}
				began := time.Now()
				got, err := r.Run(b.ctx, batch(r, i))
				if err != nil {
					return err
				}
				took := time.Since(began).Seconds()
				mu.Lock()
				if i < warm {
					out[k].losses[i] += got.Loss / float64(b.size)
				} else {
					out[k].seconds[i-warm] = max(out[k].seconds[i-warm], took)
				}
				mu.Unlock()
			}
		}
		for i, k := range kinds {
			if k.then != nil {
				if err := k.then(c, runners[i], batch(runners[i], 0)); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil || b.ranks == nil {
		return out, err
	}
	return out, b.together(out)
}

// together makes results of a process those of all.
func (b *bench) together(out []result) error {
	mine := make([][2][]float64, len(out))
	for i, r := range out {
		mine[i] = [2][]float64{r.seconds, r.losses}
	}
	text, err := json.Marshal(mine)
	if err != nil {
		return err
	}
	all, err := b.ranks.Exchange(b.ctx, "times and losses", text)
	if err != nil {
		return err
	}
	for i := range out {
		clear(out[i].seconds)
		clear(out[i].losses)
	}
	for _, text := range all {
		var got [][2][]float64
		if err := json.Unmarshal(text, &got); err != nil {
			return err
		}
		for i := range out {
			for n, v := range got[i][0] {
				out[i].seconds[n] = max(out[i].seconds[n], v)
			}
			for n, v := range got[i][1] {
				out[i].losses[n] += v
			}
		}
	}
	return nil
}

// start finds the state that a model begins with.
func (b *bench) start(m *models.Model, s train.Step) (err error) {
	b.state = map[graph.Value][]byte{}
	memory, err := step.OpenMemory(b.devices[0], nil)
	if err != nil {
		return err
	}
	defer func() { err = joined(err, memory.Close()) }()
	tensors, err := m.Start(b.ctx, b.execs[0], memory, 1)
	if err != nil {
		return err
	}
	params := m.Graph.Parameters()
	for i, t := range tensors {
		if slices.ContainsFunc(s.State, func(st train.State) bool { return st.Param == params[i] }) && err == nil {
			data := make([]byte, t.Shape().Bytes())
			err = t.Read(data)
			b.state[params[i]] = data
		}
		err = joined(err, t.Free())
	}
	return err
}

// batchOf makes the tensors of micro-batches.
func batchOf(memory *step.Memory, shapes []graph.Shape, data func(micro int) [][]byte) func(int) ([]*step.Tensor, error) {
	return func(micro int) (list []*step.Tensor, err error) {
		for i, d := range data(micro) {
			t, err := memory.Put(d, shapes[i])
			if err != nil {
				return list, err
			}
			list = append(list, t)
		}
		return list, nil
	}
}

// tokens are sequence number n of a step, and what follows each of its tokens.
func (b *bench) tokens(step, n int) (tokens, targets []byte) {
	rng := rand.New(rand.NewPCG(uint64(step), uint64(n)))
	last := rng.IntN(b.model.Vocabulary)
	for range b.model.Length {
		tokens = binary.LittleEndian.AppendUint32(tokens, uint32(last))
		last = (last*5 + rng.IntN(3)) % b.model.Vocabulary
		targets = binary.LittleEndian.AppendUint32(targets, uint32(last))
	}
	return tokens, targets
}

// sequences are those from a number on, one behind the other.
func (b *bench) sequences(step, from, n int) [][]byte {
	out := make([][]byte, 2)
	for i := range n {
		tokens, targets := b.tokens(step, from+i)
		out[0], out[1] = append(out[0], tokens...), append(out[1], targets...)
	}
	return out
}

// same compares the losses of two kinds.
func (b *bench) same(what string, got, want []float64) error {
	near := 1e-4
	if b.model.Type != dtype.F32 {
		near = 1e-2
	}
	for i := range want {
		if d := math.Abs(got[i] - want[i]); !(d <= near*math.Abs(want[i])) {
			return fmt.Errorf("%s: step %d has a loss of %v, and %v without", what, i+1, got[i], want[i])
		}
	}
	return nil
}

// ratios are those of what ran in turn.
func ratios(seconds, others []float64) []float64 {
	list := slices.Clone(seconds)
	for i := range list {
		list[i] /= others[i]
	}
	return list
}

// times are values, each times a factor.
func times(factor float64, values []float64) []float64 {
	list := slices.Clone(values)
	for i := range list {
		list[i] *= factor
	}
	return list
}

func milliseconds(seconds []float64) []float64 { return times(1e3, seconds) }

// onRanks runs fn on each rank. A rank that fails ends the others.
func onRanks(comms []parallel.Comm, fn func(c parallel.Comm) error) error {
	errs := make([]error, len(comms))
	var all sync.WaitGroup
	for i, c := range comms {
		all.Go(func() {
			if errs[i] = fn(c); errs[i] != nil {
				c.Abort(errs[i])
				for _, other := range comms {
					other.Abort(fmt.Errorf("rank %d: %w", i, errs[i]))
				}
			}
		})
	}
	all.Wait()
	for i, err := range errs {
		if err != nil && !errors.Is(err, parallel.ErrAborted) {
			return fmt.Errorf("rank %d: %w", i, err)
		}
	}
	return errors.Join(errs...)
}

// joined keeps the first of two errors in front.
func joined(err, other error) error {
	switch {
	case other == nil:
		return err
	case err == nil:
		return other
	}
	return errors.Join(err, other)
}
