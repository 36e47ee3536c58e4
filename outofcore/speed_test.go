package outofcore

import (
	"math"
	"testing"

	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

func TestSpeedAt(t *testing.T) {
	s := Speed{FlopRate: [speedSides]float64{100, 200, 400}}
	for side, want := range map[int64]float64{0: 100.0 / 128, 64: 50, 128: 100, 256: 200, 362: 300, 512: 400, 1 << 20: 400} {
		if got := s.at(side); math.Abs(got-want) > 1 {
			t.Errorf("side %d: %v, want %v", side, got, want)
		}
	}
	if got := new(Speed).at(1000); got != assumedFlops {
		t.Errorf("nothing measured: %v", got)
	}
	if s.Most() != 400 || new(Speed).Most() != 0 {
		t.Error("Most is another")
	}
}

// TestSpeed: a speed is measured within the budget, once, and not where there
// is no room.
func TestSpeed(t *testing.T) {
	r := open(t, devicetest.Open(t), Options{})
	b, err := r.runner.multiplier()
	testkit.OK(t, err)
	none, err := r.runner.speed(ctx, b, dtype.F32, false, b.WorkspaceBytes()+1000)
	testkit.OK(t, err)
	if none.Most() != 0 {
		t.Errorf("measured in 1000 bytes: %v", none)
	}
	first, err := r.runner.speed(ctx, b, dtype.F32, false, b.WorkspaceBytes()+4<<20)
	testkit.OK(t, err)
	if first.FlopRate[0] <= 0 || first.FlopRate[speedSides-1] != 0 || first.AddSeconds < 0 {
		t.Errorf("measured in 4 MiB: %v", first)
	}
	again, err := r.runner.speed(ctx, b, dtype.F32, false, 1<<30)
	testkit.OK(t, err)
	if again != first {
		t.Error("measured twice")
	}
}

// TestFloor compares the floor with what the formulas give by hand.
func TestFloor(t *testing.T) {
	p := Problem{M: 1000, N: 2000, K: 3000, Type: dtype.BF16, DeviceBytes: 2 * 10_000, H2DRate: 1e9, D2HRate: 0.5e9,
		Speed: Speed{FlopRate: [speedSides]float64{1e9, 2e9}}}
	f := p.Floor()
	// 2 x 6e9 / sqrt(10,000) - 20,000 elements
	if f.H2DBytes != 18e6 || f.D2HBytes != 4e6 || f.BothBytes != 2*(120e6-20_000) {
		t.Errorf("%+v", f)
	}
	if math.Abs(f.LinkSeconds-float64(f.BothBytes)/1.5e9) > 1e-9 || f.ComputeSeconds != 6 || f.Seconds() != 6 {
		t.Errorf("%+v", f)
	}
	p.DeviceBytes, p.ReadC = 1<<40, true
	if f = p.Floor(); f.H2DBytes != 22e6 || f.BothBytes != 26e6 || math.Abs(f.LinkSeconds-22e-3) > 1e-9 {
		t.Errorf("with everything in memory: %+v", f)
	}
}
