package pipeline

import (
	"errors"
	"fmt"
	"slices"

	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/graph"
	"github.com/pinion-gpu/pinion/step/internal/saved"
)

// Put gives a parameter of the state its elements, which are copied. All ranks call it;
// those whose stages want it keep it.
func (r *Runner) Put(param graph.Value, data []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	i, err := r.find(param, data)
	if err != nil {
		return err
	}
	return r.write(i, data)
}

// write gives a state of this rank its elements. It is nothing where the rank has no part
// of it.
func (r *Runner) write(i int, data []byte) (err error) {
	param := r.l.step.State[i].Param
	for _, at := range r.slots(i) {
		if t := r.state[at]; t != nil {
			if err := t.Write(data); err != nil {
				return fmt.Errorf("pipeline: rank %d: %s: %w", r.rank, describe(param), err)
			}
		} else if r.state[at], err = r.memory.Put(data, param.Shape()); err != nil {
			delete(r.state, at)
			return fmt.Errorf("pipeline: rank %d: %s: %w", r.rank, describe(param), err)
		}
	}
	r.put[i] = true
	return nil
}

// slots are the places that this rank has of a state.
func (r *Runner) slots(state int) (list []slot) {
	if !r.l.changes(state) {
		if r.holds[state] {
			list = append(list, slot{state, -1})
		}
		return list
	}
	for _, c := range r.chunks {
		if slices.Contains(c.changes, state) {
			list = append(list, slot{state, c.number})
		}
	}
	return list
}

// Get copies the elements of a parameter of the state, as they are after the last step. All
// ranks call it, for the same parameters, and all get them.
func (r *Runner) Get(param graph.Value, data []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	i, err := r.find(param, data)
	switch {
	case err != nil:
		return err
	case !r.put[i]:
		return r.missing(i)
	case len(data) == 0:
		return nil
	}
	if err := r.get(i, param, data); err != nil {
		return r.fail(fmt.Errorf("pipeline: rank %d: %s: %w", r.rank, describe(param), err))
	}
	return nil
}

func (r *Runner) get(i int, param graph.Value, data []byte) (err error) {
	keeper := r.l.keeper(i)
	var t *step.Tensor
	if keeper == r.rank {
		t = r.state[r.slots(i)[0]]
	} else if t, err = r.memory.New(param.Shape()); err != nil {
		return err
	} else {
		defer func() { err = errors.Join(err, t.Free()) }()
	}
	err = errors.Join(r.c.Broadcast(r.stream, t.Ptr(), int64(len(data)), keeper), r.stream.Synchronize())
	if err != nil {
		return err
	}
	return t.Read(data)
}

// find is the number of a state that has as many bytes as data.
func (r *Runner) find(param graph.Value, data []byte) (int, error) {
	if err := r.usable(); err != nil {
		return 0, err
	}
	i, ok := r.l.state[param]
	switch {
	case !ok:
		return 0, bad("%v is not of the state", param)
	case int64(len(data)) != param.Shape().Bytes():
		return 0, bad("%s has %d bytes, not %d", describe(param), param.Shape().Bytes(), len(data))
	}
	return i, nil
}

// usable is why nothing can be done any more.
func (r *Runner) usable() error {
	if r.closed {
		return fmt.Errorf("pipeline: graph %q: %w", r.l.step.Graph.Name(), ErrClosed)
	}
	return r.failed
}

func (r *Runner) missing(i int) error {
	return bad("state %q was never put", saved.Name(r.l.step.State[i].Param))
}

// fail ends this rank's part of everything: nothing that was begun with others goes on.
func (r *Runner) fail(err error) error {
	r.failed = err
	r.c.Abort(err)
	if r.beside != nil {
		r.beside.Abort(err)
	}
	_ = r.stream.Synchronize() // what failed was told
	return err
}
