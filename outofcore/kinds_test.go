package outofcore

import (
	"fmt"
	"slices"
	"testing"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/internal/texttable"
	"github.com/pinion-gpu/pinion/internal/units"
)

// What was measured on an H200 behind PCIe 5: the link, rows with gaps, and
// products of tiles.
const h200H2D, h200D2H = 54.3e9, 54.9e9

var (
	h200Rows  = RowShare{0.27, 0.30, 0.37, 0.377, 0.62, 0.614, 0.887, 0.997}
	h200BF16  = Speed{FlopRate: [speedSides]float64{265e9, 5.4e12, 42e12, 305e12, 687e12, 812e12, 796e12}, AddSeconds: 5.4e-14}
	h200F32   = Speed{FlopRate: [speedSides]float64{0.69e12, 9.7e12, 29.8e12, 46.7e12, 51.2e12, 51.5e12}, AddSeconds: 3.6e-13}
	h200TF32  = Speed{FlopRate: [speedSides]float64{0.575e12, 8.25e12, 56.3e12, 168e12, 403e12, 422e12, 424e12}, AddSeconds: 4.2e-13}
	shareList = []int64{2, 4, 8, 16, 32}
)

// TestShares: how many times the floor plans take, by the figures of an H200,
// where a half to a 32nd of the data fits. The bounds are what the planner
// reaches, and one percent: a change that makes a plan worse has to say so.
func TestShares(t *testing.T) {
	if testing.Short() {
		t.Skip("it plans many large products")
	}
	table := texttable.New("", ">1/n", ">floor", ">planned", ">times", ">in", ">out", "tiles")
	for _, c := range []struct {
		name           string
		n              int64
		t              dtype.DType
		speed          Speed
		transA, transB bool
		whole          bool // rows have no gaps, or they cost nothing
		most           [5]float64
	}{
		{"bf16 32k, A B", 32 << 10, dtype.BF16, h200BF16, false, false, false, [5]float64{1.51, 1.57, 2.03, 3.52, 5.22}},
		{"bf16 32k, A B'", 32 << 10, dtype.BF16, h200BF16, false, true, false, [5]float64{1.33, 1.53, 1.86, 3.24, 4.80}},
		{"bf16 32k, A' B", 32 << 10, dtype.BF16, h200BF16, true, false, false, [5]float64{1.54, 2.43, 4.05, 5.96, 7.02}},
		{"bf16 32k, A' B'", 32 << 10, dtype.BF16, h200BF16, true, true, false, [5]float64{1.51, 1.75, 2.22, 3.53, 5.22}},
		{"bf16 32k, no gaps", 32 << 10, dtype.BF16, h200BF16, false, false, true, [5]float64{1.45, 1.55, 1.92, 3.30, 3.69}},
		{"tf32 32k, A B", 32 << 10, dtype.F32, h200TF32, false, false, false, [5]float64{1.45, 1.54, 2.02, 3.54, 3.87}},
		{"f32 32k, A B", 32 << 10, dtype.F32, h200F32, false, false, false, [5]float64{1.02, 1.02, 1.02, 1.02, 1.04}},
		{"bf16 64k, A B", 64 << 10, dtype.BF16, h200BF16, false, false, false, [5]float64{1.06, 1.13, 1.38, 1.71, 3.14}},
	} {
		for i, share := range shareList {
			p := Problem{M: c.n, N: c.n, K: c.n, Type: c.t, TransA: c.transA, TransB: c.transB, Speed: c.speed,
				H2DRate: h200H2D, D2HRate: h200D2H, DeviceBytes: 3 * c.n * c.n * int64(c.t.Size()) / share}
			if !c.whole {
				p.RowShare = [3]RowShare{h200Rows, h200Rows, h200Rows}
			}
			plan, err := MakePlan(p)
			testkit.OK(t, err)
			testkit.OK(t, audit(plan))
			floor := p.Floor().Seconds()
			times := plan.Seconds / floor
			table.Add(c.name, fmt.Sprint(share), units.Seconds(floor), units.Seconds(plan.Seconds), fmt.Sprintf("%.2f", times),
				units.Bytes(plan.H2DBytes), units.Bytes(plan.D2HBytes), fmt.Sprintf("%d x %d x %d", plan.TileM, plan.TileN, plan.TileK))
			if times > c.most[i] {
				t.Errorf("%s, 1/%d: %.3f times the floor, at most %v", c.name, share, times, c.most[i])
			}
		}
	}
	t.Logf("\n%v", table)
}

// TestThinPanels: with little memory one wide panel stays, and thin ones go by.
func TestThinPanels(t *testing.T) {
	const n = 32 << 10
	plan, err := MakePlan(Problem{M: n, N: n, K: n, Type: dtype.BF16, Speed: h200BF16, H2DRate: h200H2D, D2HRate: h200D2H,
		RowShare: [3]RowShare{h200Rows, h200Rows, h200Rows}, DeviceBytes: 3 * n * n * 2 / 16})
	testkit.OK(t, err)
	panels := ceil(n, plan.TileN)
	if plan.SplitK || plan.TileN < 8*plan.TileM || plan.B.Count != 1 {
		t.Errorf("tiles of %d x %d x %d, %d slots for A and %d for B", plan.TileM, plan.TileN, plan.TileK, plan.A.Count, plan.B.Count)
	}
	if most := n * n * 2 * (1 + panels); plan.H2DBytes > most {
		t.Errorf("%d bytes come in; B once and A %d times are %d", plan.H2DBytes, panels, most)
	}
}

// TestSides: sides are parts of the extent, from all of it to the smallest.
func TestSides(t *testing.T) {
	for extent, want := range map[int64][]int64{
		1: {1}, 64: {64}, 65: {65, 64}, 300: {300, 192, 128, 64},
		1000: {1000, 512, 384, 256, 192, 128, 64},
	} {
		if got := sides(extent); !slices.Equal(got, want) {
			t.Errorf("%d: %v, want %v", extent, got, want)
		}
	}
}
