package pipeline

import (
	"context"

	"github.com/pinion-gpu/pinion/checkpoint/sharded"
	"github.com/pinion-gpu/pinion/step/graph"
	"github.com/pinion-gpu/pinion/step/internal/saved"
)

// Save writes the state, and the number of steps, into a folder that all ranks have, with
// meta beside: see [sharded.Save]. Each rank writes the state of its stages; of what several
// have a copy of, the first stage's is kept. The checkpoint is that of [train.Runner.Save].
// The parameters of the state need names, each its own. All ranks call it, and fail together.
func (r *Runner) Save(ctx context.Context, folder string, meta map[string]string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return saved.Save(ctx, folder, r.c, r.pieces, r.steps, meta)
}

// pieces are what this rank writes of the state.
func (r *Runner) pieces() (list []sharded.Piece, err error) {
	if err := r.named(); err != nil {
		return nil, err
	}
	for i, s := range r.l.step.State {
		if !r.put[i] {
			return nil, r.missing(i)
		}
		if r.l.keeper(i) == r.rank {
			p := saved.Piece(s.Param, s.Param.Shape())
			p.Read = r.state[r.slots(i)[0]].Read
			list = append(list, p)
		}
	}
	return list, nil
}

// named reports state that a checkpoint cannot tell apart.
func (r *Runner) named() error {
	if err := r.usable(); err != nil {
		return err
	}
	params := make([]graph.Value, len(r.l.step.State))
	for i, s := range r.l.step.State {
		params[i] = s.Param
	}
	return saved.Named(params)
}

// Load reads what Save has written, or [train.Runner.Save], on any number of ranks however
// the step was cut or shared there, and returns its meta. All of the state has to be there,
// with the shapes and types that it has here; what else is there is not read. All ranks call
// it, and fail together; the state may be lost then and has to be put, or loaded, again.
func (r *Runner) Load(ctx context.Context, folder string) (meta map[string]string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	steps, meta, err := saved.Load(folder, r.c, func(ck *sharded.Checkpoint) error { return r.read(ctx, ck) },
		func() { clear(r.put) }) // so that nobody goes on with a part of a checkpoint
	if err == nil {
		r.steps = steps
	}
	return meta, err
}

// read reads the state of this rank's stages.
func (r *Runner) read(ctx context.Context, ck *sharded.Checkpoint) error {
	if err := r.named(); err != nil {
		return err
	}
	for i, s := range r.l.step.State {
		p := saved.Piece(s.Param, s.Param.Shape())
		var data []byte
		if len(r.slots(i)) > 0 {
			data = make([]byte, s.Param.Shape().Bytes())
		} else {
			p.N = 0 // other ranks have it
		}
		if err := ck.ReadPiece(ctx, p, data); err != nil {
			return err
		}
		if err := r.write(i, data); err != nil {
			return err
		}
	}
	return nil
}
