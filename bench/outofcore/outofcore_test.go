package main

import (
	"context"
	"math"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// TestQuick: all rows come out on the host backend, and say where the time went.
func TestQuick(t *testing.T) {
	testkit.OnlyComputes(t)
	var o options
	o.Device, o.Quick, o.Only = "host", true, "f32,turned,pageable,arrays,stored"
	dev, err := device.Open(o.Device)
	testkit.OK(t, err)
	t.Cleanup(func() { testkit.OK(t, dev.Close()) })
	devicetest.NeedsPinned(t, dev, 64<<20)
	d, err := measureAll(context.Background(), dev, o)
	testkit.OK(t, err)
	explained, targets := 0, 0
	for _, r := range d.Rows {
		if r.Value <= 0 || r.By == "" {
			t.Errorf("%+v", r)
		}
		if r.AtLeast > 0 {
			targets++
		}
		if w := r.Went; w != nil {
			explained++
			sum := w.SetupSeconds + w.FirstTilesSeconds + w.ProductsSeconds + w.WaitingSeconds + w.LastTilesSeconds + w.ClosingSeconds
			if r.FloorFraction <= 0 || w.ProductsSeconds <= 0 || w.H2DGBPerS <= 0 || math.IsNaN(sum) || sum <= 0 {
				t.Errorf("%s, %s: %v of the floor, %+v", r.Name, r.By, r.FloorFraction, *w)
			}
			in := int64(0)
			for _, m := range r.Moved {
				in += m.H2DBytes
			}
			if len(r.Moved) != 3 || in != r.H2DBytes || r.Moved[2].D2HBytes != r.D2HBytes {
				t.Errorf("%s, %s: %+v, of %d and %d bytes", r.Name, r.By, r.Moved, r.H2DBytes, r.D2HBytes)
			}
		}
	}
	if len(d.Rows) != 3+2*4+3+6+2 || explained != 6 || targets != 1 || len(d.NotAvailable) > 0 {
		t.Errorf("%d rows, %d of them explained, %d with a target; not available: %v", len(d.Rows), explained, targets, d.NotAvailable)
	}
}
