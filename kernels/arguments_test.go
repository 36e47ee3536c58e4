package kernels_test

import (
	"errors"
	"math"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/kernels"
)

func TestBadArguments(t *testing.T) {
	f := open(t)
	buf := f.result(4096, 0)
	defer buf.free()
	p, q := buf.p, buf.p.Add(2048)

	normalize := func(change func(*kernels.Normalize)) error {
		n := kernels.Normalize{Dst: p, DType: dtype.F32, Src: q, N: 1, C: 3, H: 4, W: 4,
			Mean: []float64{0, 0, 0}, Std: []float64{1, 1, 1}}
		change(&n)
		return f.set.Normalize(f.stream, n)
	}
	gather := func(change func(*kernels.Blocks)) error {
		b := kernels.Blocks{Dst: p, Src: q, Index: p.Add(1024), N: 4, Total: 4, BlockBytes: 64}
		change(&b)
		if err := f.set.Gather(f.stream, b); !errors.Is(err, device.ErrArgument) {
			return err
		}
		return f.set.Scatter(f.stream, b)
	}
	spans := func(change func(*kernels.SpanList)) error {
		l := kernels.SpanList{Entries: p, N: 1, Units: 4, Unit: 4}
		change(&l)
		return f.set.CopySpans(f.stream, l)
	}
	table, err := kernels.NewResampleTable(8, 8)
	testkit.OK(t, err)
	testkit.OK(t, table.Add(kernels.Picture{Src: q, Pitch: 24, Width: 8, Height: 8,
		X: kernels.Axis{Length: 8, Out: 8}, Y: kernels.Axis{Length: 8, Out: 8}}))
	type N = kernels.Normalize
	type B = kernels.Blocks
	type S = kernels.SpanList
	for name, err := range map[string]error{
		"no stream":             f.set.Fill(nil, p, 1, 0, 1),
		"normalize: dtype":      normalize(func(n *N) { n.DType = dtype.I32 }),
		"normalize: zero dtype": normalize(func(n *N) { n.DType = 0 }),
		"normalize: from i16":   normalize(func(n *N) { n.SrcType = dtype.I16 }),
		"normalize: u8 to u16":  normalize(func(n *N) { n.DType, n.Mean, n.Std = dtype.U16, nil, nil }),
		"normalize: u16 to u8":  normalize(func(n *N) { n.SrcType, n.DType, n.Mean, n.Std = dtype.U16, dtype.U8, nil, nil }),
		"normalize: u16 mean":   normalize(func(n *N) { n.SrcType, n.DType = dtype.U16, dtype.U16 }),
		"normalize: u16 odd":    normalize(func(n *N) { n.SrcType = dtype.U16; n.Src++ }),
		"normalize: u16 wraps":  normalize(func(n *N) { n.SrcType, n.Src = dtype.U16, math.MaxUint64-63 }),
		"normalize: u16 huge":   normalize(func(n *N) { n.SrcType, n.DType, n.N, n.H, n.W = dtype.U16, dtype.F16, math.MaxInt32, math.MaxInt32, 1 }),
		"normalize: 0 channels": normalize(func(n *N) { n.C = 0 }),
		"normalize: 5 channels": normalize(func(n *N) { n.C = 5 }),
		"normalize: N":          normalize(func(n *N) { n.N = -1 }),
		"normalize: H":          normalize(func(n *N) { n.H = -1 }),
		"normalize: W":          normalize(func(n *N) { n.W = -1 }),
		"normalize: huge":       normalize(func(n *N) { n.N, n.H, n.W = math.MaxInt32, math.MaxInt32, math.MaxInt32 }),
		"normalize: Dst zero":   normalize(func(n *N) { n.Dst = 0 }),
		"normalize: Src zero":   normalize(func(n *N) { n.Src = 0 }),
		"normalize: Dst odd":    normalize(func(n *N) { n.Dst++ }),
		"normalize: overlap":    normalize(func(n *N) { n.Src = n.Dst + 100 }),
		"normalize: wraps":      normalize(func(n *N) { n.Src = math.MaxUint64 - 3 }),
		"normalize: short mean": normalize(func(n *N) { n.Mean = n.Mean[:2] }),
		"normalize: u8 mean":    normalize(func(n *N) { n.DType = dtype.U8 }),
		"normalize: NaN mean":   normalize(func(n *N) { n.Mean[1] = math.NaN() }),
		"normalize: inf mean":   normalize(func(n *N) { n.Mean[1] = math.Inf(1) }),
		"normalize: std 0":      normalize(func(n *N) { n.Std[2] = 0 }),
		"normalize: std < 0":    normalize(func(n *N) { n.Std[2] = -1 }),
		"normalize: std NaN":    normalize(func(n *N) { n.Std[2] = math.NaN() }),
		"normalize: std inf":    normalize(func(n *N) { n.Std[2] = math.Inf(1) }),
		"normalize: std tiny":   normalize(func(n *N) { n.Std[2] = 1e-300 }),

		"normalize: Colours odd":           normalize(func(n *N) { n.Colours = p.Add(1028) }),
		"normalize: Colours of 4 channels": normalize(func(n *N) { n.Colours, n.C, n.Mean, n.Std = p.Add(1024), 4, nil, nil }),
		"normalize: Colours in Dst":        normalize(func(n *N) { n.Colours = n.Dst.Add(184) }),
		"normalize: Colours in Src":        normalize(func(n *N) { n.Colours = n.Src.Add(40) }),
		"normalize: Colours in Mix":        normalize(func(n *N) { n.Colours, n.Mix = p.Add(1024), p.Add(1052) }),
		"normalize: Mix odd":               normalize(func(n *N) { n.Mix = p.Add(1026) }),
		"normalize: Mix in Dst":            normalize(func(n *N) { n.Mix = n.Dst.Add(188) }),
		"normalize: Mix wraps":             normalize(func(n *N) { n.Mix = math.MaxUint64 - 3 }),

		"resample: no table":         f.set.Resample(f.stream, p, nil, p.Add(1024)),
		"resample: dst zero":         f.set.Resample(f.stream, 0, table, p.Add(1024)),
		"resample: table zero":       f.set.Resample(f.stream, p, table, 0),
		"resample: table odd":        f.set.Resample(f.stream, p, table, p.Add(1028)),
		"resample: dst in table":     f.set.Resample(f.stream, p, table, p.Add(184)),
		"resample: dst in weights":   f.set.Resample(f.stream, p.Add(1024).Add(table.DeviceBytes()-1), table, p.Add(1024)),
		"resample: dst in a picture": f.set.Resample(f.stream, q.Add(191), table, p.Add(1024)),
		"resample: table in picture": f.set.Resample(f.stream, p, table, q.Add(184)),

		"cast: dtype":    f.set.Cast(f.stream, p, dtype.I64, q, dtype.F32, 1),
		"cast: no dtype": f.set.Cast(f.stream, p, dtype.F32, q, 0, 1),
		"cast: n":        f.set.Cast(f.stream, p, dtype.F32, q, dtype.U8, -1),
		"cast: huge":     f.set.Cast(f.stream, p, dtype.F32, q, dtype.U8, math.MaxInt64),
		"cast: zero dst": f.set.Cast(f.stream, 0, dtype.F32, q, dtype.U8, 1),
		"cast: zero src": f.set.Cast(f.stream, p, dtype.F32, 0, dtype.U8, 1),
		"cast: odd src":  f.set.Cast(f.stream, p, dtype.U8, q+2, dtype.F32, 1),
		"cast: overlap":  f.set.Cast(f.stream, p, dtype.U8, p, dtype.F32, 1),

		"fill: size": f.set.Fill(f.stream, p, 3, 0, 1),
		"fill: n":    f.set.Fill(f.stream, p, 4, 0, -1),
		"fill: huge": f.set.Fill(f.stream, p, 8, 0, 1<<60),
		"fill: zero": f.set.Fill(f.stream, 0, 4, 0, 1),
		"fill: odd":  f.set.Fill(f.stream, p+2, 4, 0, 1),

		"blocks: N":          gather(func(b *B) { b.N = -1 }),
		"blocks: Total":      gather(func(b *B) { b.Total = -1 }),
		"blocks: BlockBytes": gather(func(b *B) { b.BlockBytes = 0 }),
		"blocks: huge":       gather(func(b *B) { b.Total = math.MaxInt64 / 2 }),
		"blocks: Dst zero":   gather(func(b *B) { b.Dst = 0 }),
		"blocks: Src zero":   gather(func(b *B) { b.Src = 0 }),
		"blocks: Index zero": gather(func(b *B) { b.Index = 0 }),
		"blocks: Index odd":  gather(func(b *B) { b.Index += 4 }),
		"blocks: overlap":    gather(func(b *B) { b.Src = b.Dst + 255 }),
		"blocks: in place":   gather(func(b *B) { b.Index = b.Dst }),

		"spans: N":            spans(func(l *S) { l.N = -1 }),
		"spans: Units":        spans(func(l *S) { l.Units = -1 }),
		"spans: Unit":         spans(func(l *S) { l.Unit = 8 }),
		"spans: no Unit":      spans(func(l *S) { l.Unit = 0 }),
		"spans: Blocks":       spans(func(l *S) { l.Blocks = -1 }),
		"spans: Entries zero": spans(func(l *S) { l.Entries = 0 }),
		"spans: Entries odd":  spans(func(l *S) { l.Entries += 4 }),
		"spans: huge N":       spans(func(l *S) { l.N = math.MaxInt64 / 20 }),
		"spans: huge Units":   spans(func(l *S) { l.Units = math.MaxInt64 / 3 }),
		"spans: wraps":        spans(func(l *S) { l.Entries = math.MaxUint64 - 15 }),
	} {
		if !errors.Is(err, device.ErrArgument) {
			t.Errorf("%s: %v, want ErrArgument", name, err)
		}
	}
	for i, x := range buf.download() {
		if x != poison {
			t.Fatalf("a refused call wrote byte %d", i)
		}
	}
}

func TestNothingToDo(t *testing.T) {
	f := open(t)
	testkit.OK(t, f.set.Normalize(f.stream, kernels.Normalize{DType: dtype.F16, N: 0, C: 3, H: 224, W: 224}))
	testkit.OK(t, f.set.Normalize(f.stream, kernels.Normalize{DType: dtype.U8, N: 8, C: 1, H: 0, W: math.MaxInt}))
	testkit.OK(t, f.set.Normalize(f.stream, kernels.Normalize{DType: dtype.F16, N: 0, C: 3, H: 224, W: 224, Colours: 7, Mix: 7}))
	table, err := kernels.NewResampleTable(224, 224)
	testkit.OK(t, err)
	testkit.OK(t, f.set.Resample(f.stream, 0, table, 0))
	testkit.OK(t, f.set.Cast(f.stream, 0, dtype.F32, 0, dtype.U8, 0))
	testkit.OK(t, f.set.Fill(f.stream, 0, 4, 1, 0))
	testkit.OK(t, f.set.Gather(f.stream, kernels.Blocks{BlockBytes: 16}))
	buf := f.result(256, 0)
	defer buf.free()
	testkit.OK(t, f.set.Gather(f.stream, kernels.Blocks{Dst: buf.p, Src: buf.p + 16, Index: buf.p + 192, N: 4, BlockBytes: 16}))
	testkit.OK(t, f.set.Scatter(f.stream, kernels.Blocks{BlockBytes: 16}))
	testkit.OK(t, f.set.CopySpans(f.stream, kernels.SpanList{Unit: 16}))
	testkit.OK(t, f.set.CopySpans(f.stream, kernels.SpanList{N: 7, Unit: 16}))
	testkit.OK(t, f.set.CopySpans(f.stream, kernels.SpanList{Units: 7, Unit: 16}))
	testkit.OK(t, f.stream.Synchronize())
}

func TestClose(t *testing.T) {
	f := open(t)
	testkit.OK(t, f.set.Close())
	testkit.OK(t, f.set.Close())
	if err := f.set.Fill(f.stream, 0, 1, 0, 0); !errors.Is(err, device.ErrClosed) {
		t.Errorf("Fill after Close: %v, want ErrClosed", err)
	}
}

// plain hides what a device can do beyond the Device interface.
type plain struct{ device.Device }

func TestLoadNeedsKernels(t *testing.T) {
	f := open(t)
	if _, err := kernels.Load(plain{f.dev}); !errors.Is(err, device.ErrNotSupported) {
		t.Errorf("Load: %v, want ErrNotSupported", err)
	}
}
