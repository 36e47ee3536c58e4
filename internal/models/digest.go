package models

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"

	"github.com/pinion-gpu/pinion/step/graph"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/errs"
	"github.com/pinion-gpu/pinion/step"
)

// Digest sums the bits of tensors up where they lie, so that results of runs can be
// compared without a copy of each: one bit that differs makes another number.
type Digest struct {
	x *step.Executable
}

// OpenDigest makes a Digest of tensors of some shapes. Close it.
func OpenDigest(exec step.Executor, memory *step.Memory, shapes []graph.Shape) (*Digest, error) {
	b := &builder{g: graph.New("digest"), full: dtype.U32, narrow: dtype.U32}
	if err := b.attempt(func() { b.digest(shapes) }); err != nil {
		return nil, fmt.Errorf("models: digest: %w", err)
	}
	x, err := step.Compile(b.g, exec, step.Options{Memory: memory})
	if err != nil {
		return nil, err
	}
	return &Digest{x}, nil
}

// digest adds the sums: each element, as a number of 32 bits, times an odd one that is
// another for each place. An odd factor loses no bit of what two elements differ by.
func (b *builder) digest(shapes []graph.Shape) {
	word := map[int]dtype.DType{1: dtype.U8, 2: dtype.U16, 4: dtype.U32, 8: dtype.U32}
	var sums []graph.Value
	for i, s := range shapes {
		v := b.ok(b.g.Parameter(fmt.Sprint(i), s))
		n := s.Size() * max(s.Type.Size()/4, 1)
		if n == 0 {
			continue
		}
		if s.Type != dtype.Bool {
			v = b.ok(b.g.Bitcast(v, word[s.Type.Size()]))
		}
		v = b.as(dtype.U32, b.reshape(v, n))
		at := b.ok(b.g.Iota(graph.MakeShape(dtype.U32, n), 0))
		odd := b.add(b.times(at, 2), b.number(1))
		sums = append(sums, b.reshape(b.sum(b.mul(v, odd)), 1))
	}
	if len(sums) == 0 {
		b.must(fmt.Errorf("%w: there is nothing to sum up", errs.ErrArgument))
	}
	b.must(b.g.SetOutputs(b.ok(b.g.Concatenate(0, sums...))))
}

// Sum is a number for the content of tensors, which are on the device.
func (d *Digest) Sum(ctx context.Context, tensors []*step.Tensor) (sum uint64, err error) {
	out, err := d.x.Run(ctx, tensors, nil)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, out[0].Free()) }()
	data := make([]byte, out[0].Shape().Bytes())
	if err := out[0].Read(data); err != nil {
		return 0, err
	}
	h := fnv.New64a()
	_, _ = h.Write(data) // never fails
	return binary.BigEndian.Uint64(h.Sum(nil)), nil
}

// Close frees what the Digest holds.
func (d *Digest) Close() error { return d.x.Close() }
