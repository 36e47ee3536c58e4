package plan

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
)

// Buffer is memory that is used from one moment to another. Moments are numbers of
// any kind, such as those of operations.
type Buffer struct {
	Bytes    int64
	From, To int // both included
}

// Layout is where buffers lie in one block of memory.
type Layout struct {
	Offsets []int64 // of each buffer
	Bytes   int64   // of the block
	Least   int64   // the bytes of all buffers at the moment when they are most: no layout has less
}

// Place gives each buffer a place in one block of memory, so that buffers whose
// moments overlap do not. Offsets are multiples of align, and sizes are rounded up
// to it; at most 1 for none. The same buffers get the same places.
//
// To find the smallest block is NP-hard (dynamic storage allocation). Place puts one
// buffer after the other at the lowest gap that is large enough, in several orders
// (the largest first, those that live longest first, both together), and then,
// unless the block is as small as can be, tries the best order with those buffers
// earlier that lie at the top. It stops when that has not helped for a while.
func Place(buffers []Buffer, align int64) (Layout, error) {
	align = max(align, 1)
	p := placer{buffers: slices.Clone(buffers)}
	left := int64(mostBytes)
	for i := range p.buffers {
		b := &p.buffers[i]
		if b.Bytes < 0 || b.To < b.From {
			return Layout{}, fmt.Errorf("plan: %w: buffer %d has %d bytes from %d to %d", ErrArgument, i, b.Bytes, b.From, b.To)
		}
		units := b.Bytes / align
		if b.Bytes%align > 0 {
			units++
		}
		if units > left/align {
			return Layout{}, fmt.Errorf("plan: %w: buffer %d has %d bytes; all together may have %d, in multiples of %d", ErrArgument, i, b.Bytes, int64(mostBytes), align)
		}
		b.Bytes = units * align
		left -= b.Bytes
	}
	p.least = mostAtOnce(p.buffers)
	best := Layout{Bytes: -1}
	var order []int
	for k, key := range []func(Buffer) float64{
		func(b Buffer) float64 { return float64(b.Bytes) },
		func(b Buffer) float64 { return float64(b.To - b.From) },
		func(b Buffer) float64 { return float64(b.Bytes) * float64(b.To-b.From+1) },
		func(b Buffer) float64 { return -float64(b.From) },
		func(b Buffer) float64 { return float64(b.To) },
	} {
		if k > 0 && float64(best.Bytes) <= float64(p.least)*(1+p.slack()) {
			break
		}
		now := p.sorted(key)
		if l := p.place(now); best.Bytes < 0 || l.Bytes < best.Bytes {
			best, order = l, now
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for misses := 0; best.Bytes > p.least && misses < p.patience(best.Bytes); misses++ {
		now := p.promoted(order, best, rng)
		if l := p.place(now); l.Bytes <= best.Bytes {
			if l.Bytes < best.Bytes {
				misses = -1
			}
			best, order = l, now
		}
	}
	return best, nil
}

// mostAtOnce is the most bytes that are used at one moment.
func mostAtOnce(buffers []Buffer) (most int64) {
	type change struct {
		at    int
		bytes int64
	}
	changes := make([]change, 0, 2*len(buffers))
	for _, b := range buffers {
		changes = append(changes, change{b.From, b.Bytes}, change{b.To + 1, -b.Bytes})
	}
	// At one moment what ends goes before what begins.
	slices.SortFunc(changes, func(a, b change) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.bytes, b.bytes)) })
	now := int64(0)
	for _, c := range changes {
		now += c.bytes
		most = max(most, now)
	}
	return most
}

type placer struct {
	buffers []Buffer
	least   int64
	placed  []spot // of place: in the order of offsets
}

// spot is where a buffer lies.
type spot struct {
	at, end  int64 // bytes
	from, to int   // its moments
}

// patience is how many orders are tried in vain, if the best so far takes so many bytes.
func (p *placer) patience(best int64) int {
	most := 200
	if float64(best) > 1.01*float64(p.least) {
		most = 2000
	}
	return min(most, 200_000_000/(len(p.buffers)*len(p.buffers)+1))
}

// slack is how much larger than the least a layout of many buffers may be that is not
// compared with others, as a share.
func (p *placer) slack() float64 { return min(0.03, float64(len(p.buffers))*1e-6) }

// sorted returns the buffers with the largest keys first.
func (p *placer) sorted(key func(Buffer) float64) []int {
	order := make([]int, len(p.buffers))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := p.buffers[a], p.buffers[b]
		return cmp.Or(cmp.Compare(key(y), key(x)), cmp.Compare(y.Bytes, x.Bytes))
	})
	return order
}

// place puts buffers in their order at the lowest gaps.
func (p *placer) place(order []int) Layout {
	l := Layout{Offsets: make([]int64, len(p.buffers)), Least: p.least}
	p.placed = p.placed[:0]
	for _, i := range order {
		b := p.buffers[i]
		if b.Bytes == 0 {
			continue
		}
		at := int64(0)
		for k := range p.placed {
			s := &p.placed[k]
			if s.from > b.To || b.From > s.to {
				continue
			}
			if s.at-at >= b.Bytes {
				break
			}
			at = max(at, s.end)
		}
		k := sort.Search(len(p.placed), func(k int) bool { return p.placed[k].at > at })
		p.placed = slices.Insert(p.placed, k, spot{at, at + b.Bytes, b.From, b.To})
		l.Offsets[i] = at
		l.Bytes = max(l.Bytes, at+b.Bytes)
	}
	return l
}

// promoted returns the order with some of the buffers earlier that reach the top of
// the block, or their neighbours.
func (p *placer) promoted(order []int, l Layout, rng *rand.Rand) []int {
	var top []int
	for _, i := range order {
		if b := p.buffers[i].Bytes; b > 0 && l.Offsets[i]+b == l.Bytes {
			top = append(top, i)
		}
	}
	i := top[rng.IntN(len(top))]
	if rng.IntN(3) == 0 {
		if list := p.beside(i); len(list) > 0 {
			i = list[rng.IntN(len(list))]
		}
	}
	now := slices.Clone(order)
	from := slices.Index(now, i)
	to := rng.IntN(from + 1)
	copy(now[to+1:from+1], now[to:from])
	now[to] = i
	return now
}

// beside returns the buffers whose moments overlap those of one.
func (p *placer) beside(i int) (list []int) {
	b := p.buffers[i]
	for j, x := range p.buffers {
		if j != i && x.Bytes > 0 && x.From <= b.To && b.From <= x.To {
			list = append(list, j)
		}
	}
	return list
}
