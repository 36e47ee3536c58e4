package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/pinion-gpu/pinion/safetensors"
	"github.com/pinion-gpu/pinion/transfer"
)

// SaveOptions tune [Save].
type SaveOptions struct {
	safetensors.WriterOptions

	// Progress, if set, is called with the bytes written so far, by one
	// goroutine at a time, the last time with done == total.
	Progress func(done, total int64)
}

// Save writes tensors from device memory to a file, if path ends in
// ".safetensors", or else to a new folder, in shards if there are many bytes
// ([safetensors.CreateFolder]). A tensor's Target says of which of targets its
// memory is. All of it is there, durable, or nothing is. Work that writes the
// tensors must be done. It fails as [safetensors.Create] and
// [transfer.Engine.WriteFile] do.
func Save(ctx context.Context, path string, tensors []Tensor, o SaveOptions, targets ...Target) (err error) {
	defer func() {
		if err != nil {
			err = about(ctx, err)
		}
	}()
	if err := checkTargets(targets); err != nil {
		return err
	}
	byName := make(map[string]Tensor, len(tensors))
	described := make([]safetensors.Tensor, len(tensors))
	for i, t := range tensors {
		if t.Target < 0 || t.Target >= len(targets) {
			return fmt.Errorf("%w: %.80q is on target %d of %d", ErrArgument, t.Name, t.Target, len(targets))
		}
		byName[t.Name] = t
		described[i] = safetensors.Tensor{Name: t.Name, DType: t.DType, Shape: t.Shape}
	}
	create := safetensors.CreateFolder
	if strings.HasSuffix(path, ".safetensors") {
		create = safetensors.Create
	}
	w, err := create(path, described, o.WriterOptions)
	if err != nil {
		return err
	}
	defer func() {
		if discardErr := w.Discard(); discardErr != nil {
			err = errors.Join(err, discardErr)
		}
	}()

	places := w.Tensors()
	total := int64(0)
	for _, t := range places {
		if have := byName[t.Name].Bytes; have != t.Bytes {
			return fmt.Errorf("%w: %.80q has %d bytes, shape %d and type %s need %d", ErrArgument, t.Name, have, t.Shape, t.DType, t.Bytes)
		}
		total += t.Bytes
	}
	writing, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var mu sync.Mutex
	done := int64(0)
	var all sync.WaitGroup
	for range min(defaultLimits.parallel, len(places)) {
		all.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(places) || writing.Err() != nil {
					return
				}
				t := byName[places[i].Name]
				err := w.Place(t.Name, func(f *os.File, place safetensors.Tensor) error {
					_, err := targets[t.Target].Engine.WriteFile(writing, transfer.FileCopy{File: f, Offset: place.Offset, Bytes: place.Bytes, Device: t.Ptr})
					return err
				})
				if err != nil {
					cancel(err)
					return
				}
				mu.Lock()
				done += t.Bytes
				if o.Progress != nil {
					o.Progress(done, total)
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if err := context.Cause(writing); err != nil {
		return err
	}
	return w.Commit()
}
