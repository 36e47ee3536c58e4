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
	"github.com/pinion-gpu/pinion/internal/stats"
	"github.com/pinion-gpu/pinion/parallel"
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
	devices []device.Device
	comms   []parallel.Comm
	execs   []step.Executor // of ranks: kernels are made once for all kinds
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

// result is what steps of a kind took, and the losses of the first of them.
type result struct {
	seconds []float64 // of the slowest rank
	losses  []float64 // the means of ranks
}

// warm is how many steps run before they are timed; their losses are compared.
const warm = 3

// time runs a kind on ranks: open makes what runs the step on each, data its samples, and
// then looks at what ran.
func (b *bench) time(comms []parallel.Comm, m *models.Model, open func(c parallel.Comm, s train.Step, exec step.Executor) (trained, error),
	data func(c parallel.Comm, step, micro int) [][]byte, then func(c parallel.Comm, r trained, batch func(int) ([]*step.Tensor, error)) error) (result, error) {
	s := m.Training()
	shapes := make([]graph.Shape, len(s.Batch))
	for i, p := range s.Batch {
		shapes[i] = p.Shape()
	}
	out := result{seconds: make([]float64, b.repeats), losses: make([]float64, warm)}
	var mu sync.Mutex
	err := onRanks(comms, func(c parallel.Comm) (err error) {
		exec := b.execs[c.Rank()]
		r, err := open(c, s, exec)
		if err != nil {
			return err
		}
		defer func() { err = joined(err, r.Close()) }()
		if err := b.start(m, s, exec, r); err != nil {
			return err
		}
		for i := range warm + b.repeats {
			if err := c.Barrier(b.ctx); err != nil {
				return err
			}
			began := time.Now()
			got, err := r.Run(b.ctx, batchOf(r.Memory(), shapes, func(micro int) [][]byte { return data(c, i, micro) }))
			if err != nil {
				return err
			}
			took := time.Since(began).Seconds()
			mu.Lock()
			if i < warm {
				out.losses[i] += got.Loss / float64(len(comms))
			} else {
				out.seconds[i-warm] = max(out.seconds[i-warm], took)
			}
			mu.Unlock()
		}
		if then == nil {
			return nil
		}
		return then(c, r, batchOf(r.Memory(), shapes, func(micro int) [][]byte { return data(c, 0, micro) }))
	})
	return out, err
}

// start gives a runner the state that a model begins with.
func (b *bench) start(m *models.Model, s train.Step, exec step.Executor, r trained) (err error) {
	memory, err := step.OpenMemory(exec.Device(), nil)
	if err != nil {
		return err
	}
	defer func() { err = joined(err, memory.Close()) }()
	tensors, err := m.Start(b.ctx, exec, memory, 1)
	if err != nil {
		return err
	}
	params := m.Graph.Parameters()
	for i, t := range tensors {
		if slices.ContainsFunc(s.State, func(st train.State) bool { return st.Param == params[i] }) && err == nil {
			data := make([]byte, t.Shape().Bytes())
			err = errors.Join(t.Read(data), r.Put(params[i], data))
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

// over are times of steps over the median of others.
func over(seconds []float64, other float64) []float64 {
	list := slices.Clone(seconds)
	for i := range list {
		list[i] /= other
	}
	return list
}

func milliseconds(seconds []float64) []float64 { return over(seconds, 1e-3) }

func median(seconds []float64) float64 { return stats.Median(seconds) }

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
