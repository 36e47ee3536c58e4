package ranks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/train"
	"github.com/gomlx/gomlx/ml/train/metric"

	"github.com/pinion-gpu/pinion/checkpoint/sharded"
	"github.com/pinion-gpu/pinion/gomlx"
	"github.com/pinion-gpu/pinion/parallel"
	"github.com/pinion-gpu/pinion/safetensors"
)

// metaKey is that of the text beside a checkpoint which says what cannot be seen in it.
const metaKey = "pinion_gomlx_ranks"

// said is that text.
type said struct {
	Kept   []string `json:"kept"`   // variables that belong to weights, and are shared as those are
	Frozen []string `json:"frozen"` // variables that are not trained
}

// Save writes the variables of a store into a folder, with meta beside: see [sharded.Save].
// Each rank writes its shares, and some of the weights, which all have; of everything else,
// as the numbers of steps and what layers keep beside weights, that of the first rank is
// written. Sums of gradients of train.Trainer.AccumulateGradients are not, so save between
// steps, nor is what metrics keep. All ranks call it, and fail together. comm are the ranks
// of the backend; nil: one.
func (o *Optimizer) Save(ctx context.Context, folder string, comm parallel.Comm, store *model.Store, meta map[string]string) error {
	pieces, all, err := o.pieces(comm, store, meta)
	if comm != nil {
		err = parallel.FirstError(comm, err)
	}
	if err != nil {
		return fmt.Errorf("ranks: save %s: %w", folder, err)
	}
	return sharded.Save(ctx, folder, comm, pieces, sharded.SaveOptions{Meta: all})
}

// pieces are what this rank writes.
func (o *Optimizer) pieces(comm parallel.Comm, store *model.Store, meta map[string]string) (list []sharded.Piece, all map[string]string, err error) {
	if meta[metaKey] != "" {
		return nil, nil, fmt.Errorf("%w: %s in meta is for what Save says itself", gomlx.ErrArgument, metaKey)
	}
	rank, size := 0, 1
	if comm != nil {
		rank, size = comm.Rank(), comm.Size()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	var text said
	written := make([]int64, size) // by each rank
	for v := range store.IterVariables() {
		if transient(v.Path()) {
			continue
		}
		t, ok := fileTypes[v.DType()]
		if !ok {
			return nil, nil, fmt.Errorf("%w: %s has elements of type %v", errors.ErrUnsupported, v.Path(), v.DType())
		}
		value, err := v.Value()
		if err != nil {
			return nil, nil, err
		}
		dims, kept := o.kept[v.Path()]
		if !kept {
			dims = v.Shape().Dimensions
		}
		p := sharded.Piece{Name: v.Path(), Type: t, Shape: []int64{}, N: 1}
		for _, d := range dims {
			p.Shape = append(p.Shape, int64(d))
			p.N *= int64(d)
		}
		by := 0
		if s := newShare(comm, int(p.N)); kept && s != nil && slices.Equal(v.Shape().Dimensions, []int{s.each}) {
			from, n := s.of()
			p.From, p.N, by = int64(from), int64(n), rank
		} else if !slices.Equal(v.Shape().Dimensions, dims) {
			return nil, nil, notTheShare(v, comm)
		} else if v.Trainable {
			by = slices.Index(written, slices.Min(written))
			written[by] += v.Shape().ByteSize()
		}
		if kept {
			text.Kept = append(text.Kept, v.Path())
		}
		if !v.Trainable {
			text.Frozen = append(text.Frozen, v.Path())
		}
		p.Read = func(data []byte) error {
			return read(value, func(all []byte) error { copy(data, all); return nil })
		}
		if by == rank {
			list = append(list, p)
		}
	}
	if store.NumVariables() == 0 {
		return nil, nil, fmt.Errorf("%w: there is nothing to save before the first step", gomlx.ErrArgument)
	}
	data, err := json.Marshal(text)
	all = maps.Clone(meta)
	if all == nil {
		all = map[string]string{}
	}
	all[metaKey] = string(data)
	return list, all, err
}

// Load gives a store the variables that [Optimizer.Save] has written, with any number of
// ranks, shared or not, and returns its meta. It is called before the first step; variables
// that the store has already need the shape that they have in the checkpoint. All ranks call
// it, and fail together; then no variable has changed. comm are the ranks of the backend;
// nil: one.
func (o *Optimizer) Load(ctx context.Context, folder string, comm parallel.Comm, store *model.Store) (meta map[string]string, err error) {
	var list []loaded
	ck, err := sharded.Open(folder)
	if err == nil {
		meta = ck.Meta
		list, err = o.load(ctx, ck, comm, store)
		err = errors.Join(err, ck.Close())
	}
	if comm != nil {
		err = parallel.FirstError(comm, err)
	}
	if err != nil {
		return nil, fmt.Errorf("ranks: load %s: %w", folder, err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, l := range list {
		v := store.GetVariable(l.path)
		if v != nil {
			err = v.SetValue(l.value)
		} else {
			v, err = store.CreateVariable(l.path, l.value)
		}
		if err != nil {
			return nil, fmt.Errorf("ranks: load %s: %w", folder, err)
		}
		v.SetTrainable(!l.frozen)
		if l.kept != nil {
			o.kept[l.path] = l.kept
		}
	}
	delete(meta, metaKey)
	return meta, nil
}

// loaded is a variable of a checkpoint, or this rank's share of it.
type loaded struct {
	path   string
	value  *tensors.Tensor
	frozen bool
	kept   []int // the dimensions of the weight that it belongs to; nil: none
}

func (o *Optimizer) load(ctx context.Context, ck *sharded.Checkpoint, comm parallel.Comm, store *model.Store) (list []loaded, err error) {
	var text said
	if err := json.Unmarshal([]byte(ck.Meta[metaKey]), &text); err != nil {
		return nil, fmt.Errorf("%w: it was not written by Save: its %s is %.80q", gomlx.ErrArgument, metaKey, ck.Meta[metaKey])
	}
	kept, frozen := set(text.Kept), set(text.Frozen)
	for _, c := range ck.Values() {
		l := loaded{path: c.Name, frozen: frozen[c.Name]}
		dims := []int{}
		for _, d := range c.Shape {
			dims = append(dims, int(d))
		}
		shape, from := shapes.Make(goTypes[c.Type], dims...), 0
		if shape.DType == dtypes.InvalidDType {
			return nil, fmt.Errorf("%w: %s has elements of type %s", errors.ErrUnsupported, c.Name, c.Type)
		}
		n := shape.Size()
		if kept[c.Name] {
			l.kept = dims
			if s := newShare(comm, n); s != nil && o.shares {
				from, n = s.of()
				shape = shapes.Make(shape.DType, s.each)
			}
		}
		if v := store.GetVariable(c.Name); v != nil && !v.Shape().Equal(shape) {
			return nil, fmt.Errorf("%w: %s is %v in the store, and %v by the checkpoint", gomlx.ErrArgument, c.Name, v.Shape(), shape)
		}
		l.value = tensors.FromShape(shape) // of zeros, which fill up the last share
		fillErr := l.value.MutableBytes(func(data []byte) {
			err = ck.Read(ctx, c.Name, int64(from), data[:n*int(c.Type.Bits()/8)])
		})
		if err := errors.Join(fillErr, err); err != nil {
			return nil, err
		}
		list = append(list, l)
	}
	return list, nil
}

func set(list []string) map[string]bool {
	m := map[string]bool{}
	for _, x := range list {
		m[x] = true
	}
	return m
}

// transient says whether a variable is not saved: a sum of gradients is 0 between two steps,
// and what metrics keep is each rank's own, with names that change.
func transient(path string) bool {
	for _, scope := range []string{train.AccumulatedGradientsScope, metric.Scope} {
		if strings.HasPrefix(path, "/"+scope+"/") {
			return true
		}
	}
	return false
}

var fileTypes = map[dtypes.DType]safetensors.DType{
	dtypes.Bool:     safetensors.Bool,
	dtypes.Int8:     safetensors.I8,
	dtypes.Int16:    safetensors.I16,
	dtypes.Int32:    safetensors.I32,
	dtypes.Int64:    safetensors.I64,
	dtypes.Uint8:    safetensors.U8,
	dtypes.Uint16:   safetensors.U16,
	dtypes.Uint32:   safetensors.U32,
	dtypes.Uint64:   safetensors.U64,
	dtypes.Float16:  safetensors.F16,
	dtypes.BFloat16: safetensors.BF16,
	dtypes.Float32:  safetensors.F32,
	dtypes.Float64:  safetensors.F64,
}

var goTypes = func() map[safetensors.DType]dtypes.DType {
	m := map[safetensors.DType]dtypes.DType{}
	for g, f := range fileTypes {
		m[f] = g
	}
	return m
}()
