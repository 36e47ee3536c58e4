package header_test

import (
	"bytes"
	"errors"
	"image"
	"image/jpeg"
	"testing"

	"github.com/pinion-gpu/pinion/imaging/internal/header"
	"github.com/pinion-gpu/pinion/internal/errs"
)

func baseline(t testing.TB) []byte {
	var b bytes.Buffer
	if err := jpeg.Encode(&b, image.NewRGBA(image.Rect(0, 0, 40, 24)), nil); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestJPEG(t *testing.T) {
	file := baseline(t)
	if f, err := header.Sniff(file); f != header.JPEG || err != nil {
		t.Errorf("%v, %v", f, err)
	}
	if n := header.Scans(file); n != 1 {
		t.Errorf("%d scans", n)
	}
	if s := header.Sampling(file); s != "2x2, 1x1, 1x1" {
		t.Errorf("sampling %q", s)
	}
	// 3 x 2 units of 16 x 16 pixels, with 6 blocks each.
	if f := header.FrameOf(file, 40, 24); f != (header.Frame{Samples: 3 * 2 * 6 * 64}) {
		t.Errorf("%+v", f)
	}
}

func TestSniffRefuses(t *testing.T) {
	for _, data := range []string{"", "\xff\xd8", "GIF89a", "RIFF    WEBPVP8X\n\x00\x00\x00\x02\x00\x00\x00"} {
		if f, err := header.Sniff([]byte(data)); !errors.Is(err, errs.ErrFormat) {
			t.Errorf("%q is %q, %v", data, f, err)
		}
	}
}

// FuzzHeader: foreign bytes give an answer within bounds, and no fault.
func FuzzHeader(f *testing.F) {
	f.Add(baseline(f)[:200])
	f.Add([]byte("\xff\xd8\xff\xe1\x00\x22Exif\x00\x00MM\x00*\x00\x00\x00\x08\x00\x01\x01\x12\x00\x03\x00\x00\x00\x01\x00\x06\x00\x00"))
	f.Add([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x04eXIfII*\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		format, err := header.Sniff(data)
		if err != nil {
			return
		}
		if o := header.Orientation(format, data); o < 1 || o > 8 {
			t.Errorf("orientation %d", o)
		}
		if n := header.Scans(data); n < 0 || n > len(data)/2 {
			t.Errorf("%d scans in %d bytes", n, len(data))
		}
		header.Sampling(data)
		if frame := header.FrameOf(data, 1000, 1000); frame.Samples < 0 {
			t.Errorf("%+v", frame)
		}
	})
}
