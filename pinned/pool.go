package pinned

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/callstack"
	"github.com/pinion-gpu/pinion/internal/live"
	"github.com/pinion-gpu/pinion/internal/numa"
	"github.com/pinion-gpu/pinion/internal/pagemem"
	"github.com/pinion-gpu/pinion/internal/sysmem"
)

// Options configure a [Pool]. The zero value is ready to use.
type Options struct {
	// Name says in statistics and errors what the pool is for. Default: none.
	Name string

	// Budget is the most memory, in bytes, that the pool holds at any time:
	// all its segments, in use or free, pageable ones included. Default: a
	// quarter of the memory that the process may still use when the pool is
	// made, or 256 MiB where that is unknown. Locked memory can be neither
	// swapped nor reclaimed, so what the pool takes is missing in the page
	// cache that feeds it and in the heap that fills it; a quarter leaves room
	// for both and for a second pool.
	Budget int64

	// SegmentBytes is the size of the segments that small requests share,
	// rounded up to whole pages. Requests of up to a quarter of it share, so
	// that requests of one size leave less than a fifth of a segment unused.
	// Default 8 MiB: four huge pages, the four 2 MiB slots of a copy ring,
	// and made in under a millisecond, so that neither the fixed cost of
	// locking nor a segment that is hardly used matters.
	SegmentBytes int64

	// Flags ask for properties of the memory. PinWriteCombined needs a device
	// that is a device.HostAllocator and is ignored on others.
	Flags device.PinFlags

	// AllowPageable makes the pool go on with pageable memory where pinning
	// is impossible or fails. Default: fail.
	AllowPageable bool

	// AnyNode leaves it to the system on which NUMA node the memory is.
	// Default: memory of the node that the device is attached to is preferred, where
	// the machine has several nodes and the device's is known, so that copies
	// do not cross sockets. It is never a reason to fail.
	AnyNode bool

	// ShrinkAfter is how long a segment stays wholly free before it goes back
	// to the system. Default one minute; negative: never.
	ShrinkAfter time.Duration

	// PrefaultWorkers is the number of goroutines that fault in the pages of
	// a new segment. Default (and below zero): GOMAXPROCS, at most 16.
	PrefaultWorkers int
}

const (
	defaultSegment = 8 << 20
	defaultBudget  = 256 << 20 // where the system does not tell
	defaultShrink  = time.Minute
	shareDivisor   = 4 // requests up to SegmentBytes/4 share a segment
)

// Pool serves page-locked buffers. All its methods are safe for concurrent
// use. Close it before its device.
type Pool struct {
	// These do not change.
	name            string
	dev             device.Device
	pinner          device.Pinner        // nil: the device pins no memory that is there
	hostAllocator   device.HostAllocator // nil: the driver allocates no pinned memory
	flags           device.PinFlags
	budget          int64
	segmentBytes    int64
	allowPageable   bool
	node            int // that segments are placed on; -1: wherever
	shrinkAfter     time.Duration
	prefaultWorkers int

	byDriver atomic.Bool // the driver allocates segments, they are not mapped here

	mu       sync.Mutex
	changed  sync.Cond // busy, releasing or growingShared went down
	closed   bool
	segments map[*poolSegment]struct{}
	callers  map[*Registration]struct{} // what Register has pinned
	free     [2]freeBlocks              // free blocks, by class of their segment
	spare    *block                     // block structs to use again, linked by next

	refused       int64 // the size of a shared segment that the system did not lock; 0: none
	transit       int64 // bytes of segments being made or given back, unlocked
	busy          int   // operations that are at work while the pool is unlocked
	releasing     int   // those of them that give segments back
	growingShared bool  // one of them makes a shared segment

	pending []*block       // freed, but perhaps still in use by a device
	events  []device.Event // to record again

	timer *time.Timer // runs shrink; nil until the first segment is idle
	armed bool

	counters
}

// NewPool makes a pool for memory that dev pins. Nothing is pinned before it
// is needed. It fails with [device.ErrArgument] on options out of range, and
// with [device.ErrNotSupported] on a device that cannot pin, unless pageable
// memory is allowed.
func NewPool(dev device.Device, o Options) (*Pool, error) {
	if dev == nil {
		return nil, fmt.Errorf("pinned: %w: no device", device.ErrArgument)
	}
	if o.Budget < 0 || o.SegmentBytes < 0 {
		return nil, fmt.Errorf("pinned: %w: budget %d, segments of %d bytes",
			device.ErrArgument, o.Budget, o.SegmentBytes)
	}
	if o.Budget == 0 {
		if o.Budget = sysmem.Available() / 4; o.Budget == 0 {
			o.Budget = defaultBudget
		}
	}
	if o.SegmentBytes == 0 {
		o.SegmentBytes = defaultSegment
	}
	if o.ShrinkAfter == 0 {
		o.ShrinkAfter = defaultShrink
	}
	p := &Pool{
		name:            o.Name,
		dev:             dev,
		flags:           o.Flags,
		budget:          o.Budget,
		segmentBytes:    pagemem.RoundUp(o.SegmentBytes),
		allowPageable:   o.AllowPageable,
		node:            -1,
		shrinkAfter:     o.ShrinkAfter,
		prefaultWorkers: o.PrefaultWorkers,
		segments:        make(map[*poolSegment]struct{}),
		callers:         make(map[*Registration]struct{}),
	}
	p.changed.L = &p.mu
	if node := dev.Info().NUMANode; !o.AnyNode && numa.Known(node) {
		p.node = node
	}
	p.pinner, _ = device.As[device.Pinner](dev)
	p.hostAllocator, _ = device.As[device.HostAllocator](dev)
	if p.hostAllocator == nil {
		p.flags &^= device.PinWriteCombined
	} else if p.flags&device.PinWriteCombined != 0 || p.pinner == nil {
		p.byDriver.Store(true)
	}
	if p.pinner == nil && p.hostAllocator == nil && !p.allowPageable {
		return nil, fmt.Errorf("pinned: %w", errNoPinner(dev))
	}
	live.Add(p)
	return p, nil
}

func errNoPinner(dev device.Device) error {
	return fmt.Errorf("%w: %s cannot pin host memory", device.ErrNotSupported, dev.Info().ID)
}

// Device returns the device that the pool pins memory for.
func (p *Pool) Device() device.Device { return p.dev }

// Alloc returns a buffer of n > 0 bytes that starts on a page. The caller
// owns it until [Buffer.Free]. Where there is room only in pending buffers, it
// waits for the work that still uses them, at most until ctx ends; its error
// then wraps ctx's too. It fails with [ErrBudget] when the budget has no room, with
// [device.ErrPinLimit] when the system refuses to lock more, and with
// [device.ErrClosed] after Close of the pool or of its device.
func (p *Pool) Alloc(ctx context.Context, n int64) (*Buffer, error) {
	if n <= 0 {
		return nil, fmt.Errorf("pinned: %w: alloc %d bytes", device.ErrArgument, n)
	}
	size := pagemem.RoundUp(n)
	stack := callstack.IfWanted(0)
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		b, err := p.acquire(size)
		if err == nil {
			return p.handOut(b, n, stack), nil
		}
		overBudget := errors.Is(err, ErrBudget)
		if !overBudget && !errors.Is(err, device.ErrPinLimit) || !p.promising() || overBudget && !p.within(size) {
			p.failures++
			return nil, err
		}
		if ended := p.awaitRelease(ctx); ended != nil {
			p.failures++
			return nil, fmt.Errorf("%w; waiting for what is pending: %w", err, ended)
		}
	}
}

// acquire finds or makes a block of size bytes and takes it. It may unlock
// the pool meanwhile.
func (p *Pool) acquire(size int64) (*block, error) {
	c := own
	if size <= p.segmentBytes/shareDivisor {
		c = shared
	}
	for triedAgain := false; ; {
		if p.closed {
			return nil, p.closedError()
		}
		if p.dev.Closed() {
			return nil, p.deviceClosedError("alloc", size)
		}
		if b := p.find(c, size); b != nil {
			p.take(b, size)
			p.reuses++
			return b, nil
		}
		if c == shared && p.growingShared {
			p.changed.Wait() // there will be room in what another is making
			continue
		}
		if room := p.room(); room >= size {
			segmentSize := size
			if c == shared {
				segmentSize = min(p.segmentBytes, room&^(pagemem.PageSize()-1))
			}
			seg, err := p.grow(segmentSize, size, c)
			if err == nil && p.closed {
				_, err = p.giveBack([]*poolSegment{seg})
				return nil, errors.Join(p.closedError(), err)
			}
			if err == nil {
				b := seg.first
				p.take(b, size)
				return b, nil
			}
			// The system's limit is tighter than the budget. What the pool
			// holds free may still do, after giving some of it back.
			if b := p.borrow(c, size); b != nil {
				return b, nil
			}
			if triedAgain {
				return nil, err
			}
			if freed, _ := p.giveBack(p.idleSegments()); freed == 0 {
				return nil, err
			}
			triedAgain = true
			continue
		}
		if b := p.borrow(c, size); b != nil {
			return b, nil
		}
		if p.releasing > 0 {
			p.changed.Wait() // for the room that another is making
			continue
		}
		if freed, err := p.makeRoom(size); freed == 0 {
			return nil, errors.Join(p.budgetError("alloc", size), err)
		}
	}
}

// find returns the free block of class c that fits best, or nil. It checks
// the pending buffers unless a block fits exactly.
func (p *Pool) find(c class, size int64) *block {
	b := p.free[c].AtLeast(size)
	if (b == nil || b.size != size) && p.poll() > 0 {
		b = p.free[c].AtLeast(size)
	}
	return b
}

// borrow takes a block out of a segment of the other class.
func (p *Pool) borrow(c class, size int64) *block {
	b := p.free[1-c].AtLeast(size)
	if b != nil {
		p.take(b, size)
		p.reuses++
	}
	return b
}

// within reports whether the budget would have room for size bytes if nothing
// were pending.
func (p *Pool) within(size int64) bool { return size <= p.budget-p.active-p.lost-p.registered }

// room is how much larger the pool may become.
func (p *Pool) room() int64 { return p.budget - p.reserved - p.registered - p.transit }

// done ends an operation that worked while the pool was unlocked.
func (p *Pool) done() {
	p.busy--
	p.changed.Broadcast()
}
