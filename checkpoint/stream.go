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

// StreamOptions tune a [Stream]. Place is not used, and Progress counts the
// bytes of all layers.
type StreamOptions struct {
	Options

	// Layers are what is streamed, in this order; a layer may come more than
	// once. Default: [Layers] of the tensors that Keep keeps.
	Layers []Layer

	// Buffers is how many layers are in device memory at once: one is at work
	// and the others are loaded ahead. Each buffer is as large as the largest
	// layer; there are no more of them than layers. Range: 1 and more. Default: 2.
	Buffers int

	// Budget is the most bytes of device memory that the buffers may take.
	// Default: what the device has free, or what the target's pool gives.
	Budget int64

	// On is the stream on which the caller queues work that uses a layer: the
	// layer's buffer is filled again when that work is done. Default: none;
	// then all work must be done when the body of the loop ends.
	On device.Stream

	// Report, if set, is filled in when the loop ends. Its Wall includes what
	// the loop's body took, its DeviceBytes are those of the buffers.
	Report *Report
}

// Loaded is a layer in device memory.
type Loaded struct {
	Name    string
	Tensors []Tensor
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
//	for layer, err := range checkpoint.Stream(ctx, ck, checkpoint.StreamOptions{On: stream}, target) {
//		if err != nil {
//			return err
//		}
//		// queue work on stream that uses layer.Tensors
//	}
//
// A layer is valid until the body of the loop ends, and for work that is queued
// on o.On by then. While it is at work the next ones are loaded. Memory is bound
// by o.Buffers; it is freed when the loop ends. An error is the last thing that
// the loop gets: [device.ErrOutOfMemory] where the buffers do not fit, and else
// as for [Load].
func Stream(ctx context.Context, ck *safetensors.Checkpoint, o StreamOptions, t Target) iter.Seq2[*Loaded, error] {
	return func(yield func(*Loaded, error) bool) {
		stopped := false
		err := stream(ctx, ck, o, t, func(l *Loaded) bool {
			stopped = !yield(l, nil)
			return !stopped
		})
		if err != nil && !stopped {
			yield(nil, about(ctx, err))
		}
	}
}

// streamer loads layers ahead of their use.
type streamer struct {
	*reader
	layers  []streamed
	total   int64
	staging int64 // bytes that each worker needs to cast
	buffers []*streamBuffer
	on      device.Stream
	report  Report // of the layers that were loaded
}

// streamed is a layer and its places in a buffer.
type streamed struct {
	name   string
	pieces []piece
	size   int64
	steps  []step
}

// streamBuffer is device memory that layers take turns in.
type streamBuffer struct {
	memory *memory
	used   device.Event // behind the work on the layer in it; nil: there is none
}

// ready is a layer that is there.
type ready struct {
	layer  *Loaded
	buffer *streamBuffer
}

func stream(ctx context.Context, ck *safetensors.Checkpoint, o StreamOptions, t Target, yield func(*Loaded) bool) (err error) {
	s, err := newStreamer(ck, &o, t)
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
	var loader sync.WaitGroup
	defer func() { // also when yield panics
		cancel()
		loader.Wait()
	}()
	free := make(chan *streamBuffer, len(s.buffers))
	for _, b := range s.buffers {
		free <- b
	}
	layers := make(chan ready, len(s.buffers))
	var failed error
	loader.Go(func() {
		defer close(layers)
		failed = s.load(loading, o.Progress, free, layers)
	})
	for r := range layers {
		if !yield(r.layer) {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if s.on != nil {
			if err := s.on.Record(r.buffer.used); err != nil {
				return err
			}
		}
		free <- r.buffer
	}
	return failed
}

func newStreamer(ck *safetensors.Checkpoint, o *StreamOptions, t Target) (*streamer, error) {
	if err := checkTargets([]Target{t}); err != nil {
		return nil, err
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.Buffers < 0 || o.Budget < 0 {
		return nil, fmt.Errorf("%w: %d buffers, a budget of %d bytes", ErrArgument, o.Buffers, o.Budget)
	}
	layers := o.Layers
	if layers == nil {
		layers = Layers(o.kept(ck.Tensors()))
	}
	if err := checkLayers(layers); err != nil {
		return nil, err
	}
	s := &streamer{reader: newReader(t, &o.Options), on: o.On}
	for _, l := range layers {
		pieces, size := o.layout(l.Tensors)
		steps := o.limits.plan(pieces)
		s.staging = max(s.staging, staging(steps))
		s.layers = append(s.layers, streamed{l.Name, pieces, size, steps})
		s.total += l.Bytes()
	}
	return s, nil
}

// alloc takes the buffers.
func (s *streamer) alloc(ctx context.Context, o *StreamOptions) error {
	largest := streamed{}
	for _, l := range s.layers {
		if l.size > largest.size {
			largest = l
		}
	}
	buffers := min(cmp.Or(o.Buffers, 2), len(s.layers))
	need := int64(buffers)*largest.size + s.staging*int64(len(s.workers))
	what := fmt.Sprintf("streaming with %s of %s, for layer %.80q,", units.Count(buffers, "buffer"), units.Bytes(largest.size), largest.name)
	if o.Budget > 0 && need > o.Budget {
		return fmt.Errorf("%w: %s needs %s, the budget is %s", device.ErrOutOfMemory, what, units.Bytes(need), units.Bytes(o.Budget))
	}
	if err := s.target.fits(need, what); err != nil {
		return err
	}
	if err := s.prepare(ctx, s.staging); err != nil {
		return err
	}
	for range buffers {
		b := &streamBuffer{}
		s.buffers = append(s.buffers, b)
		var err error
		if b.memory, err = s.target.alloc(ctx, largest.size, "streamed layers", false); err != nil {
			return err
		}
		s.report.DeviceBytes += largest.size
		if s.on != nil {
			if b.used, err = s.dev.NewEvent(device.EventNoTiming); err != nil {
				return err
			}
		}
	}
	return nil
}

// flight is a layer that is being loaded.
type flight struct {
	ready
	left int // steps
}

// load fills buffers as they become free, and hands out layers in their order.
// There are as many buffers as layers has room for.
func (s *streamer) load(ctx context.Context, progress func(done, total int64), free <-chan *streamBuffer, layers chan<- ready) error {
	var mu sync.Mutex
	var flights []*flight // in their order; nil those that were handed out
	next, bytes := 0, int64(0)
	handOut := func() {
		for next < len(flights) && flights[next].left == 0 {
			s.report.Tensors += len(flights[next].layer.Tensors)
			layers <- flights[next].ready
			flights[next] = nil
			next++
		}
	}
	return s.run(ctx, func(ctx context.Context, yield func(job)) error {
		for i, l := range s.layers {
			var b *streamBuffer
			select {
			case b = <-free:
			case <-ctx.Done():
				return ctx.Err()
			}
			if b.used != nil {
				if err := device.Wait(ctx, b.used); err != nil {
					return err
				}
			}
			mu.Lock()
			flights = append(flights, &flight{ready{&Loaded{l.name, tensorsAt(l.pieces, b.memory.ptr, 0)}, b}, len(l.steps)})
			handOut() // where there is nothing to load
			mu.Unlock()
			for _, step := range l.steps {
				yield(job{step, b.memory.ptr, i})
			}
		}
		return nil
	}, func(j job, f transfer.FileReport) {
		mu.Lock()
		defer mu.Unlock()
		s.report.add(f)
		bytes += j.want
		s.report.Bytes = bytes
		if progress != nil {
			progress(bytes, s.total)
		}
		flights[j.layer].left--
		handOut()
	})
}

// close waits for the work on the buffers, also that of a loop's body that ended
// the loop, and frees them.
func (s *streamer) close() error {
	var all []error
	if s.on != nil {
		all = append(all, s.on.Synchronize())
	}
	for _, b := range s.buffers {
		if b.used != nil {
			all = append(all, b.used.Close())
		}
		if b.memory != nil {
			all = append(all, b.memory.free())
		}
	}
	return errors.Join(append(all, s.reader.close())...)
}
