// Package saved is how training steps lie in checkpoints of package sharded, whatever runs
// them: state by the names of its parameters, and the number of steps in the metadata.
package saved

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"

	"github.com/pinion-gpu/pinion/checkpoint/sharded"
	"github.com/pinion-gpu/pinion/internal/errs"
	"github.com/pinion-gpu/pinion/parallel"
	"github.com/pinion-gpu/pinion/safetensors"
	"github.com/pinion-gpu/pinion/step/graph"
)

// stepKey is where a checkpoint has the number of steps.
const stepKey = "pinion.train.step"

// Name is the one that a parameter of a graph was given.
func Name(param graph.Value) string { return param.Node().Attr.(*graph.Input).Name }

// Named reports parameters that a checkpoint cannot tell apart.
func Named(params []graph.Value) error {
	seen := map[string]bool{}
	for i, p := range params {
		if name := Name(p); name == "" || seen[name] {
			return fmt.Errorf("step: %w: parameter %d of the state is called %q, so that a checkpoint cannot tell it from others", errs.ErrArgument, i, name)
		}
		seen[Name(p)] = true
	}
	return nil
}

// Piece is all of a parameter, of which this rank may have a part, but for what reads it.
func Piece(param graph.Value, shape graph.Shape) sharded.Piece {
	p := sharded.Piece{Name: Name(param), Type: safetensors.Of(shape.Type), N: int64(shape.Size())}
	for _, d := range shape.Dims {
		p.Shape = append(p.Shape, int64(d))
	}
	return p
}

// Save writes what pieces finds for this rank, and the number of steps, into a folder that
// all ranks of c have, with meta beside. Without ranks, c is nil. All ranks fail together.
func Save(ctx context.Context, folder string, c parallel.Comm, pieces func() ([]sharded.Piece, error), steps int, meta map[string]string) error {
	list, err := pieces()
	if err := together(c, err); err != nil {
		return err
	}
	said := maps.Clone(meta)
	if said == nil {
		said = map[string]string{}
	}
	said[stepKey] = strconv.Itoa(steps)
	return sharded.Save(ctx, folder, c, list, sharded.SaveOptions{Meta: said})
}

// Load has read read a checkpoint, and returns the number of steps and the meta that it was
// saved with. All ranks fail together. Once any may have read something, lose is called on all
// of them then: what they have is partly the checkpoint's.
func Load(folder string, c parallel.Comm, read func(ck *sharded.Checkpoint) error, lose func()) (steps int, meta map[string]string, err error) {
	ck, err := sharded.Open(folder)
	if err == nil {
		defer func() { err = errors.Join(err, ck.Close()) }()
	}
	if err := together(c, err); err != nil {
		return 0, nil, err
	}
	if c != nil {
		if err := sameSave(c, ck); err != nil {
			return 0, nil, err
		}
	}
	meta = ck.Meta
	if steps, err = strconv.Atoi(meta[stepKey]); err != nil {
		return 0, nil, fmt.Errorf("step: %w: %s was not written by a runner: its %s is %q", errs.ErrArgument, folder, stepKey, meta[stepKey])
	}
	if err := together(c, read(ck)); err != nil {
		lose()
		return 0, nil, err
	}
	delete(meta, stepKey)
	return steps, meta, nil
}

// sameSave fails on all ranks if one has another checkpoint.
func sameSave(c parallel.Comm, ck *sharded.Checkpoint) error {
	ids, err := parallel.Texts(c, ck.ID)
	for rank, id := range ids {
		if id != ids[0] && err == nil {
			err = fmt.Errorf("step: %w: rank 0 sees the save %s there, and rank %d %s", errs.ErrArgument, ids[0], rank, id)
		}
	}
	return err
}

// together is the error of all ranks.
func together(c parallel.Comm, err error) error {
	if c == nil {
		return err
	}
	return parallel.FirstError(c, err)
}
