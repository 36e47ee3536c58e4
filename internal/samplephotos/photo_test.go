package samplephotos

import (
	"bytes"
	"image/jpeg"
	"testing"
)

func TestPhotosLookLikePhotos(t *testing.T) {
	p := newPainter()
	total := 0
	const n = 12
	for i := 1; i <= n; i++ {
		var buf bytes.Buffer
		if err := p.write(&buf, i); err != nil {
			t.Fatal(err)
		}
		t.Logf("photo %d: %d bytes", i, buf.Len())
		if buf.Len() < 30_000 || buf.Len() > 90_000 {
			t.Errorf("photo %d has %d bytes", i, buf.Len())
		}
		total += buf.Len()
		img, err := jpeg.Decode(&buf)
		if err != nil {
			t.Fatal(err)
		}
		if b := img.Bounds(); b.Dx() != Width || b.Dy() != Height {
			t.Errorf("photo %d is %v", i, b)
		}
	}
	if mean := total / n; mean < 40_000 || mean > 80_000 {
		t.Errorf("photos have %d bytes on average", mean)
	}
}

func BenchmarkPhoto(b *testing.B) {
	p := newPainter()
	var buf bytes.Buffer
	for i := 1; b.Loop(); i++ {
		buf.Reset()
		if err := p.write(&buf, i%50+1); err != nil {
			b.Fatal(err)
		}
	}
}
