package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/safetensors"
	"github.com/pinion-gpu/pinion/transfer"
)

// Weights are tensors in device memory.
type Weights struct {
	tensors []Tensor
	byName  map[string]int
	memory  []*memory
	report  Report

	mu sync.Mutex
}

// Report tells what was loaded and how.
type Report struct {
	Tensors     int
	Bytes       int64 // of the tensors in their files
	DeviceBytes int64 // allocated for them

	// Wall is the time from before the memory was allocated until all of the
	// tensors were there.
	Wall time.Duration

	// CachedBytes to CuFileBytes are bytes read, by the way they took, as in
	// [transfer.FileReport]. They are a little more than Bytes where gaps
	// between tensors were read too.
	CachedBytes, DirectBytes, MappedBytes, CuFileBytes int64

	// Notes say, in a sentence each, why a faster way was not taken.
	Notes []string
}

func (r *Report) add(f transfer.FileReport) {
	r.CachedBytes += f.CachedBytes
	r.DirectBytes += f.DirectBytes
	r.MappedBytes += f.MappedBytes
	r.CuFileBytes += f.CuFileBytes
	for _, note := range f.Notes {
		if !slices.Contains(r.Notes, note) {
			r.Notes = append(r.Notes, note)
		}
	}
}

// Load brings the tensors of ck into device memory and returns when they are
// there. ck may then be closed; the memory is the caller's until
// [Weights.Close]. It fails with [ErrArgument] for bad options,
// [device.ErrOutOfMemory] where a target has too little memory, before anything
// is allocated, with [io.ErrUnexpectedEOF] where a file has shrunk, and with
// ctx's error. After an error nothing stays allocated.
func Load(ctx context.Context, ck *safetensors.Checkpoint, o Options, targets ...Target) (w *Weights, err error) {
	defer func() {
		if err != nil {
			err = about(ctx, err)
		}
	}()
	if err := checkTargets(targets); err != nil {
		return nil, err
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	began := time.Now()
	kept := o.kept(ck.Tensors())
	loads, err := spreadOver(kept, &o, targets)
	if err != nil {
		return nil, err
	}
	total := int64(0)
	for _, t := range kept {
		total += t.Bytes
	}
	w = &Weights{byName: map[string]int{}}
	defer func() {
		if err != nil {
			if closeErr := w.Close(); closeErr != nil {
				err = errors.Join(err, closeErr)
			}
			w = nil
		}
	}()
	for i, l := range loads {
		if err := l.alloc(ctx, w, i); err != nil {
			return w, err
		}
	}

	var mu sync.Mutex
	done := int64(0)
	errs := make([]error, len(loads))
	loading, cancel := context.WithCancel(ctx)
	defer cancel()
	var all sync.WaitGroup
	for i, l := range loads {
		all.Go(func() {
			errs[i] = l.run(loading, func(j job, f transfer.FileReport) {
				mu.Lock()
				defer mu.Unlock()
				w.report.add(f)
				done += j.want
				if o.Progress != nil {
					o.Progress(done, total)
				}
			})
			if errs[i] != nil {
				cancel()
			}
		})
	}
	all.Wait()
	if err := ctx.Err(); err != nil {
		return w, err
	}
	if err := cause(errs); err != nil {
		return w, err
	}
	if o.Progress != nil && total == 0 {
		o.Progress(0, 0)
	}
	w.order(kept)
	w.report.Tensors, w.report.Bytes, w.report.Wall = len(w.tensors), total, time.Since(began)
	return w, nil
}

// spreadOver says what each target loads. Where targets that are to have about
// the same have not the same room, those with more get more.
func spreadOver(tensors []safetensors.Tensor, o *Options, targets []Target) ([]*load, error) {
	same := make([]float64, len(targets))
	for i := range same {
		same[i] = 1
	}
	loads, err := o.loads(tensors, targets, same)
	if len(targets) == 1 || o.Place != nil || !errors.Is(err, device.ErrOutOfMemory) {
		return loads, err
	}
	room := make([]float64, len(targets))
	for i, t := range targets {
		m, memoryErr := t.Engine.Device().Memory()
		if memoryErr != nil || t.Pool != nil {
			return nil, err
		}
		room[i] = float64(m.FreeBytes)
	}
	loads, again := o.loads(tensors, targets, room)
	if again != nil {
		return nil, err
	}
	return loads, nil
}

// loads gives each target a share of the tensors, and fails where it has no
// room for it.
func (o *Options) loads(tensors []safetensors.Tensor, targets []Target, weights []float64) ([]*load, error) {
	shares, err := o.place(tensors, weights)
	if err != nil {
		return nil, err
	}
	loads := make([]*load, len(targets))
	needs, what := make([]int64, len(targets)), make([]string, len(targets))
	for i, t := range targets {
		loads[i] = newLoad(t, shares[i], o)
		needs[i], what[i] = loads[i].needs(), "loading "+units.Count(len(shares[i]), "tensor")
	}
	return loads, fits(targets, needs, what)
}

// about says whose error it is, unless it is ctx's own.
func about(ctx context.Context, err error) error {
	if err == ctx.Err() {
		return err
	}
	return fmt.Errorf("checkpoint: %w", err)
}

// cause returns what went wrong on one of several targets: not what the others
// were stopped by, if there is more.
func cause(errs []error) (err error) {
	for _, e := range errs {
		if err == nil || errors.Is(err, context.Canceled) && e != nil && !errors.Is(e, context.Canceled) {
			err = e
		}
	}
	return err
}

// load is what one target gets.
type load struct {
	*reader
	files   []loadFile
	staging int64 // bytes that each worker needs to cast
}

// loadFile is a file's share of a target.
type loadFile struct {
	pieces []piece
	size   int64
	steps  []step
	memory *memory
}

func newLoad(t Target, tensors []safetensors.Tensor, o *Options) *load {
	l := &load{reader: newReader(t, o)}
	byFile := map[*safetensors.File]int{}
	var shares [][]safetensors.Tensor
	for _, x := range tensors {
		i, ok := byFile[x.File]
		if !ok {
			i = len(shares)
			byFile[x.File] = i
			shares = append(shares, nil)
		}
		shares[i] = append(shares[i], x)
	}
	for _, share := range shares {
		f := loadFile{}
		f.pieces, f.size = o.layout(share)
		f.steps = o.limits.plan(f.pieces)
		l.staging = max(l.staging, staging(f.steps))
		l.files = append(l.files, f)
	}
	return l
}

// needs is how much memory it takes, with that for casting.
func (l *load) needs() int64 {
	n := l.staging * int64(len(l.workers))
	for _, f := range l.files {
		n += f.size
	}
	return n
}

func (l *load) alloc(ctx context.Context, w *Weights, target int) (err error) {
	for i := range l.files {
		f := &l.files[i]
		name := filepath.Base(f.pieces[0].File.Path())
		if f.memory, err = l.target.alloc(ctx, f.size, name, false); err != nil {
			return err
		}
		w.memory = append(w.memory, f.memory)
		w.report.DeviceBytes += f.size
		w.tensors = append(w.tensors, tensorsAt(f.pieces, f.memory.ptr, target)...)
	}
	return nil
}

func (l *load) run(ctx context.Context, done func(job, transfer.FileReport)) (err error) {
	defer func() { err = errors.Join(err, l.close()) }()
	if err := l.prepare(ctx, l.staging); err != nil {
		return err
	}
	return l.reader.run(ctx, func(ctx context.Context, yield func(job)) error {
		for _, f := range l.files {
			for _, s := range f.steps {
				if err := ctx.Err(); err != nil {
					return err
				}
				yield(job{step: s, base: f.memory.ptr})
			}
		}
		return nil
	}, done)
}

// order puts the tensors in the order of the checkpoint.
func (w *Weights) order(kept []safetensors.Tensor) {
	at := make(map[string]int, len(kept))
	for i, t := range kept {
		at[t.Name] = i
	}
	slices.SortFunc(w.tensors, func(a, b Tensor) int { return cmp.Compare(at[a.Name], at[b.Name]) })
	w.byName = at
}

// Tensors returns all tensors in the order of the checkpoint.
func (w *Weights) Tensors() []Tensor { return slices.Clone(w.tensors) }

// Find returns the tensor of that name.
func (w *Weights) Find(name string) (Tensor, bool) {
	i, ok := w.byName[name]
	if !ok {
		return Tensor{}, false
	}
	return w.tensors[i], true
}

// Report tells how the weights were loaded.
func (w *Weights) Report() Report { return w.report }

// Close frees the memory. Work that uses it must be done. A second Close does
// nothing.
func (w *Weights) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []error
	for _, m := range w.memory {
		all = append(all, m.free())
	}
	w.memory = nil
	return errors.Join(all...)
}
