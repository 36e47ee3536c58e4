package vram

// prepare does a little of what the next large allocations would have to wait for,
// after a free on o, or an allocation on it that found memory. Nobody waits for it: if
// another goroutine has the pool, it does nothing.
func (p *Pool) prepare(o *owner) {
	if !p.mu.TryLock() {
		return
	}
	defer p.mu.Unlock()
	if p.closed.Load() {
		return
	}
	p.flush()
	if o != nil {
		p.settle(o)
	}
	p.prepareLocked()
	if o != nil {
		p.mark(o) // what is freed since is for the next time
	}
}

// prepareLocked is prepare without looking for what became idle. Pool.mu is held.
func (p *Pool) prepareLocked() {
	_ = p.space.Prepare() // what failed is tried again, by an allocation at the latest
	p.owes.Store(p.space.Owes())
}
