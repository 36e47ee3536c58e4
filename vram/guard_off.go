//go:build !invariants

package vram

// guard is how many bytes behind a block are watched: none without the
// invariants tag.
const guard = 0

func (p *Pool) fence(*block)        {}
func (p *Pool) inspect(Block) error { return nil }
