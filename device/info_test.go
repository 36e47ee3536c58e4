package device

import (
	"math"
	"slices"
	"testing"
)

func TestLink(t *testing.T) {
	for _, c := range []struct {
		link Link
		text string
		rate float64 // GB/s as the tables of the standard have it
	}{
		{Link{}, "", 0},
		{Link{Kind: "PCIe", MaxGen: 1, MaxWidth: 1}, "PCIe 1.0 x1", 0.250},
		{Link{Kind: "PCIe", MaxGen: 2, MaxWidth: 4}, "PCIe 2.0 x4", 2.000},
		{Link{Kind: "PCIe", MaxGen: 3, MaxWidth: 16}, "PCIe 3.0 x16", 15.754},
		{Link{Kind: "PCIe", MaxGen: 4, MaxWidth: 8}, "PCIe 4.0 x8", 15.754},
		{Link{Kind: "PCIe", Gen: 1, Width: 8, MaxGen: 5, MaxWidth: 16}, "PCIe 5.0 x16", 63.015},
		{Link{Kind: "PCIe", MaxGen: 6, MaxWidth: 16}, "PCIe 6.0 x16", 121},
		{Link{Kind: "PCIe", MaxGen: 9, MaxWidth: 16}, "PCIe 9.0 x16", 0}, // not known yet
	} {
		if got := c.link.String(); got != c.text {
			t.Errorf("%+v is %q, want %q", c.link, got, c.text)
		}
		if got := c.link.BytesPerSecond() / 1e9; math.Abs(got-c.rate) > 0.001 {
			t.Errorf("%s: %.3f GB/s, want %.3f", c.link, got, c.rate)
		}
	}
}

func TestPtr(t *testing.T) {
	if p := Ptr(1 << 63).Add(16).Add(-1); p != 1<<63+15 {
		t.Errorf("%#x", p)
	}
}

// Devices that can do some things and are asked about others.
type (
	plain  struct{ Device }
	pins   struct{ Pinner }
	maps   struct{ Mapper }
	manage struct{ Manager }
	batch  struct{ BatchCopier }

	capable struct {
		plain
		pins
		HostAllocator
		manage
		maps
		batch
		BoxCopier
		PeerCopier
		Launcher
		Caller
		can bool
	}
)

func (c capable) CanMap() bool       { return c.can }
func (c capable) CanManage() bool    { return c.can }
func (c capable) CanReserve() bool   { return c.can }
func (c capable) CanCopyBatch() bool { return c.can }

func TestCapabilities(t *testing.T) {
	for _, c := range []struct {
		dev  Device
		want []string
	}{
		{plain{}, nil},
		{capable{can: false}, []string{
			"pinned", "write-combined", "box", "peer", "kernels", "go-kernels"}},
		{capable{can: true}, []string{
			"pinned", "mapped", "write-combined", "managed", "virtual-memory", "batch", "box", "peer", "kernels", "go-kernels"}},
	} {
		if got := Capabilities(c.dev); !slices.Equal(got, c.want) {
			t.Errorf("%v, want %v", got, c.want)
		}
	}
}
