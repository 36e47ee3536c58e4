package pipeline_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/parallel"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/host"
	"github.com/pinion-gpu/pinion/step/pipeline"
	"github.com/pinion-gpu/pinion/step/train"
)

// saver is a runner with checkpoints.
type saver interface {
	runner
	Save(ctx context.Context, folder string, meta map[string]string) error
	Load(ctx context.Context, folder string) (map[string]string, error)
}

// goOn loads a checkpoint, makes a step, and returns the state before and after.
func goOn(n *network, r saver, folder string, from, micro int) (before, after [][]byte, err error) {
	state := func() (list [][]byte, err error) {
		for _, s := range n.State {
			b := make([]byte, s.Param.Shape().Bytes())
			if err := r.Get(s.Param, b); err != nil {
				return nil, err
			}
			list = append(list, b)
		}
		return list, nil
	}
	meta, err := r.Load(context.Background(), folder)
	if err != nil || len(meta) != 1 || meta["loader"] != "at 96" {
		return nil, nil, fmt.Errorf("loaded with %v: %w", meta, err)
	}
	if before, err = state(); err != nil {
		return nil, nil, err
	}
	result, err := r.Run(context.Background(), func(m int) ([]*step.Tensor, error) { return n.tensors(r, from, m) })
	if err != nil || result.Step != from+1 {
		return nil, nil, fmt.Errorf("step %d: %w", result.Step, err)
	}
	after, err = state()
	return before, after, err
}

// What stages save, stages that are cut otherwise and a device alone load, and go on from
// with the same bits; and the other way round.
func TestSave(t *testing.T) {
	testkit.NoLeaks(t)
	const micro, steps = 4, 3
	for seed, traits := range []traits{{layers: 6, rows: 4, width: 5, tied: true}, {layers: 5, rows: 4, width: 5, drop: true, norms: true}} {
		n := randomNet(uint64(seed), traits)
		want := n.alone(t, micro, steps+1)
		folder := filepath.Join(t.TempDir(), "state")
		errs := together(t, 3, func(c parallel.Comm, exec step.Executor) error {
			r, err := pipeline.Open(n.Step, exec, c, pipeline.Options{Micro: micro})
			if err != nil {
				return err
			}
			if _, err = n.steps(r, steps); err == nil {
				err = r.Save(t.Context(), folder, map[string]string{"loader": "at 96"})
			}
			return errors.Join(err, r.Close())
		})
		testkit.OK(t, errors.Join(errs...))
		after := func(what string, r saver) error {
			_, got, err := goOn(n, r, folder, steps, micro)
			for i := range got {
				if err == nil && !bytes.Equal(got[i], want.state[i]) {
					err = fmt.Errorf("%s: state %d is off by %v", what, i, distance(got[i], want.state[i]))
				}
			}
			return errors.Join(err, r.(interface{ Close() error }).Close())
		}
		dev := testkit.Must(device.Open("host:64MiB"))(t)
		defer dev.Close()
		exec := testkit.Must(host.Open(dev))(t)
		defer exec.Close()
		testkit.OK(t, after("alone", testkit.Must(train.Open(n.Step, exec, train.Options{Accumulate: micro}))(t)))
		for _, o := range [][2]int{{2, 1}, {2, 2}, {4, 1}} {
			errs := together(t, o[0], func(c parallel.Comm, exec step.Executor) error {
				r, err := pipeline.Open(n.Step, exec, c, pipeline.Options{Micro: micro, Chunks: o[1]})
				if err != nil {
					return err
				}
				return after(fmt.Sprintf("%d ranks with %d stages", o[0], o[1]), r)
			})
			testkit.OK(t, errors.Join(errs...))
		}
	}
}

// A checkpoint of another net, and state that was never put, are errors of all ranks.
func TestSaveRefused(t *testing.T) {
	n, other := randomNet(1, traits{layers: 4, rows: 4, width: 5}), randomNet(1, traits{layers: 4, rows: 4, width: 6})
	folder := filepath.Join(t.TempDir(), "state")
	errs := together(t, 2, func(c parallel.Comm, exec step.Executor) error {
		r, err := pipeline.Open(n.Step, exec, c, pipeline.Options{Micro: 2})
		if err != nil {
			return err
		}
		if err := r.Save(t.Context(), folder, nil); err == nil || !strings.Contains(err.Error(), "rank 0: pipeline: bad argument: state") {
			t.Errorf("nothing was put: %v", err)
		}
		if _, err := n.steps(r, 1); err != nil {
			return err
		}
		return errors.Join(r.Save(t.Context(), folder, nil), r.Close())
	})
	testkit.OK(t, errors.Join(errs...))
	errs = together(t, 2, func(c parallel.Comm, exec step.Executor) error {
		r, err := pipeline.Open(other.Step, exec, c, pipeline.Options{Micro: 2})
		if err != nil {
			return err
		}
		if _, err := other.steps(r, 1); err != nil {
			return err
		}
		if _, err = r.Load(t.Context(), filepath.Join(folder, "none")); err == nil {
			t.Errorf("rank %d loaded nothing", c.Rank())
		}
		if _, err = r.Run(t.Context(), func(m int) ([]*step.Tensor, error) { return other.tensors(r, 0, m) }); err != nil { // it has changed nothing
			return err
		}
		if _, err = r.Load(t.Context(), folder); err == nil {
			t.Errorf("rank %d loaded another net", c.Rank())
		}
		_, err = r.Run(t.Context(), func(m int) ([]*step.Tensor, error) { return other.tensors(r, 0, m) })
		testkit.WantError(t, "a step behind half a checkpoint", err, pipeline.ErrArgument, "was never put")
		return r.Close()
	})
	testkit.OK(t, errors.Join(errs...))
}
