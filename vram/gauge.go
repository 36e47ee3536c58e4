package vram

import "sync/atomic"

// gauge is a shard's share of an amount. The shard's lock guards it.
type gauge struct {
	in, out   int64 // in total
	published int64 // the part of in - out that the pool has counted
	high      int64 // the highest that in - out was above that
}

func (g *gauge) add(n int64) {
	g.in += n
	g.high = max(g.high, g.unpublished())
}

func (g *gauge) sub(n int64) { g.out += n }

// unpublished is the part of in - out that the pool has not counted.
func (g *gauge) unpublished() int64 { return g.in - g.out - g.published }

// level is an amount of the whole pool, without what shards have not published.
type level struct {
	current, peak atomic.Int64
}

// take adds what g has not published. With one shard peaks are exact; with several
// they may be off by what the others have not published.
func (l *level) take(g *gauge) {
	d := g.unpublished()
	l.raise(l.current.Add(d) - d + g.high)
	g.published += d
	g.high = 0
}

func (l *level) raise(n int64) {
	for old := l.peak.Load(); old < n && !l.peak.CompareAndSwap(old, n); old = l.peak.Load() {
	}
}

// tally is a set of counts of live blocks.
type tally[T any] struct {
	requested, allocated, blocks T
	purposes                     [purposes]struct{ requested, allocated T }
}

// publishSome publishes what s counted once it amounts to much: allocated bytes
// first, the rest less often, since it costs several times as much when shards
// meet. The lock of s is held.
func (p *Pool) publishSome(s *shard) {
	if d := s.live.allocated.unpublished(); d < p.publishAt && d > -p.publishAt {
		return
	}
	p.live.allocated.take(&s.live.allocated)
	if p.pendingBytes.Load() > 0 {
		p.raiseActivePeak()
	}
	if d := s.live.requested.unpublished(); d >= 8*p.publishAt || d <= -8*p.publishAt {
		p.publish(s)
	}
}

// publish adds all that s counted to the counts of the pool. The lock of s is
// held.
func (p *Pool) publish(s *shard) {
	p.live.requested.take(&s.live.requested)
	p.live.allocated.take(&s.live.allocated)
	p.live.blocks.take(&s.live.blocks)
	for i := range s.live.purposes {
		from, to := &s.live.purposes[i], &p.live.purposes[i]
		if from.allocated.high > 0 || from.allocated.unpublished() != 0 {
			to.requested.take(&from.requested)
			to.allocated.take(&from.allocated)
		}
	}
}

func (p *Pool) raiseActivePeak() {
	p.active.raise(p.live.allocated.current.Load() + p.pendingBytes.Load())
}

// account adds up one gauge of all shards. The pool is frozen.
func (p *Pool) account(l *level, of func(*tally[gauge]) *gauge) Account {
	a := Account{Peak: l.peak.Load()}
	for _, s := range p.shards.list() {
		g := of(&s.live)
		a.Allocated += g.in
		a.Freed += g.out
	}
	a.Current = a.Allocated - a.Freed
	return a
}
