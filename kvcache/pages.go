package kvcache

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/pinned"
	"github.com/pinion-gpu/pinion/transfer"
	"github.com/pinion-gpu/pinion/vram"
)

// Pages is the memory of a cache, for one goroutine at a time: its blocks on the device, one behind the other, and those on
// the host, in pinned memory. What is in a block is the caller's: usually keys and values of
// BlockTokens tokens, of all layers.
type Pages struct {
	engine *transfer.Engine
	bytes  int64 // of a block
	block  vram.Block
	owned  bool // the block is there
	host   *pinned.Buffer
	device transfer.Memory
	mapped transfer.Memory
	lanes  [2]lane
	begin  device.Event
	order  order
	failed error // why blocks hold nothing that anybody knows
	blocks [kinds][]transfer.Block
}

// lane is a stream of copies. The first takes blocks to the host, the second all others.
type lane struct {
	stream device.Stream
	mark   device.Event
}

// PagesOptions says where a cache has its memory.
type PagesOptions struct {
	Pool       *vram.Pool   // gives the device's
	Pinned     *pinned.Pool // and the host's; may be nil where there are no blocks on the host
	BlockBytes int64        // of a block; what is no multiple of 16 is copied slowly
}

// OpenPages allocates the memory of a cache. The engine's device is that of the pool. Close the
// pages when all work with them is done.
func OpenPages(ctx context.Context, c *Cache, engine *transfer.Engine, o PagesOptions) (_ *Pages, err error) {
	if engine == nil || o.Pool == nil || o.BlockBytes < 1 || o.BlockBytes > math.MaxInt64/int64(c.o.Blocks+c.o.HostBlocks) || c.o.HostBlocks > 0 && o.Pinned == nil {
		return nil, fmt.Errorf("kvcache: %w: pages need an engine, pools and blocks of some bytes", ErrArgument)
	}
	dev := engine.Device()
	if !device.Same(dev, o.Pool.Device()) {
		return nil, fmt.Errorf("kvcache: %w: the engine is on %s, the pool on %s", ErrArgument, dev.Info().ID, o.Pool.Device().Info().ID)
	}
	p := &Pages{engine: engine, bytes: o.BlockBytes, order: newOrder(c.o.Blocks, c.o.HostBlocks, max(1, int(groupBytes/o.BlockBytes)))}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	n := int64(c.o.Blocks) * o.BlockBytes
	if p.block, err = o.Pool.Alloc(ctx, n, vram.Use{Purpose: vram.KVCache, Name: "blocks"}); err != nil {
		return nil, fmt.Errorf("kvcache: %w", err)
	}
	p.owned, p.device = true, transfer.Device(p.block.Ptr(), n)
	if c.o.HostBlocks > 0 {
		if p.host, err = o.Pinned.Alloc(ctx, int64(c.o.HostBlocks)*o.BlockBytes); err != nil {
			return nil, fmt.Errorf("kvcache: %w", err)
		}
		p.mapped = transfer.Host(p.host.Bytes())
	}
	for i := range p.lanes {
		l := &p.lanes[i]
		if l.stream, err = dev.NewStream(); err != nil {
			return nil, fmt.Errorf("kvcache: %w", err)
		}
		if l.mark, err = dev.NewEvent(device.EventNoTiming); err != nil {
			return nil, fmt.Errorf("kvcache: %w", err)
		}
	}
	if p.begin, err = dev.NewEvent(device.EventNoTiming); err != nil {
		return nil, fmt.Errorf("kvcache: %w", err)
	}
	return p, nil
}

// Ptr is where the blocks on the device begin.
func (p *Pages) Ptr() device.Ptr { return p.block.Ptr() }

// groupBytes are queued in one direction before the other direction begins, so that both are
// busy while blocks change places.
const groupBytes = 32 << 20

// Copy queues copies of [Cache.TakeCopies], behind what is queued on s, and before what is
// queued there later. It returns before they are done, as transfer's copies on a stream do.
// Blocks go in both directions at once. The scheduler makes one call at a time.
//
// A context that has ended already is its error, with nothing queued: the same copies can be
// given again, and have to be before any others. It does not stop copies that are begun. After
// another error nobody knows what blocks hold: Copy fails from then on, and the cache and the
// pages have to be made anew.
func (p *Pages) Copy(ctx context.Context, s device.Stream, copies []Copy) error {
	switch {
	case p.failed != nil:
		return p.failed
	case s == nil:
		return fmt.Errorf("kvcache: copies: %w: no stream", ErrArgument)
	}
	if err := ctx.Err(); err != nil || len(copies) == 0 {
		return err
	}
	for _, c := range copies {
		if !p.order.has(c.From) || !p.order.has(c.To) || c.From.Host && c.To.Host {
			return fmt.Errorf("kvcache: copies: %w: %+v", ErrArgument, c)
		}
	}
	if p.failed = p.copy(context.WithoutCancel(ctx), s, copies); p.failed != nil {
		p.failed = fmt.Errorf("kvcache: copies: %w", p.failed)
	}
	return p.failed
}

func (p *Pages) copy(ctx context.Context, s device.Stream, copies []Copy) error {
	err := s.Record(p.begin)
	for i := range p.lanes {
		err = errors.Join(err, p.lanes[i].stream.Wait(p.begin))
	}
	for rest := copies; len(rest) > 0 && err == nil; {
		g := p.order.next(rest)
		err = p.group(ctx, rest[:g.n], g)
		rest = rest[g.n:]
	}
	// Also after an error, what was queued comes first: on s, and in the next call.
	out, in := &p.lanes[0], &p.lanes[1]
	p.order.reset()
	return errors.Join(err, out.stream.Record(out.mark), in.stream.Record(in.mark),
		s.Wait(out.mark), s.Wait(in.mark), out.stream.Wait(in.mark), in.stream.Wait(out.mark))
}

// group queues copies of which those of a kind may go together.
func (p *Pages) group(ctx context.Context, copies []Copy, g group) error {
	for k := range p.blocks {
		p.blocks[k] = p.blocks[k][:0]
	}
	for _, c := range copies {
		k := kindOf(c)
		p.blocks[k] = append(p.blocks[k], transfer.Block{Dst: int64(c.To.Number) * p.bytes, Src: int64(c.From.Number) * p.bytes, Bytes: p.bytes})
	}
	out, in := &p.lanes[0], &p.lanes[1]
	if g.outWaits {
		if err := errors.Join(in.stream.Record(in.mark), out.stream.Wait(in.mark)); err != nil {
			return err
		}
	}
	batch := func(k kind, dst, src transfer.Memory, l *lane) error {
		if len(p.blocks[k]) == 0 {
			return nil
		}
		return p.engine.Batch(ctx, transfer.Batch{Dst: dst, Src: src, Blocks: p.blocks[k], On: l.stream})
	}
	if err := batch(toHost, p.mapped, p.device, out); err != nil {
		return err
	}
	if g.inWaits {
		if err := errors.Join(out.stream.Record(out.mark), in.stream.Wait(out.mark)); err != nil {
			return err
		}
	}
	return errors.Join(batch(toDevice, p.device, p.mapped, in), batch(within, p.device, p.device, in))
}

// Close waits for copies and frees the memory. A second Close does nothing.
func (p *Pages) Close() error {
	if p.failed == nil {
		p.failed = fmt.Errorf("kvcache: %w: the pages", ErrClosed)
	}
	var all []error
	for i := range p.lanes {
		l := &p.lanes[i]
		if l.stream != nil {
			all = append(all, l.stream.Synchronize(), l.stream.Close())
		}
		if l.mark != nil {
			all = append(all, l.mark.Close())
		}
		*l = lane{}
	}
	if p.begin != nil {
		all = append(all, p.begin.Close())
		p.begin = nil
	}
	if p.host != nil {
		all = append(all, p.host.Free())
		p.host = nil
	}
	if p.owned {
		all = append(all, p.block.Free())
		p.owned = false
	}
	return errors.Join(all...)
}
