package viz

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/vram"
)

const (
	base  = device.Ptr(0x7f00_0000_0000)
	chunk = 2 << 20
)

// model is an allocator that is simple enough to be right: it has chunks that
// are mapped or not, at fixed addresses, and blocks in them.
type model struct {
	r      *rand.Rand
	mapped [12]bool
	blocks []vram.BlockInfo // live and pending, by address
	events []vram.Event
	now    time.Duration
	totals []sample // behind each event
	stack  vram.Stack
}

// sample is what there is at a time.
type sample struct {
	allocated, reserved int64
	purposes            [9]int64
}

func newModel(seed uint64) *model {
	m := &model{r: rand.New(rand.NewPCG(seed, 1))}
	var pcs [8]uintptr
	m.stack = pcs[:runtime.Callers(1, pcs[:])]
	return m
}

func (m *model) log(e vram.Event) {
	if m.r.IntN(3) > 0 { // some happen in the same microsecond
		m.now += time.Duration(m.r.IntN(5000))
	}
	e.Time = m.now
	m.events = append(m.events, e)
	m.totals = append(m.totals, m.sample())
}

func (m *model) sample() (s sample) {
	for _, is := range m.mapped {
		if is {
			s.reserved += chunk
		}
	}
	for _, b := range m.blocks {
		if b.State == vram.BlockLive {
			s.allocated += b.Bytes
			s.purposes[b.Purpose] += b.Bytes
		}
	}
	return s
}

// gaps are the ranges that are mapped, or not, with no block in them.
func (m *model) gaps(mapped bool) (list [][2]device.Ptr) {
	at := base
	add := func(to device.Ptr) {
		for at < to {
			i := int64(at-base) / chunk
			end := min(base.Add((i+1)*chunk), to)
			if m.mapped[i] == mapped {
				if n := len(list); n > 0 && list[n-1][1] == at {
					list[n-1][1] = end
				} else {
					list = append(list, [2]device.Ptr{at, end})
				}
			}
			at = end
		}
	}
	for _, b := range m.blocks {
		add(b.Address)
		at = b.Address.Add(b.Bytes)
	}
	add(base.Add(int64(len(m.mapped)) * chunk))
	return list
}

// whole is the chunks of a range from its first border.
func whole(g [2]device.Ptr) (first, n int64) {
	first = (int64(g[0]-base) + chunk - 1) / chunk
	return first, max(int64(g[1]-base)/chunk-first, 0)
}

func (m *model) setMapped(mapped bool) {
	gaps := m.gaps(!mapped)
	if len(gaps) == 0 {
		return
	}
	first, n := whole(gaps[m.r.IntN(len(gaps))])
	if n == 0 {
		return
	}
	skip := m.r.Int64N(n)
	first += skip
	n = 1 + m.r.Int64N(n-skip)
	for i := first; i < first+n; i++ {
		m.mapped[i] = mapped
	}
	kind := vram.EventUnmap
	if mapped {
		kind = vram.EventMap
	}
	m.log(vram.Event{Kind: kind, Address: base.Add(first * chunk), Bytes: n * chunk})
}

func (m *model) alloc() {
	gaps := m.gaps(true)
	if len(gaps) == 0 {
		return
	}
	g := gaps[m.r.IntN(len(gaps))]
	room := int64(g[1]-g[0]) / 512
	n := 1 + m.r.Int64N(room)
	at := g[0].Add(512 * m.r.Int64N(room-n+1))
	b := vram.BlockInfo{
		Address: at, Bytes: n * 512, Requested: n*512 - m.r.Int64N(512), Stream: int32(m.r.IntN(3)),
		Purpose: vram.Purpose(m.r.IntN(9)), Name: []string{"", "layer 3", "π; \"x\"\n", "\xff"}[m.r.IntN(4)], Since: m.now,
	}
	if m.r.IntN(3) == 0 {
		b.Stack = m.stack[m.r.IntN(len(m.stack)):]
	}
	m.blocks = append(m.blocks, b)
	slices.SortFunc(m.blocks, func(a, b vram.BlockInfo) int { return int(int64(a.Address) - int64(b.Address)) })
	m.log(event(vram.EventAlloc, b))
}

func event(kind vram.EventKind, b vram.BlockInfo) vram.Event {
	return vram.Event{Kind: kind, Purpose: b.Purpose, Stream: b.Stream, Address: b.Address, Bytes: b.Bytes, Asked: b.Requested, Name: b.Name, Stack: b.Stack}
}

func (m *model) step() {
	switch k := m.r.IntN(20); {
	case k < 2:
		m.setMapped(true)
	case k < 3:
		m.setMapped(false)
	case k < 4:
		m.log(vram.Event{Kind: vram.EventOutOfMemory, Purpose: vram.KVCache, Address: 12345, Bytes: 1 << 40, Asked: 1<<40 - 7, Name: "page"})
	case k < 12 || len(m.blocks) == 0:
		m.alloc()
	default:
		i := m.r.IntN(len(m.blocks))
		b := m.blocks[i]
		switch {
		case b.State == vram.BlockPending:
			m.blocks = slices.Delete(m.blocks, i, i+1)
			m.log(event(vram.EventReady, b))
		case k < 16:
			m.blocks = slices.Delete(m.blocks, i, i+1)
			m.log(event(vram.EventFree, b))
		default:
			m.blocks[i].State = vram.BlockPending
			m.log(event(vram.EventFree, b))
		}
	}
}

var start = time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC)

// snapshot is what a pool would give whose ring holds so many events.
func (m *model) snapshot(ring int) vram.Snapshot {
	s := vram.Snapshot{Device: "cuda:1", Start: start, Time: start.Add(m.now + time.Millisecond)}
	s.Events = m.events[max(0, len(m.events)-ring):]
	s.Dropped = int64(len(m.events) - len(s.Events))
	now := m.sample()
	s.Stats.ChunkBytes = chunk
	s.Stats.Allocated.Current = now.allocated
	s.Stats.Reserved.Current = now.reserved
	for i := range s.Stats.Purposes {
		s.Stats.Purposes[i].Allocated.Current = now.purposes[i]
	}
	var pieces []vram.BlockInfo
	for _, g := range m.gaps(true) {
		pieces = append(pieces, vram.BlockInfo{Address: g[0], Bytes: int64(g[1] - g[0]), State: vram.BlockFree})
	}
	pieces = append(pieces, m.blocks...)
	slices.SortFunc(pieces, func(a, b vram.BlockInfo) int { return int(int64(a.Address) - int64(b.Address)) })
	for _, b := range pieces {
		n := len(s.Segments)
		if n == 0 || s.Segments[n-1].Address.Add(s.Segments[n-1].Bytes) != b.Address {
			s.Segments = append(s.Segments, vram.Segment{Address: b.Address})
			n++
		}
		s.Segments[n-1].Bytes += b.Bytes
		s.Segments[n-1].Blocks = append(s.Segments[n-1].Blocks, b)
	}
	return s
}

// snapshots are many, with rings that hold all or little.
func snapshots(yield func(string, *model, vram.Snapshot) bool) {
	for seed := range uint64(60) {
		m := newModel(seed)
		for len(m.events) < int(seed*7) {
			m.step()
		}
		for _, ring := range []int{1 << 20, 100, 10, 0} {
			if !yield(fmt.Sprintf("seed %d, ring of %d", seed, ring), m, m.snapshot(ring)) {
				return
			}
		}
	}
}
