package tier

import (
	"errors"
	"fmt"
	"iter"
	"sync"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/numa"
	"github.com/pinion-gpu/pinion/internal/pagemem"
	"github.com/pinion-gpu/pinion/pinned"
	"github.com/pinion-gpu/pinion/tier/internal/spans"
)

// memoryPool is one tier in host memory: an address space of its budget, of which
// arrays have spans, and segments of pinned memory for those parts of it that are
// taken. So room in pieces is room.
type memoryPool struct {
	name    string
	far     bool
	pool    *pinned.Pool
	budget  int64
	segment int64 // bytes of a segment; the last may have fewer

	// Guarded by Store.mu.
	room     *spans.List
	segments []segment

	growing sync.Mutex // held by whoever adds memory to segments
}

// segment is memory for a part of the address space.
type segment struct {
	users int            // spans that reach into it
	buf   *pinned.Buffer // nil: none yet
}

// onNode is a device that seems to be attached to another NUMA node: a pinned.Pool
// for it places its memory there.
type onNode struct {
	device.Wrapper
	node int
}

func (d onNode) Info() device.Info {
	info := d.Device.Info()
	info.NUMANode = d.node
	return info
}

// memoryPools makes the tiers in host memory: the near one, then the far ones.
func memoryPools(dev device.Device, o Options) ([]*memoryPool, error) {
	var pools []*memoryPool
	add := func(name string, far bool, dev device.Device, budget int64) error {
		page := pagemem.PageSize()
		budget = budget / page * page
		if budget == 0 {
			return nil
		}
		p, err := pinned.NewPool(dev, pinned.Options{Name: "tier: " + name, Budget: budget, AllowPageable: true, SegmentBytes: page})
		if err != nil {
			return err
		}
		size := segmentBytes(budget)
		pools = append(pools, &memoryPool{
			name: name, far: far, pool: p, budget: budget, segment: size,
			room: spans.New(budget), segments: make([]segment, (budget+size-1)/size),
		})
		return nil
	}
	err := add("host", false, dev, o.HostBytes)
	nodes := o.FarNodes
	for _, n := range numa.Nodes() {
		if o.FarNodes == nil && len(n.CPUs) == 0 && n.MemoryBytes > 0 {
			nodes = append(nodes, n.ID)
		}
	}
	for _, n := range nodes {
		budget := o.FarBytes
		if budget == 0 {
			budget = nodeBytes(n) / 2
		}
		if err == nil {
			err = add(fmt.Sprintf("node %d", n), true, onNode{device.Wrapper{Device: dev}, n}, budget)
		}
	}
	if err != nil {
		return nil, errors.Join(err, closeMemory(pools))
	}
	return pools, nil
}

// segmentBytes is the size of the segments of a budget: pinning one takes a few
// milliseconds at most, and few arrays lie across two.
func segmentBytes(budget int64) int64 {
	const parts, most = 16, 64 << 20
	n := pagemem.RoundUp(min(budget/parts, most))
	if n > pagemem.HugePage {
		n = n / pagemem.HugePage * pagemem.HugePage
	}
	return max(n, pagemem.PageSize())
}

func nodeBytes(id int) int64 {
	for _, n := range numa.Nodes() {
		if n.ID == id {
			return n.MemoryBytes
		}
	}
	return 0
}

func closeMemory(pools []*memoryPool) error {
	var errs []error
	for _, p := range pools {
		for _, x := range p.segments {
			if x.buf != nil {
				errs = append(errs, x.buf.Free())
			}
		}
		errs = append(errs, p.pool.Close())
	}
	return errors.Join(errs...)
}

// place sets host memory aside for an array that has none, in the pool that suits
// it. It reports whether there is room. s.mu is held.
func (s *Store) place(a *Array) bool {
	for _, wantFar := range []bool{a.streamed(), !a.streamed()} {
		for _, p := range s.memory {
			if p.far != wantFar {
				continue
			}
			if list := p.room.Take(a.size); list != nil {
				a.mem = memoryCopy{pool: p, spans: list}
				for i := range p.reached(list) {
					p.segments[i].users++
				}
				return true
			}
		}
	}
	return false
}

// streamed reports whether an array is only used in turn: whatever tier it is in,
// it is read once in a while and ahead of time.
func (a *Array) streamed() bool { return a.order != nil && a.order.sequential }

// release gives the place in host memory back. No move uses it. s.mu is held.
func (s *Store) release(a *Array) {
	m := a.mem
	a.mem = memoryCopy{}
	m.pool.room.Give(m.spans)
	for i := range m.pool.reached(m.spans) {
		x := &m.pool.segments[i]
		if x.users--; x.users > 0 || x.buf == nil || m.pool.bytes(i) < m.pool.segment {
			continue
		}
		if err := x.buf.Free(); err != nil {
			s.stuck = err
		}
		x.buf = nil
	}
}

// reached lists the segments that spans reach into, each as often as spans do.
func (p *memoryPool) reached(list []spans.Span) iter.Seq[int64] {
	return func(yield func(int64) bool) {
		for _, x := range list {
			for i := x.At / p.segment; i*p.segment < x.At+x.N; i++ {
				if !yield(i) {
					return
				}
			}
		}
	}
}

// allocMemory makes the host memory that is set aside for an array. A move uses it.
func (s *Store) allocMemory(a *Array) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.mem.parts != nil {
		return nil
	}
	p := a.mem.pool
	for i := range p.reached(a.mem.spans) {
		if p.segments[i].buf == nil {
			if err := s.grow(p, i); err != nil {
				return err
			}
		}
	}
	left := a.bytes
	for _, x := range a.mem.spans {
		for at := x.At; at < x.At+x.N; {
			i := at / p.segment
			begin, end := at-i*p.segment, min(x.At+x.N-i*p.segment, p.segment)
			part := p.segments[i].buf.Bytes()[begin:end:end]
			at += end - begin
			part = part[:min(left, int64(len(part)))]
			left -= int64(len(part))
			a.mem.parts = append(a.mem.parts, part)
		}
	}
	return nil
}

// grow makes the memory of a segment, and before any that of the last one, if it is
// smaller, for good: then all that come and go are of one size, and fit in each other's
// place. s.mu is held, except while it does.
func (s *Store) grow(p *memoryPool, i int64) error {
	s.mu.Unlock()
	defer s.mu.Lock()
	p.growing.Lock()
	defer p.growing.Unlock()
	for _, i := range []int64{int64(len(p.segments)) - 1, i} {
		s.mu.Lock()
		skip := p.segments[i].buf != nil || p.segments[i].users == 0 && p.bytes(i) == p.segment
		s.mu.Unlock()
		if skip {
			continue
		}
		buf, err := p.pool.Alloc(s.ctx, p.bytes(i))
		if err != nil {
			return err
		}
		s.mu.Lock()
		p.segments[i].buf = buf
		s.mu.Unlock()
	}
	return nil
}

// bytes is the size of a segment.
func (p *memoryPool) bytes(i int64) int64 { return min(p.segment, p.budget-i*p.segment) }

// copyIn copies b to an offset of an array in host memory; copyOut copies from there.
func (m *memoryCopy) copyIn(b []byte, offset int64) {
	m.each(offset, int64(len(b)), func(part []byte) { b = b[copy(part, b):] })
}

func (m *memoryCopy) copyOut(b []byte, offset int64) {
	m.each(offset, int64(len(b)), func(part []byte) { b = b[copy(b, part):] })
}

func (m *memoryCopy) clear() {
	for _, part := range m.parts {
		clear(part)
	}
}

// each calls do with the parts of n bytes at an offset, in order.
func (m *memoryCopy) each(offset, n int64, do func([]byte)) {
	for _, part := range m.parts {
		size := int64(len(part))
		if offset < size && n > 0 {
			part = part[offset:min(offset+n, size)]
			do(part)
			n -= int64(len(part))
			offset = size
		}
		offset -= size
	}
}

// memoryFailed gives a place without content back, after a failure. s.mu is held.
func (s *Store) memoryFailed(a *Array) {
	a.mem.version = 0
	if a.mem.busy == 0 {
		s.release(a)
	}
}
