package imaging

import (
	"bytes"
	"context"
	"encoding/binary"
	"image"
	"image/jpeg"
	"testing"

	"golang.org/x/image/draw"

	"github.com/pinion-gpu/pinion/internal/samplephotos"
)

// withDecoder runs a benchmark on photos of 500x375 with one decoder.
func withDecoder(b *testing.B, library bool, run func(d *Decoder, photo []byte) error) {
	d := NewDecoder(Options{})
	defer d.Close()
	if library && d.turbo == nil {
		b.Skip("libturbojpeg is not installed")
	}
	if !library {
		d.turbo = nil
	}
	var photos [8][]byte
	for i := range photos {
		var err error
		if photos[i], err = samplephotos.Photo(i + 1); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		if err := run(d, photos[n%len(photos)]); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "images/s")
}

// BenchmarkPhoto measures what one core makes of photos of 500x375. Bare is
// a decompressor, tjDecompress2 into RGB and nothing else.
func BenchmarkPhoto(b *testing.B) {
	t := CenterCrop(224)
	dst := make([]byte, t.Bytes())
	var m Image
	decode := func(d *Decoder, photo []byte) error { return d.Decode(context.Background(), &m, photo) }
	transformed := func(t Transform) func(d *Decoder, photo []byte) error {
		key := uint64(0)
		return func(d *Decoder, photo []byte) error {
			key++
			return d.DecodeTransformed(context.Background(), dst, photo, t, key)
		}
	}
	m.reshape(500, 375)
	b.Run("turbojpeg/bare", func(b *testing.B) {
		withDecoder(b, true, func(d *Decoder, photo []byte) error {
			if err := d.turbo.Open(); err != nil {
				return err
			}
			return d.turbo.Decode(m.Pix, photo, m.Width, m.Height)
		})
	})
	b.Run("turbojpeg/decode", func(b *testing.B) { withDecoder(b, true, decode) })
	b.Run("turbojpeg/crop224", func(b *testing.B) { withDecoder(b, true, transformed(t)) })
	b.Run("turbojpeg/rrc224", func(b *testing.B) { withDecoder(b, true, transformed(RandomResizedCrop(224).WithFlip(0.5))) })
	b.Run("turbojpeg/turned224", func(b *testing.B) {
		crop, exif := transformed(t), tiff(binary.BigEndian, uint16(TurnedLeft))
		withDecoder(b, true, func(d *Decoder, photo []byte) error { return crop(d, jpegWithEXIF(photo, exif)) })
	})
	b.Run("turbojpeg/bicubic224", func(b *testing.B) { withDecoder(b, true, transformed(t.WithFilter(Bicubic))) })
	b.Run("go/decode", func(b *testing.B) { withDecoder(b, false, decode) })
	b.Run("go/crop224", func(b *testing.B) { withDecoder(b, false, transformed(t)) })

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
