package checkpoint

import (
	"context"
	"fmt"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/safetensors"
	"github.com/pinion-gpu/pinion/transfer"
)

// Into is a tensor, or a part of one ([safetensors.Tensor.Range]), and the
// device memory for it.
type Into struct {
	safetensors.Tensor
	Ptr device.Ptr // 0 for a tensor without elements
}

// LoadInto brings tensors into device memory that the caller gives, such as that
// of another library, and returns when they are there. The memory has as many
// bytes as the tensor, or with o.Floats as it has after the cast; work that uses
// it must be done. o.Keep, o.Place and o.Align are not used. It fails as [Load]
// does; the memory then holds a part of the tensors. (For host memory there is
// [safetensors.Read].)
func LoadInto(ctx context.Context, tensors []Into, o Options, t Target) (r Report, err error) {
	defer func() {
		if err != nil {
			err = about(ctx, err)
		}
	}()
	if err := checkTargets([]Target{t}); err != nil {
		return r, err
	}
	if err := o.check(); err != nil {
		return r, err
	}
	began := time.Now()
	o.limits.small = 0 // what is read together is spread in one range of memory
	pieces := make([]piece, len(tensors))
	total := int64(0)
	for i, x := range tensors {
		pieces[i] = o.piece(x.Tensor)
		pieces[i].at = int64(x.Ptr)
		switch {
		case x.File == nil:
			return r, fmt.Errorf("%w: %.80q is in no file", ErrArgument, x.Name)
		case x.Ptr == 0 && x.Bytes > 0:
			return r, fmt.Errorf("%w: %.80q has %d bytes and no memory", ErrArgument, x.Name, x.Bytes)
		}
		total += x.Bytes
	}
	sortPieces(pieces)
	steps := o.limits.plan(pieces)
	l := &load{reader: newReader(t, &o), staging: staging(steps), files: []loadFile{{steps: steps, memory: &memory{}}}}
	if err := fits([]Target{t}, []int64{l.needs()}, []string{"casting"}); err != nil {
		return r, err
	}
	done := int64(0)
	err = l.run(ctx, func(j job, f transfer.FileReport) {
		r.add(f)
		done += j.want
		if o.Progress != nil {
			o.Progress(done, total)
		}
	})
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		return r, err
	}
	if o.Progress != nil && total == 0 {
		o.Progress(0, 0)
	}
	r.Tensors, r.Bytes, r.Wall = len(tensors), total, time.Since(began)
	return r, nil
}
