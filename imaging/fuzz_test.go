package imaging

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"testing"
)

// FuzzDecode: whatever the bytes, an error or a picture that keeps to the
// limit.
func FuzzDecode(f *testing.F) {
	for _, name := range []string{"rgba.png", "palette.png", "lossless.webp", "lossy-alpha.webp", "420.jpg", "progressive.jpg", "cmyk.jpg"} {
		f.Add(readFile(f, name))
	}
	const limit = 10_000
	g := CenterCrop(9)
	dst := make([]byte, g.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		d := NewDecoder(Options{MaxPixels: limit})
		defer d.Close()
		for range 2 { // with and without libturbojpeg
			var m Image
			err := d.Decode(context.Background(), &m, data)
			if err == nil && (m.Width*m.Height > limit || len(m.Pix) != m.Width*m.Height*3) {
				t.Errorf("%dx%d, %d bytes", m.Width, m.Height, len(m.Pix))
			}
			resized := d.DecodeTransformed(context.Background(), dst, data, g, 0)
			if (err == nil) != (resized == nil) {
				t.Errorf("Decode: %v, DecodeTransformed: %v", err, resized)
			}
			if err != nil && !errors.Is(err, ErrFormat) && !errors.Is(err, ErrTooLarge) && !errors.Is(err, ErrDamaged) {
				t.Errorf("unknown kind of error: %v", err)
			}
			d.turbo.Close()
			d.turbo = nil
		}
	})
}

// FuzzResize compares with the reference.
func FuzzResize(f *testing.F) {
	f.Add(uint8(50), uint8(37), uint8(22), true, uint64(1))
	f.Add(uint8(1), uint8(200), uint8(90), false, uint64(2))
	f.Fuzz(func(t *testing.T, width, height, size uint8, crop bool, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 0))
		src := randomImage(rng, max(1, int(width)), max(1, int(height)))
		p := randomPlan(rng, src.Width, src.Height, max(1, int(size)))
		if crop {
			p = RandomResizedCrop(max(1, int(size)%64)).WithFilter(Filter(seed%3)).Plan(src.Width, src.Height, seed)
		}
		dst := make([]byte, p.Bytes())
		var r Resizer
		if err := r.Resize(dst, src, p); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(dst, reference(src, p)) {
			t.Errorf("%dx%d, %+v: differs from the reference", src.Width, src.Height, p)
		}
	})
}
