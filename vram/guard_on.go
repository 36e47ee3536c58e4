//go:build invariants

package vram

import (
	"fmt"

	"github.com/pinion-gpu/pinion/device"
)

// guard is the number of guard bytes behind a block. With the invariants tag,
// freed memory is overwritten too, unless other streams may still use it:
// whoever reads it sees nonsense.
const (
	guard      = unit
	guardByte  = 0xfd
	poisonByte = 0xdd
)

// onStream calls f with the stream of b, or one of its own, and waits.
func (p *Pool) onStream(b *block, f func(device.Stream) error) error {
	if b.owner != nil {
		if err := f(b.owner.stream); err != nil {
			return err
		}
		return b.owner.stream.Synchronize()
	}
	s, err := p.dev.NewStream()
	if err != nil {
		return err
	}
	defer s.Close()
	if err := f(s); err != nil {
		return err
	}
	return s.Synchronize()
}

// fence writes the guard behind what was asked for.
func (p *Pool) fence(b *block) {
	p.onStream(b, func(s device.Stream) error {
		return s.Memset(b.ptr.Add(b.requested), guardByte, b.bytes-b.requested)
	})
}

// inspect checks the guard, and overwrites the block that is to be freed. It says
// nothing of a block that Close takes meanwhile: the free itself will.
func (p *Pool) inspect(h Block) error {
	err := p.look(h)
	if p.closed.Load() {
		return nil
	}
	return err
}

func (p *Pool) look(h Block) error {
	b := h.b
	if b.life.Load() != h.life {
		return nil // the free itself will say so
	}
	tail := make([]byte, b.bytes-b.requested)
	err := p.onStream(b, func(s device.Stream) error {
		return s.CopyD2H(tail, b.ptr.Add(b.requested))
	})
	if err != nil {
		return err
	}
	for i, c := range tail {
		if c != guardByte {
			return fmt.Errorf("vram: free: byte %d after the %d bytes of %v %q at %#x was overwritten with %#x",
				i, b.requested, b.purpose, b.name, uint64(b.ptr), c)
		}
	}
	p.mu.Lock()
	shared := len(b.users) > 0
	p.mu.Unlock()
	if shared {
		return nil
	}
	return p.onStream(b, func(s device.Stream) error { return s.Memset(b.ptr, poisonByte, b.bytes) })
}
