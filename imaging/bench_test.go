package imaging

import (
	"bytes"
	"image"
	"image/jpeg"
	"testing"

	"golang.org/x/image/draw"
)

// withDecoder runs a benchmark on a photo of 500x375 with one decoder.
func withDecoder(b *testing.B, library bool, run func(d *Decoder, photo []byte) error) {
	d := NewDecoder(Options{})
	defer d.Close()
	if library && d.turbo.api == nil {
		b.Skip("libturbojpeg is not installed")
	}
	if !library {
		d.turbo.api = nil
	}
	data := photo(b)
	b.ReportAllocs()
	for b.Loop() {
		if err := run(d, data); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "images/s")
}

// BenchmarkPhoto measures what one core makes of a photo of 500x375.
func BenchmarkPhoto(b *testing.B) {
	g := CenterCrop(224)
	dst := make([]byte, g.Bytes())
	var m Image
	decode := func(d *Decoder, photo []byte) error { return d.Decode(&m, photo) }
	resized := func(d *Decoder, photo []byte) error { return d.DecodeTransformed(dst, photo, g, 0) }
	b.Run("turbojpeg/decode", func(b *testing.B) { withDecoder(b, true, decode) })
	b.Run("turbojpeg/crop224", func(b *testing.B) { withDecoder(b, true, resized) })
	b.Run("go/decode", func(b *testing.B) { withDecoder(b, false, decode) })
	b.Run("go/crop224", func(b *testing.B) { withDecoder(b, false, resized) })

	// What a program does without this package: image/jpeg, x/image/draw.
	b.Run("plain/crop224", func(b *testing.B) {
		scaled := image.NewRGBA(image.Rect(0, 0, 224, 224))
		withDecoder(b, false, func(_ *Decoder, photo []byte) error {
			img, err := jpeg.Decode(bytes.NewReader(photo))
			if err != nil {
				return err
			}
			square := image.Rect(62, 0, 62+375, 375)
			draw.BiLinear.Scale(scaled, scaled.Bounds(), img, square, draw.Src, nil)
			for i := range 224 * 224 {
				copy(dst[3*i:3*i+3], scaled.Pix[4*i:])
			}
			return nil
		})
	})
}
