package outofcore

import (
	"math"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

func TestRowShareAt(t *testing.T) {
	s := RowShare{0.5, 0.7, 0, 0.9, 0.8, 0.6, 0.8, 0.9}
	for row, want := range map[int64]float64{128: 0.125, 512: 0.5, 724: 0.6, 1024: 0.7, 2048: 1, 4096: 0.9, 16384: 0.6, 32768: 0.8,
		65536: 0.9, 92682: 0.95, 131072: 1, 1 << 40: 1} {
		if got := s.at(row); math.Abs(got-want) > 1e-3 {
			t.Errorf("rows of %d bytes: %v, want %v", row, got, want)
		}
	}
	if got := new(RowShare).at(1000); got != 1 {
		t.Errorf("nothing measured: %v", got)
	}
}

// TestRowBytes: the rows of a tile are as they lie in host memory.
func TestRowBytes(t *testing.T) {
	p := Problem{M: 1000, N: 2000, K: 3000, Type: dtype.BF16}
	turned := p
	turned.TransA, turned.TransB = true, true
	for _, c := range []struct {
		p                   Problem
		tileM, tileN, tileK int64
		want                [3]int64 // of tiles of A, B and C
	}{
		{p, 100, 200, 300, [3]int64{600, 400, 400}},
		{turned, 100, 200, 300, [3]int64{200, 600, 400}},
		{p, 100, 200, 3000, [3]int64{0, 400, 400}},
		{turned, 1000, 200, 3000, [3]int64{0, 0, 400}},
		{p, 100, 2000, 300, [3]int64{600, 0, 0}},
	} {
		for of, want := range c.want {
			if got := c.p.rowBytes(matrix(of), c.tileM, c.tileN, c.tileK); got != want {
				t.Errorf("tiles of %d x %d x %d, matrix %d: rows of %d bytes, want %d", c.tileM, c.tileN, c.tileK, of, got, want)
			}
		}
	}
}

// TestSlowRows: a plan counts what gaps between rows cost, and avoids them.
func TestSlowRows(t *testing.T) {
	const n = 1 << 15
	p := Problem{M: n, N: n, K: n, Type: dtype.BF16, DeviceBytes: 3 * n * n * 2 / 4, H2DRate: 55e9, D2HRate: 55e9}
	for i := range p.Speed.FlopRate {
		p.Speed.FlopRate[i] = 700e12
	}
	fast, err := MakePlan(p)
	testkit.OK(t, err)
	for i := range p.RowShare {
		for k := range p.RowShare[i] {
			p.RowShare[i][k] = 0.3
		}
	}
	unaware := *fast
	unaware.Problem = p
	unaware.time()
	aware, err := MakePlan(p)
	testkit.OK(t, err)
	if aware.Seconds <= fast.Seconds || aware.Seconds >= 0.9*unaware.Seconds {
		t.Errorf("%v s with slow rows, %v without, %v as if there were none", aware.Seconds, fast.Seconds, unaware.Seconds)
	}
}

// TestRowsMeasured: the rows of pinned matrices that are large are measured,
// once for each distance.
func TestRowsMeasured(t *testing.T) {
	dev := devicetest.Open(t)
	devicetest.NeedsPinned(t, dev, 64<<20)
	r := open(t, dev, Options{})
	if r.runner.pinner == nil || !r.runner.pinner.CanMap() {
		t.Skip("no pinned memory that the device sees")
	}
	const rows, columns = 4096, 1024
	bytes, err := r.pins.Alloc(ctx, rows*columns*4)
	testkit.OK(t, err)
	t.Cleanup(func() { testkit.OK(t, bytes.Free()) })
	m := Matrix{Bytes: bytes.Bytes(), Type: dtype.F32, Rows: rows, Columns: columns}
	measured := func(m Matrix, budget int64) RowShare {
		t.Helper()
		share, err := r.runner.rowShare(ctx, &m, budget)
		testkit.OK(t, err)
		return share
	}
	if got := measured(m, 1<<30); got != smallRows {
		t.Errorf("a small matrix was measured: %v", got)
	}
	r.runner.rowsWorth = 1 << 20
	if got := measured(m, 1<<20); got != smallRows {
		t.Errorf("measured without room: %v", got)
	}
	pageable := m
	pageable.Bytes = make([]byte, len(m.Bytes))
	if got := measured(pageable, 1<<30); got != (RowShare{}) && !r.runner.pinner.Pinned(pageable.Bytes) {
		t.Errorf("pageable memory was measured: %v", got)
	}
	first := measured(m, 1<<30)
	for i, share := range first {
		if row := leastRow << i; (row < columns*4) != (share > 0) || share > 1 {
			t.Errorf("rows of %d bytes of %d: %v", row, columns*4, share)
		}
	}
	if again := measured(m, 1<<30); again != first {
		t.Error("measured twice")
	}
}

// boxed notes what its copies of boxes read.
type boxed struct {
	device.Wrapper
	device.BoxCopier
	most device.Ptr // the end of it
}

func (b *boxed) CopyBox(s device.Stream, x device.Box) error {
	b.most = max(b.most, x.Src.Add((x.Rows-1)*x.SrcRowStride+x.RowBytes))
	return b.BoxCopier.CopyBox(s, x)
}

// TestRowsOfPart: of a matrix that is some columns of a wider one, nothing is read
// behind its last element, where the pinned memory may end.
func TestRowsOfPart(t *testing.T) {
	inner := devicetest.Open(t)
	devicetest.NeedsPinned(t, inner, 64<<20)
	dev := &boxed{Wrapper: device.Wrapper{Device: inner}, BoxCopier: devicetest.As[device.BoxCopier](t, inner)}
	r := open(t, dev, Options{})
	if r.runner.pinner == nil || !r.runner.pinner.CanMap() {
		t.Skip("no pinned memory that the device sees")
	}
	r.runner.rowsWorth = 1 << 20
	const rows, columns, stride = 2048, 1000, 4096
	bytes, err := r.pins.Alloc(ctx, rows*stride*4)
	testkit.OK(t, err)
	t.Cleanup(func() { testkit.OK(t, bytes.Free()) })
	b := bytes.Bytes()
	m := Matrix{Bytes: b[(stride-columns)*4:], Type: dtype.F32, Rows: rows, Columns: columns, Stride: stride}
	_, err = r.runner.rowShare(ctx, &m, 1<<30)
	testkit.OK(t, err)
	start, err := r.runner.pinner.Mapped(b)
	testkit.OK(t, err)
	if end := start.Add(int64(len(b))); dev.most == 0 || dev.most > end {
		t.Errorf("read up to %d bytes behind the matrix", int64(dev.most)-int64(end))
	}
}
