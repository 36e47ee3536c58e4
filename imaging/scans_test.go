package imaging

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/imaging/internal/header"
)

// blankScans is a progressive JPEG of side x side grey pixels in n scans that
// say, in a few bytes, that there is nothing in any block. Libturbojpeg leaves
// it to image/jpeg, for a byte between two segments.
func blankScans(side uint16, n int) []byte {
	high, low := byte(side>>8), byte(side)
	file := []byte{0xff, 0xd8, 0xff, 0xdb, 0, 67, 0}
	file = append(file, bytes.Repeat([]byte{1}, 64)...)
	file = append(file, 0xff, 0xc2, 0, 11, 8, high, low, high, low, 1, 1, 0x11, 0)
	// One code of one bit: the end of 2^14 + 14 bits' worth of blocks.
	file = append(file, 0xff, 0xc4, 0, 20, 0x10, 1)
	file = append(append(file, make([]byte, 15)...), 0xe0, 0x55)
	blocks := int(side+7) / 8 * (int(side+7) / 8)
	for range n {
		file = append(file, 0xff, 0xda, 0, 8, 1, 1, 0, 1, 63, 0)
		file = append(file, make([]byte, (blocks>>14+1)*2)...)
	}
	return append(file, 0xff, 0xd9)
}

// TestManyScans: a small file cannot keep a decoder busy for hours.
func TestManyScans(t *testing.T) {
	behind := append(blankScans(64, 3), bytes.Repeat([]byte{0xff, 0xda}, 1000)...) // a film, say
	for name, c := range map[string]struct {
		file  []byte
		scans int
		err   error
	}{
		"few":        {blankScans(64, 3), 3, nil},
		"as allowed": {blankScans(64, header.MaxScans), header.MaxScans, nil},
		"too many":   {blankScans(64, header.MaxScans+1), header.MaxScans + 1, ErrTooLarge},
		"behind":     {behind, 3, nil},
	} {
		if n := header.Scans(c.file); n != c.scans {
			t.Errorf("%s: %d scans, want %d", name, n, c.scans)
		}
		d := NewDecoder(Options{})
		defer d.Close()
		var m Image
		err := d.Decode(context.Background(), &m, c.file)
		if !errors.Is(err, c.err) || err != nil && !strings.Contains(err.Error(), "501 scans") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for n := range behind[:600] { // cut anywhere
		header.Scans(behind[:n])
	}
}
