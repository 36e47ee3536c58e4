package nvjpeg

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/imaging"
)

func TestParse(t *testing.T) {
	const adobe = "Adobe\x00\x64\x00\x00\x00\x00"
	s420 := readFile(t, "420.jpg")
	plain := without(without(s420, markAPP0), markAPP14)
	header := func(components int, luma Sampling) Header {
		h := Header{Width: 37, Height: 29, Components: components, Precision: 8, Interleaved: true}
		for i := range components {
			h.Sampling[i] = Sampling{1, 1}
		}
		h.Sampling[0] = luma
		return h
	}
	colour := header(3, Sampling{2, 2})
	with := func(change func(h *Header)) Header {
		h := colour
		change(&h)
		return h
	}
	for _, c := range []struct {
		name string
		data []byte
		want Header
	}{
		{"4:2:0", s420, colour},
		{"4:2:2", readFile(t, "422.jpg"), header(3, Sampling{2, 1})},
		{"4:4:4", readFile(t, "444.jpg"), header(3, Sampling{1, 1})},
		{"4:4:0", readFile(t, "440.jpg"), header(3, Sampling{1, 2})},
		{"4:1:1", readFile(t, "411.jpg"), header(3, Sampling{4, 1})},
		{"grey", readFile(t, "gray.jpg"), header(1, Sampling{1, 1})},
		{"CMYK", readFile(t, "cmyk.jpg"), header(4, Sampling{1, 1})},
		{"restart markers", readFile(t, "restart.jpg"), colour},
		{"progressive", readFile(t, "progressive.jpg"), with(func(h *Header) { h.Progressive = true })},
		{"a photo", photo(t, 1), with(func(h *Header) { h.Width, h.Height = 500, 375 })},
		{"comment", inserted(s420, 0xFE, "by nobody"), colour},
		{"fill bytes", slices.Concat(s420[:2], []byte{0xFF, 0xFF}, s420[2:]), colour},
		{"JFIF wins", inserted(s420, markAPP14, adobe+"\x00"), colour},
		{"Adobe, YCbCr", inserted(plain, markAPP14, adobe+"\x01"), colour},
		{"Adobe, RGB", inserted(plain, markAPP14, adobe+"\x00"), with(func(h *Header) { h.RGB = true })},
		{"components RGB", components(plain, "RGB"), with(func(h *Header) { h.RGB = true })},
		{"components RGB in JFIF", components(s420, "RGB"), colour},
		{"EXIF", inserted(s420, markAPP1, "Exif\x00\x00II*\x00"), with(func(h *Header) { h.EXIF = 12 })},
		{"XMP", inserted(s420, markAPP1, "http://ns.adobe.com/xap/1.0/"), colour},
	} {
		j, err := Parse(c.data)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if j.Header != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, j.Header, c.want)
		}
		// What follows the end is none of the decoder's business.
		longer, err := Parse(append(slices.Clone(c.data), s420...))
		if err != nil || longer.Header != c.want || !j.Progressive && !bytes.Equal(longer.data, c.data) {
			t.Errorf("%s, another picture behind it: %d bytes of %d, %+v, %v", c.name, len(longer.data), len(c.data), longer.Header, err)
		}
	}
}

// components renames the three components in frame and scan.
func components(data []byte, ids string) []byte {
	return with(data, func(b []byte) {
		frame, scan := segmentAt(b, markSOF0), segmentAt(b, markSOS)
		for i := range 3 {
			b[frame+10+3*i], b[scan+5+2*i] = ids[i], ids[i]
		}
	})
}

func TestParseRefuses(t *testing.T) {
	s420, restart := readFile(t, "420.jpg"), readFile(t, "restart.jpg")
	set := func(marker byte, offset int, values ...byte) []byte {
		return with(s420, func(b []byte) { copy(b[segmentAt(b, marker)+offset:], values) })
	}
	scan := segmentAt(s420, markSOS)
	body := scan + 14
	cutAt := func(n int) []byte { return s420[:n] }
	damaged, format := imaging.ErrDamaged, imaging.ErrFormat
	for _, c := range []struct {
		name string
		data []byte
		err  error
		text string
	}{
		{"nothing", nil, format, "0 bytes"},
		{"a PNG", []byte("\x89PNG\r\n\x1a\n"), format, "not a JPEG"},
		{"start marker", cutAt(2), damaged, "cut short"},
		{"cut in a segment", cutAt(40), damaged, "are left"},
		{"cut before the scan", cutAt(scan), damaged, "cut short"},
		{"scan header alone", cutAt(body), damaged, "no end marker"},
		{"half a picture", cutAt((body + len(s420)) / 2), damaged, "no end marker"},
		{"no end marker", cutAt(len(s420) - 2), damaged, "no end marker"},
		{"end marker cut", cutAt(len(s420) - 1), damaged, "no end marker"},
		{"empty scan", slices.Concat(s420[:body], []byte{0xFF, markEOI}), damaged, "0 bytes for 36 blocks"},
		{"bytes between segments", slices.Concat(s420[:2], []byte("abcd"), s420[2:]), damaged, "where a marker should be"},
		{"start marker twice", slices.Concat(s420[:2], s420), damaged, "0xd8"},
		{"end marker first", inserted(s420, markEOI, "ab"), damaged, "out of place"},
		{"short segment", set(markDQT, 2, 0, 1), damaged, "segment 0xdb of 1 bytes"},
		{"marker in the scan", slices.Insert(slices.Clone(s420), body+8, 0xFF, markDHT), damaged, "0xc4"},
		{"restart without an interval", slices.Insert(slices.Clone(s420), body+8, 0xFF, markRST0), damaged, "number 0 of 0"},
		{"restart out of turn", bytes.Replace(restart, []byte{0xFF, markRST0}, []byte{0xFF, markRST0 + 1}, 1), damaged, "out of turn"},
		{"the first restart missing", bytes.Replace(restart, []byte{0xFF, markRST0}, nil, 1), damaged, "out of turn"},
		{"the last restart missing", bytes.Replace(restart, []byte{0xFF, lastRestart}, nil, 1), damaged, "2 restarts"},
		{"no frame", without(s420, markSOF0), damaged, "before the frame"},
		{"two frames", slices.Insert(slices.Clone(s420), scan, s420[segmentAt(s420, markSOF0):][:19]...), damaged, "second frame"},
		{"no Huffman tables", without(s420, markDHT), damaged, "Huffman"},
		{"no quantization tables", without(s420, markDQT), damaged, "quantization"},
		{"too many codes", set(markDHT, 5, 3), damaged, "too many codes"},
		{"more codes than bytes", set(markDHT, 20, 255), damaged, "codes"},
		{"Huffman table 7", set(markDHT, 4, 7), damaged, "table 7"},
		{"wide differences", set(markDHT, 21, 16), damaged, "16 bits"},
		{"quantization table 7", set(markDQT, 4, 7), damaged, "table 7"},
		{"no width", set(markSOF0, 7, 0, 0), damaged, "0x29"},
		{"height follows", set(markSOF0, 5, 0, 0), format, "height"},
		{"baseline of 12 bits", set(markSOF0, 4, 12), damaged, "12 bits"},
		{"frame too short", set(markSOF0, 9, 4), damaged, "frame of"},
		{"no sampling", set(markSOF0, 11, 0), damaged, "0x0"},
		{"two components alike", set(markSOF0, 13, s420[segmentAt(s420, markSOF0)+10]), damaged, "two components"},
		{"scan of other components", set(markSOS, 5, 77), damaged, "77"},
		{"scan of four components", set(markSOS, 4, 4), damaged, "scan header"},
		{"Huffman table 2", set(markSOS, 6, 0x20), format, "Huffman tables 2 and 0"},
		{"part of the coefficients", set(markSOS, 12, 5), damaged, "0 to 5"},
		{"huge and empty", set(markSOF0, 5, 0xFF, 0xFF, 0xFF, 0xFF), damaged, "blocks"},
		{"arithmetic", readFile(t, "arithmetic.jpg"), format, "process 9"},
		{"lossless", set(markSOF0, 1, 0xC3), format, "process 3"},
	} {
		_, err := Parse(c.data)
		if !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v, want %q with %q", c.name, err, c.err, c.text)
		}
	}
}

// lastRestart is the last restart marker of restart.jpg: 6 MCUs, 2 at a time.
const lastRestart = markRST0 + 1

// Twelve bits and scans apart are read, for a decoder to refuse.
func TestParseUnusual(t *testing.T) {
	s420 := readFile(t, "420.jpg")
	twelve, err := Parse(with(s420, func(b []byte) {
		at := segmentAt(b, markSOF0)
		b[at+1], b[at+4] = markSOF1, 12
	}))
	if err != nil || twelve.Precision != 12 {
		t.Errorf("%d bits, %v", twelve.Precision, err)
	}
	scan := segmentAt(s420, markSOS)
	apart, err := Parse(slices.Concat(s420[:scan], []byte{0xFF, markSOS, 0, 8, 1, s420[scan+5], 0, 0, 63, 0}, s420[scan+14:]))
	if err != nil || apart.Interleaved {
		t.Errorf("one component of three in a scan: interleaved %t, %v", apart.Interleaved, err)
	}
}

func TestParseAllocates(t *testing.T) {
	data := photo(t, 1)
	if n := testing.AllocsPerRun(100, func() { Parse(data) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range []string{"420.jpg", "gray.jpg", "cmyk.jpg", "progressive.jpg", "restart.jpg", "440.jpg"} {
		f.Add(readFile(f, name))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		before := bytes.Clone(data)
		j, err := Parse(data)
		if !bytes.Equal(data, before) {
			t.Fatal("the file changed")
		}
		if err != nil {
			if !errors.Is(err, imaging.ErrDamaged) && !errors.Is(err, imaging.ErrFormat) {
				t.Fatalf("%v is of no kind", err)
			}
			return
		}
		if j.Width < 1 || j.Height < 1 || j.Width > 65535 || j.Height > 65535 || j.EXIF > len(data) {
			t.Fatalf("%+v", j.Header)
		}
		if one := j.Interleaved && !j.Progressive; one && !bytes.HasSuffix(j.data, []byte{0xFF, markEOI}) {
			t.Fatalf("%d bytes of %d do not end with the end marker", len(j.data), len(data))
		}
		if again, err := Parse(j.data); err != nil || again.Header != j.Header || len(again.data) != len(j.data) {
			t.Fatalf("parsed again: %+v, %v", again.Header, err)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	data := photo(b, 1)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := Parse(data); err != nil {
			b.Fatal(err)
		}
	}
}
