// Package session trains a model step by step, and writes and reads checkpoints from which
// it goes on as if it had not stopped.
package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"strings"
	"sync"

	"github.com/pinion-gpu/pinion/step/graph"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/train"
	"github.com/gomlx/gomlx/ml/train/optimizer"

	"github.com/pinion-gpu/pinion/cmd/pinion/pinion-train/internal/models"
	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/gomlx"
	"github.com/pinion-gpu/pinion/gomlx/batches"
	"github.com/pinion-gpu/pinion/gomlx/ranks"
	"github.com/pinion-gpu/pinion/gomlx/scaling"
	"github.com/pinion-gpu/pinion/internal/errs"
	"github.com/pinion-gpu/pinion/loader"
	"github.com/pinion-gpu/pinion/parallel/auto"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/plan"
	scaler "github.com/pinion-gpu/pinion/step/train"
)

// ErrDiverged says that the loss is no number any more.
var ErrDiverged = errors.New("the training diverged")

// Config is what a training is, but for its data: with the same, each step has the same
// loss. A checkpoint carries it.
type Config struct {
	models.Spec
	Batch        int     `json:"batch"`      // of each rank
	Ranks        int     `json:"ranks"`      // that train together
	Accumulate   int     `json:"accumulate"` // batches of a step
	Seed         uint64  `json:"seed"`
	LearningRate float64 `json:"learning_rate"`
}

// Options are what a session is made of. Config, Backend and Data are needed.
type Options struct {
	Config  Config
	Backend gomlx.Options // On is the device; Compile is the session's
	Data    dataset.Dataset
	Digest  string             // of what is in Data, which a training that goes on has to have, too; "" if it is not known
	OnError loader.ErrorPolicy // of samples that cannot be read: loader.Fail or loader.Replace
	Resume  *Checkpoint        // to go on from
	Ranks   *auto.Ranks        // who trains together; Config.Ranks is how many. nil: this process alone
	Share   bool               // each rank keeps its share of Adam's moments, and updates that of the weights
}

// Session is a model in training. Its methods are for one goroutine.
type Session struct {
	config  Config
	digest  string // of the data
	backend *gomlx.Backend
	loader  *loader.Loader
	store   *model.Store
	trainer *train.Trainer
	ranks   *together        // nil: this process alone
	updates *ranks.Optimizer // of all ranks; nil: this process alone
	resumed *source          // nil: not, or checked already

	next   func() (train.Batch, error, bool)
	stop   func() // ends next
	cancel func() // ends the wait for a batch

	steps  int          // that are done
	scaled bool         // losses are
	state  loader.State // behind them
	broken bool         // a step ended half-way

	mu      sync.Mutex
	largest *step.Executable
}

// Open makes a session. The caller closes it, then the data and the device.
func Open(o Options) (*Session, error) {
	if err := o.Config.Check(); err != nil {
		return nil, err
	}
	s := &Session{config: o.Config, digest: o.Digest, store: model.NewStore(), scaled: o.Backend.Autocast == dtype.F16}
	if err := s.open(o); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Session) open(o Options) (err error) {
	o.Backend.Compile = s.compile
	feed := loader.Options{Batch: o.Config.Batch, Epochs: math.MaxInt32, Shuffle: true, Seed: o.Config.Seed, DropLast: true, OnError: o.OnError}
	if o.Ranks != nil && o.Ranks.World.Size > 1 {
		if s.ranks, err = newTogether(o.Ranks); err != nil {
			return err
		}
		o.Backend.Ranks = o.Ranks.Comm
		feed.Rank, feed.World = o.Ranks.World.Rank, o.Ranks.World.Size
	}
	if s.backend, err = gomlx.Open(o.Backend); err != nil {
		return err
	}
	if o.Resume != nil {
		if err := o.Resume.state.Config.differs(o.Config); err != nil {
			return fmt.Errorf("%s: %w", o.Resume.path, err)
		}
		s.steps, s.state = o.Resume.state.Steps, o.Resume.state.Loader
		s.resumed = newSource(o.Resume, s.part)
		s.store.SetLoader(s.resumed)
		feed.Resume = &o.Resume.state.Loader
	}
	if s.loader, err = loader.New(s.backend.Device(), o.Data, feed); err != nil {
		return err
	}
	if o.Resume != nil && o.Resume.state.Digest != "" && o.Resume.state.Digest != o.Digest {
		return fmt.Errorf("%s: %w: the data have changed since", o.Resume.path, ErrCheckpoint)
	}
	if err := s.agree(o); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	set, err := batches.New(s.backend, s.loader, batches.Options{Context: ctx, NoLabels: o.Config.Model == models.GPT})
	if err != nil {
		return err
	}
	s.next, s.stop = iter.Pull2(func(yield func(train.Batch, error) bool) {
		for {
			for b, err := range set.Iter() {
				if !yield(b, err) || err != nil {
					return
				}
			}
		}
	})
	if s.ranks != nil {
		wrap := ranks.New
		if o.Share {
			wrap = ranks.Share
		}
		if s.updates, err = wrap(newAdam(o.Config)); err != nil {
			return err
		}
		s.trainer, err = newTrainer(s.backend, s.store, o.Config, o.Backend.Autocast, s.updates)
	} else {
		s.trainer, err = newTrainer(s.backend, s.store, o.Config, o.Backend.Autocast, newAdam(o.Config))
	}
	return err
}

func newAdam(c Config) optimizer.Interface {
	return optimizer.Adam().LearningRate(c.LearningRate).Done()
}

// newTrainer makes what trains a model on a backend.
func newTrainer(backend *gomlx.Backend, store *model.Store, c Config, amp dtype.DType, adam optimizer.Interface) (t *train.Trainer, err error) {
	store.SetParam(model.ParamInitialSeed, int64(c.Seed))
	modelFn, lossFn := c.Build()
	if amp == dtype.F16 {
		if c.Accumulate > 1 {
			return nil, fmt.Errorf("%w: losses of float16 are scaled, and gradients of scaled losses are not added up", errs.ErrArgument)
		}
		if adam, err = scaling.New(adam, scaler.Scaler{}); err != nil {
			return nil, err
		}
	}
	t = train.NewTrainer(backend, store, modelFn, lossFn, adam, nil, nil)
	if c.Accumulate > 1 {
		err = t.AccumulateGradients(c.Accumulate)
	}
	return t, err
}

// Fit divides the batch of a configuration into the fewest batches with which a step fits
// the backend's budget, as [gomlx.Fit] does. It reads no data.
func Fit(ctx context.Context, c Config, backend gomlx.Options) (*gomlx.Fitted, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	backend.Compile = nil
	fitted, err := gomlx.Fit(ctx, backend, c.Batch, func(b *gomlx.Backend, micro, accumulate int) error {
		c := c
		c.Batch, c.Accumulate = micro, accumulate
		store := model.NewStore()
		t, err := newTrainer(b, store, c, backend.Autocast, newAdam(c))
		if err != nil {
			return err
		}
		for range accumulate {
			metrics, err := t.TrainStep(c.zeros())
			if err != nil {
				return err
			}
			for _, m := range metrics {
				m.FinalizeAll()
			}
		}
		return nil
	})
	if errors.Is(err, plan.ErrBudget) {
		err = fmt.Errorf("a batch of %d does not fit, not even one by one: %w", c.Batch, cause(err))
	}
	return fitted, err
}

// zeros is a batch as the loader makes it.
func (c Config) zeros() train.Batch {
	var b train.Batch
	in, labels := c.Samples(c.Batch)
	b.Inputs = append(b.Inputs, tensors.FromShape(in))
	if labels.Ok() {
		b.Labels = append(b.Labels, tensors.FromShape(labels))
	}
	return b
}

// compile remembers the step that takes most memory, which is the one that trains.
func (s *Session) compile(g *graph.Graph, exec step.Executor, o step.Options) (*step.Executable, error) {
	x, err := step.Compile(g, exec, o)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.largest == nil || x.PeakBytes() > s.largest.PeakBytes() {
		s.largest = x
	}
	return x, nil
}

// Steps is how many are done, with those before the checkpoint that was resumed.
func (s *Session) Steps() int { return s.steps }

// Scaling is the scale of losses after the last step, and whether that step was left out
// since its gradients were not finite. Without scaling, the scale is 0.
func (s *Session) Scaling() (scale float64, skipped bool) {
	if !s.scaled {
		return 0, false
	}
	scale, inARow, _ := scaling.State(s.store)
	return scale, inARow > 0
}

// Step trains a step and returns its loss: the mean of the batches that it accumulates, on
// all ranks. When ctx ends before the step's first batch is there, the step is not begun;
// later it runs to its end. Of several ranks, all run the step in which the ctx of one ends,
// and fail from then on with [ErrStopped]. It fails with ErrDiverged when the loss is no
// number.
func (s *Session) Step(ctx context.Context) (loss float64, err error) {
	if s.ranks == nil {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		return s.step(ctx)
	}
	if s.ranks.stopped {
		return 0, errors.Join(ErrStopped, ctx.Err())
	}
	err = s.ranks.Do(fmt.Sprintf("step %d", s.steps+1), func() error {
		loss, err = s.step(ctx)
		return err
	})
	if err != nil {
		s.broken = true
	}
	return loss, err
}

func (s *Session) step(ctx context.Context) (float64, error) {
	sum := 0.0
	for i := range s.config.Accumulate {
		b, err := s.batch(ctx, i == 0 && s.ranks == nil)
		if err != nil {
			s.broken = i > 0
			return 0, cmp.Or(ctx.Err(), err)
		}
		if s.ranks != nil {
			s.ranks.Begins(fmt.Sprintf("computing step %d", s.steps+1))
		}
		metrics, err := s.trainer.TrainStep(b)
		if err != nil {
			s.broken = true
			if s.resumed != nil && strings.Contains(err.Error(), "with different shape") {
				return 0, fmt.Errorf("%s: %w: %w", s.resumed.path, ErrCheckpoint, innermost(err))
			}
			return 0, fmt.Errorf("step %d: %w", s.steps+1, cause(err))
		}
		sum += float64(tensors.ToScalar[float32](metrics[0]))
		for _, m := range metrics {
			m.FinalizeAll()
		}
	}
	loss := sum / float64(s.config.Accumulate)
	if s.ranks != nil {
		var err error
		if loss, err = s.ranks.mean(loss, ctx.Err() != nil); err != nil {
			s.broken = true
			return 0, err
		}
	}
	if math.IsNaN(loss) || math.IsInf(loss, 0) {
		s.broken = true
		return loss, fmt.Errorf("step %d: %w: the loss is %v; a smaller --lr may help", s.steps+1, ErrDiverged, loss)
	}
	if s.resumed != nil { // now the graph has asked for all that it needs
		if err := s.resumed.check(); err != nil {
			s.broken = true
			return 0, err
		}
		s.resumed = nil
	}
	s.steps++
	s.state = s.loader.State()
	return loss, nil
}

// cause is what package step says, without what GoMLX says around it.
func cause(err error) error {
	for e := err; e != nil; e = errors.Unwrap(e) {
		if strings.HasPrefix(e.Error(), "step: ") {
			return e
		}
	}
	return err
}

// innermost is what was wrong first.
func innermost(err error) error {
	for e := err; e != nil; e = errors.Unwrap(e) {
		err = e
	}
	return err
}

// batch waits for one; the first of a step until ctx ends.
func (s *Session) batch(ctx context.Context, first bool) (train.Batch, error) {
	if first {
		defer context.AfterFunc(ctx, s.cancel)()
	}
	b, err, ok := s.next()
	if !ok && err == nil {
		err = errors.New("the data have ended")
	}
	return b, err
}

// Notes are sentences on what the step does in a slower way than it could.
func (s *Session) Notes() []string { return s.backend.Notes() }

// Unread is how many samples could not be read, and were replaced.
func (s *Session) Unread() int64 { return s.loader.Stats().Errors }

// Close frees everything. A second Close does nothing.
func (s *Session) Close() error {
	if s.stop != nil {
		s.stop()
	}
	if s.cancel != nil {
		s.cancel()
	}
	var err error
	if s.loader != nil {
		err = s.loader.Close()
	}
	if s.ranks != nil {
		err = errors.Join(err, s.ranks.close())
	}
	if s.backend != nil {
		s.backend.Finalize()
	}
	return err
}
