package device

import (
	"math"
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
