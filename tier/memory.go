package tier

import (
	"errors"
	"fmt"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/numa"
	"github.com/pinion-gpu/pinion/internal/pagemem"
	"github.com/pinion-gpu/pinion/pinned"
)

// memoryPool is one tier in host memory.
type memoryPool struct {
	name   string
	far    bool
	pool   *pinned.Pool
	budget int64
	limit  int64 // what could really be had, up to budget
	used   int64 // set aside, in whole pages
	peak   int64
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
		budget = budget / pageBytes * pageBytes
		if budget <= 0 {
			return nil
		}
		p, err := pinned.NewPool(dev, pinned.Options{
			Name: "tier: " + name, Budget: budget, AllowPageable: true,
			SegmentBytes: max(min(8<<20, budget/16), pageBytes),
		})
		if err != nil {
			return err
		}
		pools = append(pools, &memoryPool{name: name, far: far, pool: p, budget: budget, limit: budget})
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

const pageBytes = 4096

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
		errs = append(errs, p.pool.Close())
	}
	return errors.Join(errs...)
}

// place sets host memory aside for an array that has none, in the pool that suits
// it. It reports whether there is room. s.mu is held.
func (s *Store) place(a *Array) bool {
	n := pagemem.RoundUp(a.bytes)
	for _, wantFar := range []bool{a.streamed(), !a.streamed()} {
		for _, p := range s.memory {
			if p.far == wantFar && p.used+n <= p.limit {
				p.used += n
				p.peak = max(p.peak, p.used)
				a.mem = memoryCopy{held: true, pool: p}
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
	m.pool.used -= pagemem.RoundUp(a.bytes)
	a.mem = memoryCopy{}
	if m.buf != nil {
		if err := m.buf.Free(); err != nil {
			s.stuck = err
		}
	}
}

// allocMemory makes the host memory that is set aside for an array.
func (s *Store) allocMemory(a *Array) error {
	s.mu.Lock()
	p, has := a.mem.pool, a.mem.buf != nil
	s.mu.Unlock()
	if has {
		return nil
	}
	buf, err := p.pool.Alloc(s.ctx, a.bytes)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a.mem.buf = buf
	return nil
}

// memoryLanded notes that host memory was to be had. s.mu is held.
func (s *Store) memoryLanded(a *Array) {
	p := a.mem.pool
	p.limit = min(p.limit+a.bytes/recovery, p.budget)
}

// memoryFailed gives a place without content back after a failure. When the memory
// could not be had although its bytes were free, for it was in pieces, the store
// makes do with less for a while, and memoryFailed reports that it is worth another
// try. s.mu is held.
func (s *Store) memoryFailed(a *Array, err error) (again bool) {
	if p := a.mem.pool; a.mem.buf == nil && (errors.Is(err, pinned.ErrBudget) || errors.Is(err, device.ErrPinLimit)) {
		p.limit = p.used - pagemem.RoundUp(a.bytes)
		again = p.limit > 0
	}
	if a.mem.busy == 0 {
		s.release(a)
	}
	return again
}
