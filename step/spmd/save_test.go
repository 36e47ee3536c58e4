package spmd_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/pinion-gpu/pinion/internal/models"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/parallel"
	"github.com/pinion-gpu/pinion/parallel/local/localtest"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/auto"
	"github.com/pinion-gpu/pinion/step/spmd"
	"github.com/pinion-gpu/pinion/step/train"
)

// What ranks save of a step that they split, any others load that split it in another way, or
// not at all.
func TestSave(t *testing.T) {
	s := stepOf(t, small)
	in := start(s, small.Vocabulary, 1)
	folder := t.TempDir()
	all := []struct {
		name   string
		ranks  int
		splits []spmd.Split
	}{
		{"two ranks", 2, models.Megatron(s)},
		{"one", 1, nil},
		{"four, by rows of the vocabulary", 4, append(models.Megatron(s), spmd.Split{Value: find(s, "tokens' table"), Axis: 0})},
		{"two, by the width", 2, append(models.Megatron(s), spmd.Split{Value: find(s, "tokens' table"), Axis: 1})},
	}
	for k, from := range append(all, all[0], all[2]) {
		to := all[(k+1)%len(all)]
		on := func(ranks int, splits []spmd.Split, fn func(r *train.Runner, p *spmd.Partitioned, rank int) error) {
			for _, err := range localtest.Run(t, ranks, "host:64MiB", func(c parallel.Comm) error {
				p, err := spmd.Partition(s, ranks, c.Rank(), splits)
				if err != nil {
					return err
				}
				exec, err := auto.Open(c.Device())
				if err != nil {
					return err
				}
				defer exec.Close()
				r, err := train.Open(*p.Step, exec, train.Options{Compile: step.Options{Ranks: c}})
				if err != nil {
					return err
				}
				return errors.Join(fn(r, p, c.Rank()), r.Close())
			}) {
				testkit.OK(t, err)
			}
		}
		part := func(p *spmd.Partitioned, i, ranks, rank int) ([]byte, error) {
			return spmd.Cut(in.state[i], s.State[i].Param.Shape(), p.State[i], ranks, rank)
		}
		on(from.ranks, from.splits, func(r *train.Runner, p *spmd.Partitioned, rank int) error {
			for i, st := range p.Step.State {
				data, err := part(p, i, from.ranks, rank)
				if err := errors.Join(err, r.Put(st.Param, data)); err != nil {
					return err
				}
			}
			return r.Save(t.Context(), folder, map[string]string{"by": from.name})
		})
		on(to.ranks, to.splits, func(r *train.Runner, p *spmd.Partitioned, rank int) error {
			meta, err := r.Load(t.Context(), folder)
			if err != nil || meta["by"] != from.name {
				return fmt.Errorf("%v: %w", meta, err)
			}
			for i, st := range p.Step.State {
				want, err := part(p, i, to.ranks, rank)
				got := make([]byte, st.Param.Shape().Bytes())
				if err := errors.Join(err, r.Get(st.Param, got)); err != nil {
					return err
				}
				if !bytes.Equal(got, want) {
					return fmt.Errorf("saved by %s, loaded by %s: rank %d has another %s", from.name, to.name, rank, nameOf(st.Param))
				}
			}
			return nil
		})
	}
}
