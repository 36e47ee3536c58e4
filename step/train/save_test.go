package train_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/parallel"
	"github.com/pinion-gpu/pinion/parallel/local/localtest"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/auto"
	"github.com/pinion-gpu/pinion/step/graph"
	"github.com/pinion-gpu/pinion/step/train"
)

// whole is the state of all ranks.
func whole(n *network, r *train.Runner) (list [][]byte, err error) {
	for _, s := range n.State {
		b := make([]byte, s.Param.Shape().Bytes())
		if err := r.Get(s.Param, b); err != nil {
			return nil, err
		}
		list = append(list, b)
	}
	return list, nil
}

// What three ranks save, other numbers of ranks that share otherwise load to the bit, and
// go on from as the three do.
func TestSave(t *testing.T) {
	const batch, steps = 24, 4
	x, y := points(240, 1)
	folder := filepath.Join(t.TempDir(), "state")
	k := kind{hidden: 33, rate: 0.01, scaler: &train.Scaler{Initial: 1 << 10}}
	var saved, next [][]byte
	for _, err := range localtest.Run(t, 3, "host:64MiB", func(c parallel.Comm) error {
		k := k
		k.batch = batch / c.Size()
		n, r, _, err := trainRank(t, c, k, train.Options{Share: train.ShareWeights}, x, y, steps)
		if err != nil {
			return err
		}
		if err := r.Save(t.Context(), folder, map[string]string{"loader": "at 96"}); err != nil {
			return err
		}
		before, err := whole(n, r)
		if err != nil {
			return err
		}
		if _, err := shares(t, r, c, k, x, y, 1); err != nil {
			return err
		}
		after, err := whole(n, r)
		if c.Rank() == 0 {
			saved, next = before, after
		}
		return err
	}) {
		testkit.OK(t, err)
	}
	for _, o := range []struct {
		ranks int
		share train.Sharing
	}{{1, train.ShareNothing}, {2, train.ShareUpdate}, {4, train.ShareWeights}} {
		for rank, err := range localtest.Run(t, o.ranks, "host:64MiB", func(c parallel.Comm) error {
			k := k
			k.batch = batch / c.Size()
			n, r, _, err := trainRank(t, c, k, train.Options{Share: o.share}, x, y, 0)
			if err != nil {
				return err
			}
			meta, err := r.Load(t.Context(), folder)
			if err != nil || len(meta) != 1 || meta["loader"] != "at 96" {
				return fmt.Errorf("loaded with %v: %w", meta, err)
			}
			got, err := whole(n, r)
			if err != nil {
				return err
			}
			for i := range got {
				if !bytes.Equal(got[i], saved[i]) {
					return fmt.Errorf("state %d is another", i)
				}
			}
			results, err := shares(t, r, c, k, x, y, 1)
			if err != nil {
				return err
			}
			if results[0].Step != steps+1 {
				return fmt.Errorf("the next step is %d", results[0].Step)
			}
			if got, err = whole(n, r); err != nil {
				return err
			}
			for i := range got {
				a, b := numbers(got[i]), numbers(next[i])
				for j := range a {
					if math.Abs(float64(a[j]-b[j])) > 1e-4 {
						return fmt.Errorf("after the next step, element %d of state %d is %v, and was %v", j, i, a[j], b[j])
					}
				}
			}
			return nil
		}) {
			if err != nil {
				t.Errorf("%d ranks, sharing %v: rank %d: %v", o.ranks, o.share, rank, err)
			}
		}
	}

	// A file that is missing is an error of all ranks, with its rank.
	files := testkit.Must(filepath.Glob(filepath.Join(folder, "*-00002-of-00003.safetensors")))(t)
	testkit.OK(t, os.Remove(files[0]))
	for rank, err := range localtest.Run(t, 2, "host:64MiB", func(c parallel.Comm) error {
		k := k
		k.batch = batch / c.Size()
		_, r, _, err := trainRank(t, c, k, train.Options{}, x, y, 0)
		if err != nil {
			return err
		}
		_, err = r.Load(t.Context(), folder)
		return err
	}) {
		if err == nil || !strings.Contains(err.Error(), "rank 0: sharded: open "+folder+": file 2 of 3: ") {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
}

// Checkpoints of another model, and parameters that cannot be told apart, are refused.
func TestSaveRefused(t *testing.T) {
	exec := small(t, "64MiB")
	folder := filepath.Join(t.TempDir(), "state")
	open := func(hidden int) *train.Runner {
		n := testkit.Must(build(kind{batch: 8, hidden: hidden, rate: 0.1, descent: true}))(t)
		return n.open(t, exec, train.Options{})
	}
	first := open(8)
	testkit.OK(t, first.Save(t.Context(), folder, nil))
	other := open(9)
	_, err := other.Load(t.Context(), folder)
	testkit.WantError(t, "half a checkpoint", other.Save(t.Context(), folder, nil), train.ErrArgument, "was never put, or was lost")
	testkit.WantError(t, "another model", err, train.ErrArgument, `is F32 of shape [2 8] in the checkpoint, and F32 of shape [2 9] here`)
	_, err = first.Load(t.Context(), folder)
	testkit.OK(t, err)

	g := graph.New("unnamed")
	w := testkit.Must(g.Parameter("", f32(4)))(t)
	gradient := testkit.Must(g.Binary(graph.Mul, w, w))(t)
	loss := testkit.Must(g.Reduce(graph.ReduceSum, gradient, 0))(t)
	r := testkit.Must(train.Open(train.Step{Graph: g, Loss: loss, Gradients: []graph.Value{gradient},
		State: []train.State{{Param: w, Next: testkit.Must(g.Binary(graph.Sub, w, gradient))(t)}}}, exec, train.Options{Compile: step.Options{}}))(t)
	defer r.Close()
	testkit.WantError(t, "no name", r.Save(t.Context(), folder, nil), train.ErrArgument, `is called ""`)
	testkit.OK(t, r.Close())
	testkit.WantError(t, "closed", r.Save(t.Context(), folder, nil), train.ErrClosed, "unnamed")
	if _, err := first.Load(t.Context(), folder); err != nil {
		t.Error(errors.Join(errors.New("a save that was refused changed the folder"), err))
	}
}

// Masks, and what users keep beside the state, come back; their meta does not change the
// number of steps.
func TestSaveMasks(t *testing.T) {
	exec := small(t, "64MiB")
	n := testkit.Must(build(kind{batch: 8, hidden: 8, rate: 0.1, descent: true, sparse: true}))(t)
	r := n.open(t, exec, train.Options{})
	folder := filepath.Join(t.TempDir(), "state")
	testkit.OK(t, r.Save(t.Context(), folder, map[string]string{"pinion.train.step": "1000"}))
	want := testkit.Must(whole(n, r))(t)
	for _, s := range n.State {
		testkit.OK(t, r.Put(s.Param, make([]byte, s.Param.Shape().Bytes())))
	}
	meta := testkit.Must(r.Load(t.Context(), folder))(t)
	if len(meta) != 0 {
		t.Errorf("meta %v", meta)
	}
	for i, got := range testkit.Must(whole(n, r))(t) {
		if !bytes.Equal(got, want[i]) {
			t.Errorf("state %d is another", i)
		}
	}
}

// Ranks that do not see the same save load nothing.
func TestLoadOther(t *testing.T) {
	exec := small(t, "64MiB")
	k := kind{batch: 8, hidden: 8, rate: 0.1, descent: true}
	dirs := []string{filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")}
	for _, dir := range dirs {
		testkit.OK(t, testkit.Must(build(k))(t).open(t, exec, train.Options{}).Save(t.Context(), dir, nil))
	}
	x, y := points(240, 1)
	for rank, err := range localtest.Run(t, 2, "host:64MiB", func(c parallel.Comm) error {
		_, r, _, err := trainRank(t, c, k, train.Options{}, x, y, 0)
		if err == nil {
			_, err = r.Load(t.Context(), dirs[c.Rank()])
		}
		return err
	}) {
		if err == nil || !strings.Contains(err.Error(), "rank 0 sees the save ") {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
}

// An update that depends on a rank's samples otherwise than through the gradients is refused:
// ranks would have other weights. So is a checkpoint of a step that ranks split.
func TestRanksRefused(t *testing.T) {
	for rank, err := range localtest.Run(t, 2, "host:64MiB", func(c parallel.Comm) error {
		n, err := build(kind{batch: 8, hidden: 8, rate: 0.1, descent: true})
		if err != nil {
			return err
		}
		exec, err := auto.Open(c.Device())
		if err != nil {
			return err
		}
		defer exec.Close()
		n.SplitOver = 2
		r, err := train.Open(n.Step, exec, train.Options{Compile: step.Options{Ranks: c}})
		if err != nil {
			return err
		}
		err = r.Save(t.Context(), t.TempDir(), nil)
		if err := errors.Join(r.Close()); err != nil {
			return err
		}
		if err == nil || !strings.Contains(err.Error(), "parts of its state") {
			return fmt.Errorf("a step that is split was saved: %w", err)
		}
		n.SplitOver, n.Gradients = 0, n.Gradients[:1]
		_, err = train.Open(n.Step, exec, train.Options{Compile: step.Options{Ranks: c}})
		return err
	}) {
		if err == nil || !strings.Contains(err.Error(), "through Step.Gradients alone") {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
}
