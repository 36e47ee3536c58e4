package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/safetensors"
	"github.com/pinion-gpu/pinion/transfer"
)

// StreamOptions tune a [Stream]. Progress counts the bytes of all layers.
type StreamOptions struct {
	// Options are those of [Load], but that Place is asked for each layer, by
	// its name. Default: the layers go to the targets in turn, so that all links
	// are busy at once.
	Options

	// Layers are what is streamed, in this order; a layer may come more than
	// once. Default: [Layers] of the tensors that Keep keeps.
	Layers []Layer

	// Buffers is how many layers are in the memory of each device at once: one
	// is at work and the others are loaded ahead. Each buffer is as large as the
	// largest layer that goes there; there are no more of them than layers.
	// Range: 1 and more. Default: 2.
	Buffers int

	// Budget is the most bytes of memory that the buffers may take on each
	// device. Default: what the device has free, or what the target's pool
	// gives.
	Budget int64

	// On are the streams, one for each target, on which the caller queues work
	// that uses a layer: the layer's buffer is filled again when that work is
	// done. Default: none; then all work must be done when the body of the loop
	// ends.
	On []device.Stream

	// Report, if set, is filled in when the loop ends. Its Wall includes what
	// the loop's body took, its DeviceBytes are those of the buffers.
	Report *Report
}

// Loaded is a layer in device memory.
type Loaded struct {
	Name    string
	Tensors []Tensor
	Target  int // the target whose device it is on
}

// Find returns the tensor of that name.
func (l *Loaded) Find(name string) (Tensor, bool) {
	for _, t := range l.Tensors {
		if t.Name == name {
			return t, true
		}
	}
	return Tensor{}, false
}

// Stream brings the layers of ck into device memory, one after the other, for
// models that do not fit:
//
//	for layer, err := range checkpoint.Stream(ctx, ck, checkpoint.StreamOptions{On: streams}, target) {
//		if err != nil {
//			return err
//		}
//		// queue work on streams[layer.Target] that uses layer.Tensors
//	}
//
// A layer is valid until the body of the loop ends, and for work that is queued
// on its target's stream of o.On by then. While it is at work the next ones are
// loaded, to all targets. Memory is bound by o.Buffers; it is freed when the loop
// ends. An error is the last thing that the loop gets: [device.ErrOutOfMemory]
// where the buffers do not fit, and else as for [Load].
func Stream(ctx context.Context, ck *safetensors.Checkpoint, o StreamOptions, targets ...Target) iter.Seq2[*Loaded, error] {
	return func(yield func(*Loaded, error) bool) {
		stopped := false
		err := stream(ctx, ck, o, targets, func(l *Loaded) bool {
			stopped = !yield(l, nil)
			return !stopped
		})
		if err != nil && !stopped {
			yield(nil, about(ctx, err))
		}
	}
}

// streamer brings layers, which come on one lane for each target.
type streamer struct {
	lanes []*lane
	order []*lane // of each layer
	total int64

	mu       sync.Mutex // for what follows
	progress func(done, total int64)
	report   Report // of the layers that were loaded
}

func stream(ctx context.Context, ck *safetensors.Checkpoint, o StreamOptions, targets []Target, yield func(*Loaded) bool) (err error) {
	s, err := newStreamer(ck, &o, targets)
	if err != nil {
		return err
	}
	began := time.Now()
	if o.Report != nil {
		defer func() {
			s.report.Wall = time.Since(began)
			*o.Report = s.report
		}()
	}
	defer func() {
		if closeErr := s.close(); closeErr != nil {
			err = errors.Join(err, closeErr)
		}
	}()
	if err := s.alloc(ctx, &o); err != nil {
		return err
	}

	loading, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer func() { // also when yield panics
		cancel()
		all.Wait()
	}()
	errs := make([]error, len(s.lanes))
	for i, l := range s.lanes {
		all.Go(func() {
			defer close(l.ready)
			if errs[i] = l.load(loading); errs[i] != nil {
				cancel() // the other lanes too
			}
		})
	}
	for _, l := range s.order {
		r, ok := <-l.ready
		if !ok {
			break
		}
		if !yield(r.layer) {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if l.on != nil {
			if err := l.on.Record(r.buffer.used); err != nil {
				return err
			}
		}
		l.free <- r.buffer
	}
	all.Wait()
	return cause(errs)
}

func newStreamer(ck *safetensors.Checkpoint, o *StreamOptions, targets []Target) (*streamer, error) {
	if err := checkTargets(targets); err != nil {
		return nil, err
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	switch {
	case o.Buffers < 0 || o.Budget < 0:
		return nil, fmt.Errorf("%w: %d buffers, a budget of %d bytes", ErrArgument, o.Buffers, o.Budget)
	case len(o.On) > 0 && len(o.On) != len(targets):
		return nil, fmt.Errorf("%w: On has %s for %s", ErrArgument, units.Count(len(o.On), "stream"), units.Count(len(targets), "target"))
	}
	layers := o.Layers
	if layers == nil {
		layers = Layers(o.kept(ck.Tensors()))
	}
	if err := checkLayers(layers); err != nil {
		return nil, err
	}
	s := &streamer{progress: o.Progress}
	for i, t := range targets {
		l := &lane{reader: newReader(t, &o.Options), all: s, target: i}
		if len(o.On) > 0 {
			l.on = o.On[i]
		}
		s.lanes = append(s.lanes, l)
	}
	for i, layer := range layers {
		target := i % len(targets)
		if o.Place != nil {
			target = o.Place(layer.Name)
		}
		if err := checkPlace(target, layer.Name, len(targets)); err != nil {
			return nil, err
		}
		s.order = append(s.order, s.lanes[target])
		s.lanes[target].add(layer, &o.Options)
		s.total += layer.Bytes()
	}
	return s, nil
}

// alloc takes the buffers.
func (s *streamer) alloc(ctx context.Context, o *StreamOptions) error {
	var targets []Target
	var needs []int64
	var what []string
	for _, l := range s.lanes {
		buffers := min(cmp.Or(o.Buffers, 2), len(l.layers))
		largest := l.largest()
		need := int64(buffers)*largest.size + l.staging*int64(len(l.workers))
		text := fmt.Sprintf("streaming with %s of %s, for layer %.80q,", units.Count(buffers, "buffer"), units.Bytes(largest.size), largest.name)
		if o.Budget > 0 && need > o.Budget {
			return fmt.Errorf("%w: %s needs %s, the budget is %s", device.ErrOutOfMemory, text, units.Bytes(need), units.Bytes(o.Budget))
		}
		l.buffers = make([]*streamBuffer, buffers)
		targets, needs, what = append(targets, l.reader.target), append(needs, need), append(what, text)
	}
	if err := fits(targets, needs, what); err != nil {
		return err
	}
	for _, l := range s.lanes {
		if err := l.alloc(ctx); err != nil {
			return err
		}
	}
	return nil
}

// done counts what a lane has read.
func (s *streamer) done(bytes int64, f transfer.FileReport) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.report.add(f)
	s.report.Bytes += bytes
	if s.progress != nil {
		s.progress(s.report.Bytes, s.total)
	}
}

// close waits for the work on the buffers, also that of a loop's body that ended
// the loop, and frees them.
func (s *streamer) close() error {
	var all []error
	for _, l := range s.lanes {
		all = append(all, l.close())
	}
	return errors.Join(all...)
}
