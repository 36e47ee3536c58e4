package pipeline_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/parallel"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/pipeline"
)

// Passes that are queued ahead, also while others make tensors where batches come from, have
// the results of those that are waited for, as with memory or a block of the caller's.
func TestAhead(t *testing.T) {
	testkit.NoLeaks(t)
	n := gpt(t)
	run := func(options func(exec step.Executor) (pipeline.Options, *step.Memory), disturb bool) (losses []float64, state []byte) {
		t.Helper()
		errs := together(t, 2, func(c parallel.Comm, exec step.Executor) (err error) {
			o, mem := options(exec)
			r, err := pipeline.Open(n.Step, exec, c, o)
			if err != nil {
				return err
			}
			defer func() {
				if err != nil {
					c.Abort(err)
				}
				err = errors.Join(err, r.Close())
				if mem != nil {
					err = errors.Join(err, mem.Close())
				}
			}()
			for _, s := range n.State {
				if err := r.Put(s.Param, n.initial[s.Param]); err != nil {
					return err
				}
			}
			stop, over := make(chan struct{}), make(chan error, 1)
			go func() { over <- scribble(r.Memory(), disturb, stop) }()
			for i := range 3 {
				result, err := r.Run(context.Background(), func(m int) ([]*step.Tensor, error) { return n.tensors(r, i, m) })
				if err != nil {
					close(stop)
					return errors.Join(err, <-over)
				}
				if c.Rank() == 0 {
					losses = append(losses, result.Loss)
				}
			}
			close(stop)
			if err := <-over; err != nil {
				return err
			}
			for _, s := range n.State {
				b := make([]byte, s.Param.Shape().Bytes())
				if err := r.Get(s.Param, b); err != nil {
					return err
				}
				if c.Rank() == 0 {
					state = append(state, b...)
				}
			}
			return nil
		})
		for rank, err := range errs {
			if err != nil {
				t.Fatalf("rank %d: %v", rank, err)
			}
		}
		return losses, state
	}
	o := pipeline.Options{Micro: 8}
	own := func(step.Executor) (pipeline.Options, *step.Memory) { return o, nil }
	losses, state := run(own, false)
	for name, options := range map[string]func(exec step.Executor) (pipeline.Options, *step.Memory){
		"disturbed": own,
		"a memory": func(exec step.Executor) (pipeline.Options, *step.Memory) {
			o := o
			o.Compile.Memory = testkit.Must(step.OpenMemory(exec.Device(), nil))(t)
			return o, o.Compile.Memory
		},
		"a block": func(exec step.Executor) (pipeline.Options, *step.Memory) {
			o, mem := o, testkit.Must(step.OpenMemory(exec.Device(), nil))(t)
			o.Compile.Block = step.NewBlock(mem)
			return o, mem
		},
	} {
		gotLosses, gotState := run(options, name == "disturbed")
		if !slices.Equal(gotLosses, losses) || !bytes.Equal(gotState, state) {
			t.Errorf("%s: losses %v, not %v; state equal: %v", name, gotLosses, losses, bytes.Equal(gotState, state))
		}
	}
}

// scribble makes tensors of sizes that passes have, too, until it is stopped.
func scribble(m *step.Memory, disturb bool, stop <-chan struct{}) error {
	for disturb {
		for _, width := range []int{8, 16, 32} {
			x, err := m.Put(bytes.Repeat([]byte{0x7f}, 4*16*width), f32(16, width))
			if err == nil {
				err = x.Free()
			}
			if err != nil {
				return err
			}
		}
		select {
		case <-stop:
			return nil
		default:
		}
	}
	return nil
}
