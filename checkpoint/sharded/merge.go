package sharded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/pinion-gpu/pinion/safetensors"
)

// Merge writes all values, whole, for programs that know nothing of ranks: to a file if path
// ends in ".safetensors", or else to a new folder, in shards if there are many bytes
// ([safetensors.CreateFolder]). It takes some megabytes of memory. All of it is there,
// durable, or nothing is.
func (ck *Checkpoint) Merge(ctx context.Context, path string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("sharded: merge %s: %w", ck.folder, err)
		}
	}()
	list := make([]safetensors.Tensor, len(ck.names))
	for i, v := range ck.Values() {
		list[i] = safetensors.Tensor{Name: v.Name, DType: v.Type, Shape: v.Shape}
	}
	create := safetensors.CreateFolder
	if strings.HasSuffix(path, ".safetensors") {
		create = safetensors.Create
	}
	w, err := create(path, list, safetensors.WriterOptions{Metadata: map[string]string{"format": "pt"}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Discard()) }()
	for _, t := range w.Tensors() {
		if err := w.WriteFrom(t.Name, &reader{ctx: ctx, ck: ck, name: t.Name, size: t.DType.Bits() / 8, left: t.Elements()}); err != nil {
			return err
		}
	}
	return w.Commit()
}

// reader reads a value from its first element on.
type reader struct {
	ctx              context.Context
	ck               *Checkpoint
	name             string
	size, from, left int64 // bytes of an element, and elements
	buffer, rest     []byte
}

func (r *reader) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		if r.left == 0 {
			return 0, io.EOF
		}
		n := min(r.left, (4<<20)/r.size)
		if r.buffer == nil {
			r.buffer = make([]byte, n*r.size)
		}
		r.rest = r.buffer[:n*r.size]
		if err := r.ck.Read(r.ctx, r.name, r.from, r.rest); err != nil {
			r.rest = nil
			return 0, err
		}
		r.from, r.left = r.from+n, r.left-n
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}
