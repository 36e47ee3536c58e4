package vram

import "sync/atomic"

// gauge is a shard's part of an amount. Its shard's lock guards it.
type gauge struct {
	in, out int64 // of all time
	told    int64 // of in - out, what the pool knows
	high    int64 // the most that in - out was above that since
}

func (g *gauge) add(n int64) {
	g.in += n
	g.high = max(g.high, g.untold())
}

func (g *gauge) sub(n int64) { g.out += n }

// untold is what the pool does not know of.
func (g *gauge) untold() int64 { return g.in - g.out - g.told }

// level is an amount of the whole pool, without what shards have not told.
type level struct {
	current, peak atomic.Int64
}

// hear takes in what g has not told. With one shard peaks are exact; with
// several they may be off by what the others have not told.
func (l *level) hear(g *gauge) {
	d := g.untold()
	l.raise(l.current.Add(d) - d + g.high)
	g.told += d
	g.high = 0
}

func (l *level) raise(n int64) {
	for old := l.peak.Load(); old < n && !l.peak.CompareAndSwap(old, n); old = l.peak.Load() {
	}
}

// tally is what is counted of live blocks.
type tally[T any] struct {
	requested, allocated, blocks T
	purposes                     [purposes]struct{ requested, allocated T }
}

// tell tells the pool of what s counted, if that is much: of what is allocated,
// and less often of all else, which costs several times as much where shards
// meet. The lock of s is held.
func (p *Pool) tell(s *shard) {
	if d := s.live.allocated.untold(); d < p.tellAt && d > -p.tellAt {
		return
	}
	p.live.allocated.hear(&s.live.allocated)
	if p.pendingBytes.Load() > 0 {
		p.raiseActivePeak()
	}
	if d := s.live.requested.untold(); d >= 8*p.tellAt || d <= -8*p.tellAt {
		p.publish(s)
	}
}

// publish tells the pool of all that s counted. The lock of s is held.
func (p *Pool) publish(s *shard) {
	p.live.requested.hear(&s.live.requested)
	p.live.allocated.hear(&s.live.allocated)
	p.live.blocks.hear(&s.live.blocks)
	for i := range s.live.purposes {
		from, to := &s.live.purposes[i], &p.live.purposes[i]
		if from.allocated.high > 0 || from.allocated.untold() != 0 {
			to.requested.hear(&from.requested)
			to.allocated.hear(&from.allocated)
		}
	}
}

func (p *Pool) raiseActivePeak() {
	p.active.raise(p.live.allocated.current.Load() + p.pendingBytes.Load())
}

// account adds up one gauge of all shards. Everything is still.
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

// balance is an account that is kept with Pool.mu held. Its level can be read
// without.
type balance struct {
	level
	in, out int64
}

func (b *balance) add(n int64) {
	if n > 0 {
		b.in += n
	} else {
		b.out -= n
	}
	b.raise(b.current.Add(n))
}

func (b *balance) account() Account {
	return Account{Current: b.current.Load(), Peak: b.peak.Load(), Allocated: b.in, Freed: b.out}
}
