package ranks

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/gomlx"
	"github.com/pinion-gpu/pinion/parallel"
)

// WholeShape is the shape of a variable of which each rank may have a share.
func (o *Optimizer) WholeShape(v *model.Variable) shapes.Shape {
	o.mu.Lock()
	defer o.mu.Unlock()
	if dims, ok := o.kept[v.Path()]; ok {
		return shapes.Make(v.DType(), dims...)
	}
	return v.Shape()
}

// Read gives use the bytes of a variable as a whole, for as long as it runs: what a program
// needs that has checkpoints of its own. Of a share, all ranks call it, in one order of the
// variables, and get the whole; use may be nil on those that do not need it. comm are the ranks
// of the backend; nil: one. It fails with [gomlx.ErrArgument] if the shares are others.
func (o *Optimizer) Read(comm parallel.Comm, v *model.Variable, use func(data []byte) error) error {
	whole := o.WholeShape(v)
	value, err := v.Value()
	if err != nil {
		return err
	}
	if whole.Equal(v.Shape()) {
		if use == nil {
			return nil
		}
		return read(value, use)
	}
	s := newShare(comm, whole.Size())
	if s == nil || !slices.Equal(v.Shape().Dimensions, []int{s.each}) {
		return fmt.Errorf("ranks: %w", notTheShare(v, comm))
	}
	all := make([]byte, s.ranks*int(v.Shape().ByteSize()))
	if err := read(value, func(data []byte) error { return gather(comm, all, data) }); err != nil {
		return fmt.Errorf("ranks: gather %s: %w", v.Path(), err)
	}
	if use == nil {
		return nil
	}
	return use(all[:whole.ByteSize()])
}

func notTheShare(v *model.Variable, comm parallel.Comm) error {
	n := 1
	if comm != nil {
		n = comm.Size()
	}
	return fmt.Errorf("%w: %s is %v, which is not what one of %d ranks has of it", gomlx.ErrArgument, v.Path(), v.Shape(), n)
}

// read gives use the bytes of a value; what that takes on the host goes again.
func read(value *tensors.Tensor, use func(data []byte) error) (err error) {
	onDevice := !value.IsLocal()
	readErr := value.ConstBytes(func(data []byte) { err = use(data) })
	if onDevice {
		value.FinalizeLocal()
	}
	return errors.Join(readErr, err)
}

// gather gets the bytes of all ranks, which have as many each. All fail together before they
// queue anything.
func gather(comm parallel.Comm, all, own []byte) error {
	dev := comm.Device()
	stream, err := dev.NewStream()
	var memory device.Ptr
	if err == nil {
		if memory, err = dev.Alloc(int64(len(all))); err != nil {
			err = errors.Join(err, stream.Close())
		}
	}
	if other := parallel.FirstError(comm, err); other != nil {
		if err == nil {
			other = errors.Join(other, dev.Free(memory), stream.Close())
		}
		return other
	}
	at := memory.Add(int64(comm.Rank() * len(own)))
	return errors.Join(
		stream.CopyH2D(at, own),
		comm.AllGather(stream, parallel.Part{Recv: memory, Send: at, N: int64(len(own))}),
		stream.CopyD2H(all, memory),
		stream.Synchronize(),
		dev.Free(memory),
		stream.Close(),
	)
}

// Part is what this rank has of a variable of the optimizer, such as a moment, before the
// first step: of the whole value, its share, or all of it where ranks do not share it. It
// takes the place of the value, which is not valid any more then. It is for a program that
// has checkpoints of its own; comm are the ranks of the backend; nil: one.
func (o *Optimizer) Part(comm parallel.Comm, path string, whole *tensors.Tensor) (*tensors.Tensor, error) {
	o.mu.Lock()
	o.kept[path] = slices.Clone(whole.Shape().Dimensions)
	o.mu.Unlock()
	s := newShare(comm, whole.Size())
	if s == nil || !o.shares {
		return whole, nil
	}
	part := tensors.FromShape(shapes.Make(whole.DType(), s.each)) // of zeros, which fill up the last
	from, n := s.of()
	size := int(whole.Shape().ByteSize()) / whole.Size()
	err := read(whole, func(data []byte) error {
		return part.MutableBytes(func(to []byte) { copy(to, data[from*size:(from+n)*size]) })
	})
	return part, errors.Join(err, whole.FinalizeAll())
}
