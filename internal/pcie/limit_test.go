package pcie

import (
	"math"
	"testing"

	"github.com/pinion-gpu/pinion/device"
)

func TestLinkLimit(t *testing.T) {
	pcie := func(gen, width int) device.Link { return device.Link{Kind: "PCIe", MaxGen: gen, MaxWidth: width} }
	for _, c := range []struct {
		link      device.Link
		payload   int64
		direction string
		gb        float64
		formula   string
		assumed   bool
	}{
		{pcie(5, 16), 256, "h2d", 58.449, "32 GT/s × 16 lanes × 128/130 / 8 × 256/(256+20) = 58.4 GB/s", false},
		{pcie(5, 16), 256, "d2h", 57.614, "32 GT/s × 16 lanes × 128/130 / 8 × 256/(256+24) = 57.6 GB/s", false},
		{pcie(5, 16), 0, "d2h", 57.614, "32 GT/s × 16 lanes × 128/130 / 8 × 256/(256+24) = 57.6 GB/s", true},
		{pcie(4, 16), 512, "h2d", 30.323, "16 GT/s × 16 lanes × 128/130 / 8 × 512/(512+20) = 30.3 GB/s", false},
		{pcie(3, 8), 128, "d2h", 6.634, "8 GT/s × 8 lanes × 128/130 / 8 × 128/(128+24) = 6.6 GB/s", false},
		{pcie(1, 1), 128, "h2d", 0.2162, "2.5 GT/s × 1 lanes × 8/10 / 8 × 128/(128+20) = 0.2 GB/s", false},
		{pcie(6, 16), 256, "d2h", 111.059, "64 GT/s × 16 lanes × 236/256 / 8 × 256/(256+16) = 111.1 GB/s", false},
	} {
		l, ok := LinkLimit(c.link.MaxGen, c.link.MaxWidth, c.payload, c.direction == "d2h")
		if !ok || math.Abs(l.Rate/1e9-c.gb) > 0.001 || l.Formula != c.formula || l.Assumed != c.assumed {
			t.Errorf("%v, payload %d, %s: %+v, want %g GB/s, %q", c.link, c.payload, c.direction, l, c.gb, c.formula)
		}
		if wire := c.link.BytesPerSecond(); l.Rate >= wire {
			t.Errorf("%v: %g bytes of payload a second in %g on the wire", c.link, l.Rate, wire)
		}
	}
	for _, l := range []device.Link{{}, pcie(0, 16), pcie(7, 16), pcie(5, 0), pcie(5, -1)} {
		if got, ok := LinkLimit(l.MaxGen, l.MaxWidth, 256, false); ok {
			t.Errorf("%+v: %+v", l, got)
		}
	}
	if got, ok := LinkLimit(5, 16, -1, false); ok {
		t.Errorf("a negative payload: %+v", got)
	}
}
