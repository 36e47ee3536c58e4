package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/safetensors"
	"github.com/pinion-gpu/pinion/tier"
)

// StoreOptions tune [LoadStore].
type StoreOptions struct {
	// Keep says which tensors are loaded, by name. Default: all.
	Keep func(name string) bool

	// Layers are what arrays are made of. Default: [Layers] of the tensors
	// that Keep keeps.
	Layers []Layer

	// Progress, if set, is called with the bytes read so far, by one goroutine
	// at a time, the last time with done == total.
	Progress func(done, total int64)
}

// StoredLayer is a layer in a store.
type StoredLayer struct {
	Name   string
	Array  *tier.Array // nil for a layer without elements
	pieces []piece
}

// Tensors returns the layer's tensors on the device, for work under a lease of
// its array.
func (l *StoredLayer) Tensors(lease *tier.Lease) []Tensor {
	if l.Array == nil {
		return tensorsAt(l.pieces, 0, 0)
	}
	return tensorsAt(l.pieces, lease.Ptr(l.Array), 0)
}

// LoadStore reads the layers of ck into a store, one array for each, for models
// that do not fit on the device and are used more than once: [tier.Store] keeps on
// the device what fits, and the rest in host memory or files. [tier.Stream] runs
// layers in order. The arrays are the caller's. It fails as [Load] does, and as
// the store's calls do; then the arrays are freed.
func LoadStore(ctx context.Context, ck *safetensors.Checkpoint, o StoreOptions, store *tier.Store) (layers []*StoredLayer, err error) {
	l := &storeLoader{progress: o.Progress}
	defer func() {
		if err != nil {
			if freeErr := l.free(); freeErr != nil {
				err = errors.Join(err, freeErr)
			}
			err = about(ctx, err)
		}
	}()
	options := Options{Keep: o.Keep}
	if err := options.check(); err != nil {
		return nil, err
	}
	options.limits.small, options.limits.step = 0, storeChunk
	from := o.Layers
	if from == nil {
		from = Layers(options.kept(ck.Tensors()))
	}
	if err := checkLayers(from); err != nil {
		return nil, err
	}
	sizes, all := make([]int64, len(from)), int64(0)
	for i, layer := range from {
		pieces, size := options.layout(layer.Tensors)
		l.layers = append(l.layers, &StoredLayer{Name: layer.Name, pieces: pieces})
		l.steps = append(l.steps, options.limits.plan(pieces))
		l.total += layer.Bytes()
		sizes[i] = size
		all += size
	}
	for i, s := range l.layers {
		if sizes[i] == 0 {
			continue
		}
		s.Array, err = store.NewArray(s.Name, sizes[i])
		if errors.Is(err, tier.ErrNoRoom) {
			return nil, fmt.Errorf("%s with %s in all do not fit: %w", units.Count(len(from), "layer"), units.Bytes(all), err)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := l.run(ctx); err != nil {
		return nil, err
	}
	return l.layers, nil
}

// storeChunk is how much a goroutine reads at once.
const storeChunk = 4 << 20

// storeLoader fills arrays. An array has one writer at a time, so each is one
// goroutine's.
type storeLoader struct {
	layers   []*StoredLayer
	steps    [][]step // of each
	total    int64
	progress func(done, total int64)

	mu   sync.Mutex
	done int64
}

func (l *storeLoader) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var all sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), maxStoreReaders, len(l.layers)) {
		all.Go(func() {
			buffer := make([]byte, storeChunk)
			for i := int(next.Add(1)) - 1; i < len(l.layers) && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				for _, s := range l.steps[i] {
					if err := l.read(ctx, l.layers[i].Array, s, buffer[:s.bytes]); err != nil {
						cancel(err)
						return
					}
				}
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

const maxStoreReaders = 8

func (l *storeLoader) read(ctx context.Context, a *tier.Array, s step, buffer []byte) error {
	if err := s.readAt(buffer); err != nil {
		return err
	}
	if err := a.WriteAt(ctx, buffer, s.at); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done += s.bytes
	if l.progress != nil {
		l.progress(l.done, l.total)
	}
	return nil
}

// free frees the arrays.
func (l *storeLoader) free() error {
	var all []error
	for _, s := range l.layers {
		if s.Array != nil {
			all = append(all, s.Array.Free())
		}
	}
	return errors.Join(all...)
}
