package vram

import (
	"context"
	"runtime"
)

// Tidy moves idle memory together, so that the next block above 32 MiB is there
// without calls of the driver. It is for moments in which a program has time, such
// as between two steps: what it moves, no Alloc has to. Nothing is taken from the
// device or given back, and nothing moves that is live or that queued work may
// still use. Nothing is done while 3/4 of what is idle lie together. Other calls
// wait no longer than one chunk takes to move. Tidy reports how many bytes it
// moved, and ends early when ctx is done, without an error.
func (p *Pool) Tidy(ctx context.Context) (moved int64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed.Load() {
		return 0, ErrClosed
	}
	if p.space == nil {
		return 0, nil
	}
	p.flush()
	p.poll(0)
	all := p.space.Untidy()
	for moved < all && ctx.Err() == nil && !p.closed.Load() {
		n, err := p.space.Tidy()
		if n == 0 || err != nil {
			return moved, err
		}
		moved += n
		p.mu.Unlock()
		runtime.Gosched()
		p.mu.Lock()
	}
	return moved, nil
}
