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

// close waits for the calls inside, runs destroy and lets in no more, so that
// whoever finds the gate shut knows that the handle's work is over. Only the
// first close does anything.
func (g *gate) close(destroy func() error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		return nil
	}
	g.shut = true
	return destroy()
}
