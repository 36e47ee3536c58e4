package kernels_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/kernels"
)

var normalizeTypes = []dtype.DType{dtype.U8, dtype.F16, dtype.BF16, dtype.F32}

func TestNormalize(t *testing.T) {
	f := open(t)
	rng := rand.New(rand.NewPCG(1, 1))
	type shape struct{ n, c, h, w, srcOffset, dstOffset int }
	shapes := []shape{
		{1, 3, 16, 16, 0, 0}, {3, 3, 4, 12, 0, 0}, {2, 3, 4, 4, 4, 16}, {2, 3, 2, 4, 8, 0}, {2, 3, 2, 2, 4, 32},
		{2, 3, 16, 8, 1, 0}, {2, 3, 16, 8, 0, 8}, {5, 3, 60, 68, 16, 0}, {1, 3, 7, 5, 0, 0},
		{1, 1, 1, 1, 0, 0}, {300, 2, 1, 3, 5, 0}, {2, 4, 33, 31, 4, 8},
		{0, 3, 4, 4, 0, 0}, {2, 3, 0, 4, 0, 0}, {2, 3, 4, 0, 0, 0}, {70000, 3, 1, 4, 0, 0}, {70000, 1, 1, 1, 0, 0},
	}
	for range 60 {
		shapes = append(shapes, shape{rng.IntN(4), 1 + rng.IntN(4), 1 + rng.IntN(40), 1 + rng.IntN(40), rng.IntN(20), 8 * rng.IntN(5)})
	}
	for _, s := range shapes {
		for _, dt := range normalizeTypes {
			p := kernels.Normalize{DType: dt, N: s.n, C: s.c, H: s.h, W: s.w}
			if dt != dtype.U8 && rng.IntN(8) > 0 {
				for range s.c {
					p.Mean = append(p.Mean, rng.Float64())
					p.Std = append(p.Std, 0.01+rng.Float64())
				}
			}
			pixels := make([]byte, s.n*s.c*s.h*s.w)
			for i := range pixels {
				pixels[i] = byte(rng.Uint32())
			}
			src := f.upload(pixels, s.srcOffset)
			dst := f.result(len(pixels)*dt.Size(), s.dstOffset)
			p.Src, p.Dst = src.p, dst.p
			must(t, f.set.Normalize(f.stream, p))
			compare(t, fmt.Sprintf("%+v to %v, mean %v, std %v", s, dt, p.Mean, p.Std), dt, dst.download(), normalizeReference(p, pixels))
			if !bytes.Equal(src.download(), pixels) {
				t.Fatalf("%+v: the source changed", s)
			}
			src.free()
			dst.free()
		}
	}
}

// normalizeReference is the definition. Products of a byte and a float32 are
// exact in float64, and a sum of two float32 that is rounded to float64 first
// is still rounded right to float32.
func normalizeReference(p kernels.Normalize, src []byte) []byte {
	var out []byte
	for n := range p.N {
		for c := range p.C {
			scale, bias := float32(1/255.0), float32(0)
			if p.Mean != nil {
				scale, bias = float32(1/(255*p.Std[c])), float32(-p.Mean[c]/p.Std[c])
			}
			for i := range p.H * p.W {
				x := float64(src[(n*p.H*p.W+i)*p.C+c])
				if p.DType != dtype.U8 {
					product := layouts[dtype.F32].round(x * float64(scale))
					x = layouts[dtype.F32].round(product + float64(bias))
				}
				out = put(p.DType, out, x)
			}
		}
	}
	return out
}

func (l layout) round(x float64) float64 { return l.decode(l.encode(x)) }

// compare wants the same bytes, and names the first element that differs.
func compare(t *testing.T, what string, dt dtype.DType, got, want []byte) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d bytes, want %d", what, len(got), len(want))
	}
	if bytes.Equal(got, want) {
		return
	}
	size := dt.Size()
	for i := 0; i < len(want); i += size {
		if g, w := got[i:i+size], want[i:i+size]; !bytes.Equal(g, w) {
			t.Fatalf("%s: element %d of %d is %x (%g), want %x (%g)", what, i/size, len(want)/size,
				g, get(dt, g, 0), w, get(dt, w, 0))
		}
	}
}

// BenchmarkNormalize gives bytes written a second, of batches of 64 images.
func BenchmarkNormalize(b *testing.B) {
	f := open(b)
	for _, dt := range normalizeTypes {
		for _, c := range []int{1, 3} {
			b.Run(fmt.Sprintf("%v/channels=%d", dt, c), func(b *testing.B) {
				p := kernels.Normalize{DType: dt, N: 64, C: c, H: 224, W: 224}
				n := p.N * p.C * p.H * p.W
				src, dst := f.upload(make([]byte, n), 0), f.result(n*dt.Size(), 0)
				defer src.free()
				defer dst.free()
				p.Src, p.Dst = src.p, dst.p
				const depth = 16 // launches queued at a time, so that their cost overlaps
				b.SetBytes(int64(depth * n * dt.Size()))
				for b.Loop() {
					for range depth {
						must(b, f.set.Normalize(f.stream, p))
					}
					must(b, f.stream.Synchronize())
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(depth*n), "ns/element")
			})
		}
	}
}
