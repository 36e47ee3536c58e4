//go:build invariants

package vram

import (
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/device/devicetest"
)

// TestGuard: who writes behind a block is told when it is freed, and what is
// freed is overwritten.
func TestGuard(t *testing.T) {
	dev := devicetest.Open(t)
	p := newPool(t, dev, Options{})
	s, err := dev.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, use := range []Use{{}, {Stream: s}} {
		for _, n := range []int64{1, 511, 512, 1000, 1 << 20, 3<<20 + 1} {
			b, err := p.Alloc(ctx, n, use)
			if err != nil {
				t.Fatal(err)
			}
			for _, over := range []int64{0, 1, 100} {
				if err := s.Memset(b.Ptr(), 1, n+over); err != nil {
					t.Fatal(err)
				}
				if err := s.Synchronize(); err != nil {
					t.Fatal(err)
				}
				if over == 0 {
					continue
				}
				if err := b.Free(); err == nil || !strings.Contains(err.Error(), "overwritten") {
					t.Errorf("%d bytes, %d behind: %v", n, over, err)
				}
				s.Memset(b.Ptr().Add(n), guardByte, over)
				s.Synchronize()
			}
			if err := b.Free(); err != nil {
				t.Error(err)
			}
			var c [1]byte
			s.CopyD2H(c[:], b.Ptr())
			if s.Synchronize(); c[0] != poisonByte {
				t.Errorf("freed memory holds %#x", c[0])
			}
		}
	}
}
