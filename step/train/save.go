package train

import (
	"context"
	"fmt"
	"slices"

	"github.com/pinion-gpu/pinion/checkpoint/sharded"
	"github.com/pinion-gpu/pinion/step/graph"
	"github.com/pinion-gpu/pinion/step/internal/saved"
)

// Save writes the state, and the number of steps, into a folder that all ranks have, with
// meta beside: see [sharded.Save]. Each rank writes its shares, and of what all have the
// same, a part; of what is a rank's own ([State].Each), the first rank's is kept. The
// parameters of the state need names, each its own. All ranks call it, and fail together; a
// rank that never comes is waited for until the communicator is aborted. Of what ranks split
// ([State].Part), the checkpoint has the whole. A step that ranks split otherwise is refused:
// what each has goes by the same name.
func (r *Runner) Save(ctx context.Context, folder string, meta map[string]string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return saved.Save(ctx, folder, r.o.Compile.Ranks, r.pieces, r.steps, meta)
}

// pieces are what this rank writes of the state.
func (r *Runner) pieces() (list []sharded.Piece, err error) {
	if err := r.named(); err != nil {
		return nil, err
	}
	rank, size := r.ranks()
	written := make([]int64, size) // by each rank
	for i, s := range r.s.State {
		own := r.state[i]
		p := r.piece(i)
		by := 0
		switch {
		case r.shares[i] != nil || s.Part != nil && s.Part.Axis >= 0:
			by = rank
		case !s.Each:
			by = slices.Index(written, slices.Min(written))
			written[by] += s.Param.Shape().Bytes()
		}
		p.Read = func(data []byte) error {
			if own == nil {
				return r.missing(i)
			}
			if all := own.Shape().Bytes(); int64(len(data)) < all { // a share that is filled up
				whole := make([]byte, all)
				err := own.Read(whole)
				copy(data, whole)
				return err
			}
			return own.Read(data)
		}
		if by == rank {
			list = append(list, p)
		}
	}
	return list, nil
}

// ranks are this rank, and how many there are.
func (r *Runner) ranks() (rank, size int) {
	if c := r.o.Compile.Ranks; c != nil {
		return c.Rank(), c.Size()
	}
	return 0, 1
}

// piece is what this rank has of a part of the state, but for what reads it.
func (r *Runner) piece(i int) sharded.Piece {
	s := &r.s.State[i]
	rank, size := r.ranks()
	if s.Part != nil {
		p := saved.Piece(s.Param, s.Part.Whole)
		p.Row, p.From, p.N = s.Part.piece(size, rank)
		return p
	}
	p := saved.Piece(s.Param, s.Param.Shape())
	if share := r.shares[i]; share != nil {
		p.From, p.N = share.from(rank)
	}
	return p
}

// named reports state that a checkpoint cannot tell apart.
func (r *Runner) named() error {
	if r.closed {
		return fmt.Errorf("train: graph %q: %w", r.s.Graph.Name(), ErrClosed)
	}
	_, size := r.ranks()
	if r.s.SplitOver > 0 && size != r.s.SplitOver {
		return fmt.Errorf("train: graph %q: %w: it is split over %d ranks, and runs on %d", r.s.Graph.Name(), ErrArgument, r.s.SplitOver, size)
	}
	unknown := func(s State) bool { return s.Part == nil }
	if size > 1 && r.s.split() && (r.s.SplitOver == 0 || slices.ContainsFunc(r.s.State, unknown)) {
		return fmt.Errorf("train: graph %q: %w: ranks have parts of its state that a checkpoint knows nothing of", r.s.Graph.Name(), ErrArgument)
	}
	params := make([]graph.Value, len(r.s.State))
	for i, s := range r.s.State {
		params[i] = s.Param
	}
	return saved.Named(params)
}

// Load reads what [Runner.Save] has written, with any number of ranks and any sharing, and
// returns its meta. All ranks get the same, also of what each had of its own ([State].Each).
// All of the state has to be there, with the shapes and types that it has
// here; what else is there is not read. All ranks call it, and fail together; the state may be
// lost then and has to be put, or loaded, again.
func (r *Runner) Load(ctx context.Context, folder string) (meta map[string]string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	steps, meta, err := saved.Load(folder, r.o.Compile.Ranks, func(ck *sharded.Checkpoint) error { return r.read(ctx, ck) }, r.lose)
	if err == nil {
		r.steps = steps
	}
	return meta, err
}

// lose lets go of the state, so that nobody goes on with a part of a checkpoint.
func (r *Runner) lose() {
	for i, t := range r.state {
		if t != nil {
			_ = t.Free()
		}
		r.state[i] = nil
	}
}

// read reads this rank's state.
func (r *Runner) read(ctx context.Context, ck *sharded.Checkpoint) error {
	if err := r.named(); err != nil {
		return err
	}
	for i, s := range r.s.State {
		shape, p := s.Param.Shape(), r.piece(i)
		n := shape.Bytes()
		if share := r.shares[i]; share != nil {
			shape, n = share.of(shape), p.N*int64(shape.Type.Size())
		}
		data := make([]byte, shape.Bytes()) // the rest of a share that is filled up is 0
		if err := ck.ReadPiece(ctx, p, data[:n]); err != nil {
			return err
		}
		if err := r.put(i, shape, data); err != nil {
			return err
		}
	}
	return nil
}

// from is where a rank's share begins, and how many of its elements count.
func (s *share) from(rank int) (from, n int64) {
	a := min(rank*s.each, s.elements)
	return int64(a), int64(min(a+s.each, s.elements) - a)
}
