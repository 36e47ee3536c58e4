package outofcore

import (
	"strings"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// TestLane: an operation begins when it may and the one before it is over.
func TestLane(t *testing.T) {
	var l Lane
	l.add(2, 1)
	l.add(0, 1)
	if end := l.add(7, 0.5); end != 7.5 || l != (Lane{Busy: 2.5, Began: 2, Ended: 7.5}) {
		t.Errorf("%+v, %v", l, end)
	}
}

// TestTimes: what a report says of the time adds up to it.
func TestTimes(t *testing.T) {
	r := Report{Setup: time.Second, Wall: 20 * time.Second, Lanes: Lanes{
		In: Lane{Busy: 9, Began: 0, Ended: 12}, Products: Lane{Busy: 10, Began: 2, Ended: 15}, Out: Lane{Busy: 5, Began: 8, Ended: 17.5}}}
	want := Times{Setup: time.Second, FirstTiles: 2 * time.Second, Products: 10 * time.Second, Waiting: 3 * time.Second,
		LastTiles: 2500 * time.Millisecond, Closing: 1500 * time.Millisecond}
	if got := r.Times(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestReport: a product says what its queues did, and the plan what they
// should have done.
func TestReport(t *testing.T) {
	devices(t, func(t *testing.T, dev device.Device) {
		r := open(t, dev, Options{})
		b, err := r.runner.multiplier()
		testkit.OK(t, err)
		r.runner.options.DeviceBytes = b.WorkspaceBytes() + 3*200*200*4/4
		side := func() Matrix { return Matrix{Bytes: make([]byte, 200*200*4), Type: dtype.F32, Rows: 200, Columns: 200} }
		report, err := r.runner.MatMul(ctx, Product{A: side(), B: side(), C: side()})
		testkit.OK(t, err)
		for name, l := range map[string]Lane{"in": report.Lanes.In, "products": report.Lanes.Products, "out": report.Lanes.Out,
			"planned in": report.Plan.Lanes.In, "planned products": report.Plan.Lanes.Products, "planned out": report.Plan.Lanes.Out} {
			if l.Busy <= 0 || l.Began < 0 || l.Ended < l.Began || strings.HasPrefix(name, "planned") && l.Ended > report.Plan.Seconds {
				t.Errorf("%s: %+v", name, l)
			}
		}
		if l := report.Plan.Lanes; l.Products.Began <= 0 || max(l.Products.Ended, l.Out.Ended) != report.Plan.Seconds {
			t.Errorf("planned: %+v in %v s", l, report.Plan.Seconds)
		}
		var in, out int64
		for of, m := range report.Moved {
			planned := report.Plan.Moved[of]
			in, out = in+m.H2DBytes, out+m.D2HBytes
			if m.H2DBytes != planned.H2DBytes || m.D2HBytes != planned.D2HBytes || m.RowBytes != planned.RowBytes ||
				(m.H2DBytes > 0) != (m.H2DSeconds > 0) || (m.H2DBytes > 0) != (planned.H2DSeconds > 0) ||
				(m.D2HBytes > 0) != (m.D2HSeconds > 0) || (m.D2HBytes > 0) != (planned.D2HSeconds > 0) {
				t.Errorf("%v: %+v, planned %+v", matrix(of), m, planned)
			}
		}
		if in != report.Plan.H2DBytes || out != report.Plan.D2HBytes {
			t.Errorf("the matrices moved %d and %d bytes, all of it is %d and %d", in, out, report.Plan.H2DBytes, report.Plan.D2HBytes)
		}
		for _, want := range []string{"  A ", "  B ", "rows of", "room for", "times the floor", "first tiles", "waiting", "last tiles", "closing", "planned", "expected"} {
			if !strings.Contains(report.String(), want) {
				t.Errorf("%q is missing in\n%s", want, report)
			}
		}
	})
}
