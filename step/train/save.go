package train

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/pinion-gpu/pinion/checkpoint/sharded"
	"github.com/pinion-gpu/pinion/parallel"
	"github.com/pinion-gpu/pinion/safetensors"
)

// stepKey is where a checkpoint has the number of steps.
const stepKey = "pinion.train.step"

// Save writes the state, and the number of steps, into a folder that all ranks have, with
// meta beside: see [sharded.Save]. Each rank writes its shares, and of what all have the
// same, a part; of what is a rank's own ([State].Each), the first rank's is kept. The
// parameters of the state need names, each its own. All ranks call it, and fail together; a
// rank that never comes is waited for until the communicator is aborted. A step that ranks
// split (package spmd) is refused: what each has goes by the same name.
func (r *Runner) Save(ctx context.Context, folder string, meta map[string]string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	pieces, err := r.pieces()
	if c := r.o.Compile.Ranks; c != nil {
		err = parallel.FirstError(c, err)
	}
	if err != nil {
		return err
	}
	said := maps.Clone(meta)
	if said == nil {
		said = map[string]string{}
	}
	said[stepKey] = strconv.Itoa(r.steps)
	return sharded.Save(ctx, folder, r.o.Compile.Ranks, pieces, sharded.SaveOptions{Meta: said})
}

// pieces are what this rank writes of the state.
func (r *Runner) pieces() (list []sharded.Piece, err error) {
	if err := r.named(); err != nil {
		return nil, err
	}
	rank, size := 0, 1
	if c := r.o.Compile.Ranks; c != nil {
		rank, size = c.Rank(), c.Size()
	}
	written := make([]int64, size) // by each rank
	for i, s := range r.s.State {
		shape, own := s.Param.Shape(), r.state[i]
		p := sharded.Piece{Name: nameOf(s.Param), Type: safetensors.Of(shape.Type), N: int64(shape.Size())}
		for _, d := range shape.Dims {
			p.Shape = append(p.Shape, int64(d))
		}
		by := 0
		switch share := r.shares[i]; {
		case share != nil:
			p.From, p.N = share.from(rank)
			by = rank
		case !s.Each:
			by = slices.Index(written, slices.Min(written))
			written[by] += shape.Bytes()
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

// named reports parameters that a checkpoint cannot tell apart.
func (r *Runner) named() error {
	if r.closed {
		return fmt.Errorf("train: graph %q: %w", r.s.Graph.Name(), ErrClosed)
	}
	if c := r.o.Compile.Ranks; r.s.SplitOver > 1 || c != nil && c.Size() > 1 && r.s.split() {
		return fmt.Errorf("train: graph %q: %w: ranks have parts of its state that a checkpoint knows nothing of", r.s.Graph.Name(), ErrArgument)
	}
	seen := map[string]bool{}
	for i, s := range r.s.State {
		if name := nameOf(s.Param); name == "" || seen[name] {
			return fmt.Errorf("train: graph %q: %w: parameter %d of the state is called %q, so that a checkpoint cannot tell it from others", r.s.Graph.Name(), ErrArgument, i, name)
		}
		seen[nameOf(s.Param)] = true
	}
	return nil
}

// Load reads what [Runner.Save] has written, with any number of ranks and any sharing, and
// returns its meta. All ranks get the same, also of what each had of its own ([State].Each).
// All of the state has to be there, with the shapes and types that it has
// here; what else is there is not read. All ranks call it, and fail together; the state is
// then undefined and has to be put, or loaded, again.
func (r *Runner) Load(ctx context.Context, folder string) (meta map[string]string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	steps := 0
	ck, err := sharded.Open(folder)
	if c := r.o.Compile.Ranks; c != nil {
		err = sameSave(c, ck, err)
	}
	if err == nil {
		meta = ck.Meta
		if steps, err = strconv.Atoi(meta[stepKey]); err != nil {
			err = fmt.Errorf("train: %w: %s was not written by a runner: its %s is %q", ErrArgument, folder, stepKey, meta[stepKey])
		}
		if err == nil {
			err = r.read(ctx, ck)
		}
	}
	if ck != nil {
		err = errors.Join(err, ck.Close())
	}
	if c := r.o.Compile.Ranks; c != nil {
		err = parallel.FirstError(c, err)
	}
	if err != nil {
		return nil, err
	}
	r.steps = steps
	delete(meta, stepKey)
	return meta, nil
}

// sameSave fails on all ranks if one could not open the checkpoint, or has another one.
func sameSave(c parallel.Comm, ck *sharded.Checkpoint, err error) error {
	if err = parallel.FirstError(c, err); err != nil {
		return err
	}
	ids, err := parallel.Texts(c, ck.ID)
	for rank, id := range ids {
		if id != ids[0] && err == nil {
			err = fmt.Errorf("train: %w: rank 0 sees the save %s there, and rank %d %s", ErrArgument, ids[0], rank, id)
		}
	}
	return err
}

// read reads this rank's state.
func (r *Runner) read(ctx context.Context, ck *sharded.Checkpoint) error {
	if err := r.named(); err != nil {
		return err
	}
	for i, s := range r.s.State {
		shape, name := s.Param.Shape(), nameOf(s.Param)
		v, ok := ck.Find(name)
		if !ok {
			return fmt.Errorf("train: %w: the checkpoint has no %q", ErrArgument, name)
		}
		same := v.Type == safetensors.Of(shape.Type) && len(v.Shape) == len(shape.Dims)
		for k := range shape.Dims {
			same = same && v.Shape[k] == int64(shape.Dims[k])
		}
		if !same {
			return fmt.Errorf("train: %w: %q is %s of shape %d in the checkpoint, and %v here", ErrArgument, name, v.Type, v.Shape, shape)
		}
		from, n := int64(0), int64(shape.Size())
		if share := r.shares[i]; share != nil {
			from, n = share.from(r.o.Compile.Ranks.Rank())
			shape = share.of(shape)
		}
		data := make([]byte, shape.Bytes()) // the rest of a share that is filled up is 0
		if err := ck.Read(ctx, name, from, data[:n*int64(shape.Type.Size())]); err != nil {
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
