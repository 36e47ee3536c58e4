package checkpoint

import (
	"context"
	"errors"
	"sync"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/transfer"
)

// lane loads the layers that go to one target, ahead of their use.
type lane struct {
	*reader
	all     *streamer
	target  int
	layers  []streamed
	staging int64 // bytes that each worker needs to cast
	buffers []*streamBuffer
	on      device.Stream // nil: none

	free  chan *streamBuffer // to be filled
	ready chan ready         // layers in their order; it has room for all buffers
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

func (l *lane) add(layer Layer, o *Options) {
	pieces, size := o.layout(layer.Tensors)
	steps := o.limits.plan(pieces)
	l.staging = max(l.staging, staging(steps))
	l.layers = append(l.layers, streamed{layer.Name, pieces, size, steps})
}

func (l *lane) largest() (largest streamed) {
	for _, s := range l.layers {
		if s.size > largest.size {
			largest = s
		}
	}
	return largest
}

// alloc makes the buffers.
func (l *lane) alloc(ctx context.Context) error {
	if err := l.prepare(ctx, l.staging); err != nil {
		return err
	}
	l.free, l.ready = make(chan *streamBuffer, len(l.buffers)), make(chan ready, len(l.buffers))
	size := l.largest().size
	for i := range l.buffers {
		b := &streamBuffer{}
		l.buffers[i] = b
		var err error
		if b.memory, err = l.reader.target.alloc(ctx, size, "streamed layers", false); err != nil {
			return err
		}
		l.all.report.DeviceBytes += size
		if l.on != nil {
			if b.used, err = l.dev.NewEvent(device.EventNoTiming); err != nil {
				return err
			}
		}
		l.free <- b
	}
	return nil
}

// flight is a layer that is being loaded.
type flight struct {
	ready
	left int // steps
}

// load fills buffers as they become free, and hands out layers in their order.
func (l *lane) load(ctx context.Context) error {
	var mu sync.Mutex
	var flights []*flight // in their order; nil those that were handed out
	next := 0
	handOut := func() {
		for next < len(flights) && flights[next].left == 0 {
			l.all.mu.Lock()
			l.all.report.Tensors += len(flights[next].layer.Tensors)
			l.all.mu.Unlock()
			l.ready <- flights[next].ready
			flights[next] = nil
			next++
		}
	}
	return l.run(ctx, func(ctx context.Context, yield func(job)) error {
		for i, s := range l.layers {
			var b *streamBuffer
			select {
			case b = <-l.free:
			case <-ctx.Done():
				return ctx.Err()
			}
			if b.used != nil {
				if err := device.Wait(ctx, b.used); err != nil {
					return err
				}
			}
			layer := &Loaded{Name: s.name, Tensors: tensorsAt(s.pieces, b.memory.ptr, l.target), Target: l.target}
			mu.Lock()
			flights = append(flights, &flight{ready{layer, b}, len(s.steps)})
			handOut() // where there is nothing to load
			mu.Unlock()
			for _, step := range s.steps {
				yield(job{step, b.memory.ptr, i})
			}
		}
		return nil
	}, func(j job, f transfer.FileReport) {
		l.all.done(j.want, f)
		mu.Lock()
		defer mu.Unlock()
		flights[j.layer].left--
		handOut()
	})
}

func (l *lane) close() error {
	var all []error
	if l.on != nil {
		all = append(all, l.on.Synchronize())
	}
	for _, b := range l.buffers {
		if b == nil {
			continue // alloc failed before
		}
		if b.used != nil {
			all = append(all, b.used.Close())
		}
		if b.memory != nil {
			all = append(all, b.memory.free())
		}
	}
	return errors.Join(append(all, l.reader.close())...)
}
