package cuda

import "sync"

// gate keeps a driver handle from being destroyed while a call uses it.
type gate struct {
	mu   sync.RWMutex
	shut bool
}

// enter reports whether the handle may be used, until leave.
func (g *gate) enter() bool {
	g.mu.RLock()
	if g.shut {
		g.mu.RUnlock()
		return false
	}
	return true
}

func (g *gate) leave() { g.mu.RUnlock() }

// close waits for the calls inside and lets in no more. It reports whether
// this call closed the gate.
func (g *gate) close() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	was := g.shut
	g.shut = true
	return !was
}
