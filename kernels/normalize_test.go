package kernels_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/kernels"
)

// sampleTypes are the types that images come in, normalizeTypes what they
// become.
var sampleTypes = []dtype.DType{dtype.U8, dtype.U16}

func normalizeTypes(from dtype.DType) []dtype.DType {
	return []dtype.DType{from, dtype.F16, dtype.BF16, dtype.F32}
}

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
	more := 60
	if testing.Short() {
		shapes, more = shapes[:15], 20 // none with tens of thousands of images
	}
	for range more {
		shapes = append(shapes, shape{rng.IntN(4), 1 + rng.IntN(4), 1 + rng.IntN(40), 1 + rng.IntN(40), rng.IntN(20), 8 * rng.IntN(5)})
	}
	for _, s := range shapes {
		for _, from := range sampleTypes {
			for _, dt := range normalizeTypes(from) {
				p := kernels.Normalize{DType: dt, SrcType: from, N: s.n, C: s.c, H: s.h, W: s.w}
				if dt != from && rng.IntN(8) > 0 {
					for range s.c {
						p.Mean = append(p.Mean, rng.Float64())
						p.Std = append(p.Std, 0.01+rng.Float64())
					}
				}
				pixels := randomSamples(rng, s.n*s.c*s.h*s.w, from)
				src := f.upload(pixels, s.srcOffset*from.Size())
				dst := f.result(s.n*s.c*s.h*s.w*dt.Size(), s.dstOffset)
				p.Src, p.Dst = src.p, dst.p
				if from == dtype.U8 && rng.IntN(2) == 0 {
					p.SrcType = 0 // the default
				}
				testkit.OK(t, f.set.Normalize(f.stream, p))
				compare(t, fmt.Sprintf("%+v from %v to %v, mean %v, std %v", s, from, dt, p.Mean, p.Std), dt, dst.download(), normalizeReference(p, pixels))
				if !bytes.Equal(src.download(), pixels) {
					t.Fatalf("%+v: the source changed", s)
				}
				src.free()
				dst.free()
			}
		}
	}
}

// randomSamples are n samples of a type, the largest and the least among them.
func randomSamples(rng *rand.Rand, n int, from dtype.DType) []byte {
	pixels := make([]byte, n*from.Size())
	for i := range pixels {
		pixels[i] = byte(rng.Uint32())
	}
	for i := 0; i+2*from.Size() <= len(pixels); i += 64 {
		for k := range from.Size() {
			pixels[i+k], pixels[i+from.Size()+k] = 255, 0
		}
	}
	return pixels
}

// sampleType is the type of p's samples.
func sampleType(p kernels.Normalize) dtype.DType {
	if p.SrcType == 0 {
		return dtype.U8
	}
	return p.SrcType
}

// largest is the sample that counts as 1.
var largest = map[dtype.DType]float64{dtype.U8: 255, dtype.U16: 65535}

// normalizeReference is the definition. Products of a sample and a float32 are
// exact in float64, and a sum of two float32 that is rounded to float64 first
// is still rounded right to float32.
func normalizeReference(p kernels.Normalize, src []byte) []byte {
	var out []byte
	from := sampleType(p)
	for n := range p.N {
		for c := range p.C {
			scale, bias := float32(1/largest[from]), float32(0)
			if p.Mean != nil {
				scale, bias = float32(1/(largest[from]*p.Std[c])), float32(-p.Mean[c]/p.Std[c])
			}
			for i := range p.H * p.W {
				x := get(from, src, (n*p.H*p.W+i)*p.C+c)
				if p.DType != from {
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
	for _, from := range sampleTypes {
		b.Run(from.String(), func(b *testing.B) { benchmarkNormalize(b, from) })
	}
}

func benchmarkNormalize(b *testing.B, from dtype.DType) {
	f := open(b)
	for _, dt := range normalizeTypes(from) {
		for _, c := range []int{1, 3} {
			b.Run(fmt.Sprintf("%v/channels=%d", dt, c), func(b *testing.B) {
				p := kernels.Normalize{DType: dt, SrcType: from, N: 64, C: c, H: 224, W: 224}
				n := p.N * p.C * p.H * p.W
				src, dst := f.upload(make([]byte, n*from.Size()), 0), f.result(n*dt.Size(), 0)
				defer src.free()
				defer dst.free()
				p.Src, p.Dst = src.p, dst.p
				const depth = 16 // launches queued at a time, so that their cost overlaps
				b.SetBytes(int64(depth * n * dt.Size()))
				for b.Loop() {
					for range depth {
						testkit.OK(b, f.set.Normalize(f.stream, p))
					}
					testkit.OK(b, f.stream.Synchronize())
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(depth*n), "ns/element")
			})
		}
	}
}
