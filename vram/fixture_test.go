package vram

import (
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

func alloc(t testing.TB, p *Pool, n int64, use Use) Block {
	t.Helper()
	b, err := p.Alloc(ctx, n, use)
	testkit.OK(t, err)
	return b
}

func newStream(t testing.TB, dev device.Device) device.Stream {
	t.Helper()
	s, err := dev.NewStream()
	testkit.OK(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}
