package imaging

import (
	"bytes"
	"context"
	"errors"
	"image"
	"image/jpeg"
	"slices"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/imaging/internal/header"
	"github.com/pinion-gpu/pinion/imaging/internal/turbojpeg"
)

func TestJPEGDecoder(t *testing.T) {
	name := JPEGDecoder()
	if !turbojpeg.Available() && !strings.HasPrefix(name, "image/jpeg (") || turbojpeg.Available() && !strings.HasPrefix(name, "libturbojpeg ") {
		t.Errorf("JPEGDecoder is %q", name)
	}
	t.Log(name)
}

// Extra bytes before a marker are an oddity that libjpeg warns of, not damage:
// the picture is whole. One that is cut short is damaged with either decoder.
func TestOddJPEG(t *testing.T) {
	var b bytes.Buffer
	if err := jpeg.Encode(&b, image.NewGray(image.Rect(0, 0, 40, 30)), nil); err != nil {
		t.Fatal(err)
	}
	whole := b.Bytes()
	end := len(whole) - 2 // where the last marker starts
	odd := slices.Concat(whole[:end], []byte{1, 2, 3, 4}, whole[end:])
	d := NewDecoder(Options{})
	defer d.Close()
	var m Image
	if err := d.Decode(context.Background(), &m, odd); err != nil || m.Width != 40 || m.Height != 30 {
		t.Errorf("extra bytes: %dx%d, %v", m.Width, m.Height, err)
	}
	if err := d.Decode(context.Background(), &m, whole[:len(whole)/2]); !errors.Is(err, ErrDamaged) {
		t.Errorf("half of a file: %v", err)
	}
}

// What a decoder makes of a picture does not depend on those before it: neither
// damage nor a header that libjpeg warns of stays with it, nor the tables of
// another picture.
func TestDecoderForgets(t *testing.T) {
	good := photo(t)
	tables := func(marker byte) []byte { return slices.Concat([]byte{0xff, marker}, segment(t, good, marker)) }
	quantization, huffman := tables(0xdb), tables(header.MarkerDHT)
	damaged := slices.Clone(huffman)
	damaged[4] = 0x55 // a table of a number that there is not
	bad := map[string][]byte{
		"damaged tables":         bytes.Replace(good, huffman, damaged, 1),
		"bytes before a marker":  bytes.Replace(good, huffman, slices.Concat([]byte{1, 2, 3}, huffman), 1),
		"no quantization tables": bytes.Replace(good, quantization, nil, 1),
		"no Huffman tables":      bytes.Replace(good, huffman, nil, 1),
		"half of a file":         good[:len(good)/2],
		"tables and no picture":  slices.Concat(good[:2], quantization, huffman, good[len(good)-2:]),
	}
	decode := func(d *Decoder, data []byte) (string, []byte) {
		var m Image
		if err := d.Decode(context.Background(), &m, data); err != nil {
			return err.Error(), nil
		}
		return "", m.Pix
	}
	fresh := func(data []byte) (string, []byte) {
		d := NewDecoder(Options{})
		defer d.Close()
		return decode(d, data)
	}
	_, wantGood := fresh(good)
	for name, data := range bad {
		if bytes.Equal(data, good) {
			t.Fatalf("%s: nothing changed", name)
		}
		wantErr, want := fresh(data)
		d := NewDecoder(Options{})
		defer d.Close()
		decode(d, good)
		if err, pix := decode(d, data); err != wantErr || !bytes.Equal(pix, want) {
			t.Errorf("%s: %q behind a good picture, %q alone; the same pixels: %v", name, err, wantErr, bytes.Equal(pix, want))
		}
		if err, pix := decode(d, good); err != "" || !bytes.Equal(pix, wantGood) {
			t.Errorf("a good picture behind one with %s: %q, the same pixels: %v", name, err, bytes.Equal(pix, wantGood))
		}
	}
}

// segment returns the first segment of a JPEG with that marker, from its length
// on.
func segment(t *testing.T, data []byte, marker byte) []byte {
	t.Helper()
	for m, held := range header.Segments(data) {
		if m == marker {
			at := cap(data) - cap(held) - 2
			return data[at : at+2+len(held)]
		}
	}
	t.Fatalf("no segment %#x", marker)
	return nil
}
