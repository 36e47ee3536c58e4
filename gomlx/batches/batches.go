// Package batches gives the batches of a loader to GoMLX's trainer, where they are: the
// device memory of a batch becomes a tensor, and goes back to the loader when the trainer
// is done with it. Nothing is copied.
//
//	backend, err := gomlx.New("host")
//	ld, err := loader.New(backend.Device(), samples, loader.Options{Batch: 64, Shuffle: true})
//	ds, err := batches.New(backend, ld, batches.Options{})
//	loop := train.NewLoop(trainer)
//	_, err = loop.RunEpochs(ds, 90)
package batches

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/train"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/gomlx"
	"github.com/pinion-gpu/pinion/loader"
)

// Options describe a [Dataset].
type Options struct {
	// Name is for people. Default: "pinion".
	Name string

	// Context ends iterations. Default: none does.
	Context context.Context

	// NoLabels leaves out the classes of samples, which are int32 in an axis of one
	// element behind that of the batch: what GoMLX's sparse losses take.
	NoLabels bool
}

// Dataset is a loader as GoMLX's trainer wants it. A batch has the samples as its input;
// its labels are the classes, and then the loader's targets.
type Dataset struct {
	backend *gomlx.Backend
	loader  *loader.Loader
	opts    Options
}

var _ train.Dataset = (*Dataset)(nil)

// New makes a dataset of a loader, which the caller closes. It fails with
// [gomlx.ErrArgument] if the loader was not made on the backend's device.
func New(backend *gomlx.Backend, ld *loader.Loader, opts Options) (*Dataset, error) {
	for _, dev := range ld.Devices() {
		if !device.Same(dev, backend.Device()) {
			return nil, fmt.Errorf("batches: %w: the loader feeds %s, and not the backend's device", gomlx.ErrArgument, dev.Info().ID)
		}
	}
	if opts.Name == "" {
		opts.Name = gomlx.Name
	}
	if opts.Context == nil {
		opts.Context = context.Background()
	}
	return &Dataset{backend, ld, opts}, nil
}

// Name implements [train.Dataset].
func (d *Dataset) Name() string { return d.opts.Name }

// Iter implements [train.Dataset]: each call goes through an epoch of the loader.
func (d *Dataset) Iter() iter.Seq2[train.Batch, error] {
	return func(yield func(train.Batch, error) bool) {
		for b, err := range d.loader.Epoch(d.opts.Context) {
			var batch train.Batch
			if err == nil {
				batch, err = d.tensors(b)
			}
			if !yield(batch, err) || err != nil {
				return
			}
		}
	}
}

// tensors makes tensors of a batch's memory, each of which holds the batch.
func (d *Dataset) tensors(b *loader.Batch) (batch train.Batch, err error) {
	defer func() {
		err = errors.Join(err, b.Release()) // the tensors hold it on
		if err != nil {
			err = errors.Join(err, batch.Finalize())
		}
	}()
	if batch.Inputs, err = d.append(nil, b, b.Data, b.DType, b.Shape); err != nil {
		return batch, err
	}
	if !d.opts.NoLabels && b.DeviceLabels != 0 {
		if batch.Labels, err = d.append(nil, b, b.DeviceLabels, dtype.I32, []int{b.Shape[0], 1}); err != nil {
			return batch, err
		}
	}
	for _, t := range b.Targets {
		if batch.Labels, err = d.append(batch.Labels, b, t.Data, t.DType, t.Shape); err != nil {
			return batch, err
		}
	}
	return batch, nil
}

func (d *Dataset) append(list []*tensors.Tensor, b *loader.Batch, data device.Ptr, t dtype.DType, dims []int) ([]*tensors.Tensor, error) {
	elements, ok := types[t]
	if !ok {
		return list, fmt.Errorf("batches: %w: GoMLX has no elements of type %v", gomlx.ErrArgument, t)
	}
	if err := b.Retain(); err != nil {
		return list, err
	}
	buf, err := d.backend.Wrap(data, shapes.Make(elements, dims...), func() error { return b.Release() })
	if err != nil {
		return list, errors.Join(err, b.Release())
	}
	tensor, err := tensors.FromBuffer(buf)
	if err != nil {
		return list, errors.Join(err, buf.Finalize())
	}
	return append(list, tensor), nil
}

var types = map[dtype.DType]dtypes.DType{
	dtype.U8:   dtypes.Uint8,
	dtype.I8:   dtypes.Int8,
	dtype.U16:  dtypes.Uint16,
	dtype.I16:  dtypes.Int16,
	dtype.I32:  dtypes.Int32,
	dtype.I64:  dtypes.Int64,
	dtype.F16:  dtypes.Float16,
	dtype.BF16: dtypes.BFloat16,
	dtype.F32:  dtypes.Float32,
	dtype.F64:  dtypes.Float64,
	dtype.U32:  dtypes.Uint32,
	dtype.U64:  dtypes.Uint64,
	dtype.Bool: dtypes.Bool,
}
