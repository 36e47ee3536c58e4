//go:build !invariants

package vram

// guard is the number of guard bytes behind a block: none without the invariants
// tag.
const guard = 0

func (p *Pool) fence(*block)        {}
func (p *Pool) inspect(Block) error { return nil }
