package replay

import (
	"context"
	"errors"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/vram"
	"github.com/pinion-gpu/pinion/vram/trace"
)

// Pool replays on a [vram.Pool]. Each stream of the trace is a stream of the
// device; purposes are found by their names, and unknown ones are
// [vram.Other].
type Pool struct {
	pool    *vram.Pool
	streams streams
	blocks  slots[poolBlock]
}

type poolBlock struct {
	vram.Block
	stream int
}

// NewPool makes a pool on dev, which the caller has to close. It has one cache by
// default, so that a replay is the same from run to run. Errors are those of
// [vram.New].
func NewPool(dev device.Device, o vram.Options) (*Pool, error) {
	if o.Caches == 0 {
		o.Caches = 1
	}
	pool, err := vram.New(dev, o)
	if err != nil {
		return nil, err
	}
	return &Pool{pool: pool, streams: streams{dev: dev}}, nil
}

// Pool returns the pool, for its statistics and history. It is closed with p.
func (p *Pool) Pool() *vram.Pool { return p.pool }

// Alloc implements [Allocator].
func (p *Pool) Alloc(ctx context.Context, e trace.Event) (Handle, error) {
	stream, err := p.streams.get(e.Stream)
	if err != nil {
		return 0, err
	}
	use := vram.Use{Stream: stream, Name: e.Name}
	if e.Purpose != "" {
		use.Purpose, _ = vram.ParsePurpose(e.Purpose)
	}
	block, err := p.pool.Alloc(ctx, e.Bytes, use)
	if err != nil {
		return 0, err
	}
	return p.blocks.put(poolBlock{block, e.Stream}), nil
}

// Free implements [Allocator]. A free on another stream than the allocation's
// records that stream first.
func (p *Pool) Free(h Handle, e trace.Event) error {
	block, ok := p.blocks.take(h)
	if !ok {
		return errHandle
	}
	if e.Stream != block.stream {
		stream, err := p.streams.get(e.Stream)
		if err != nil {
			return err
		}
		if err := block.RecordStream(stream); err != nil {
			return err
		}
	}
	return block.Free()
}

// settle waits for the streams. There is no work on them but events.
func (p *Pool) settle() error { return p.streams.synchronize() }

// Reserved implements [Allocator].
func (p *Pool) Reserved() int64 { return p.pool.Reserved() }

// Counts implements [Allocator].
func (p *Pool) Counts() Counts {
	s := p.pool.Stats()
	return Counts{DriverCalls: s.Calls.Total(), Retries: s.Retries}
}

// Close implements [Allocator]. Blocks that are live are a [*vram.LeakError].
func (p *Pool) Close() error { return errors.Join(p.pool.Close(), p.streams.close()) }

var _ Allocator = (*Pool)(nil)
