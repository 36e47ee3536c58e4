package imaging

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"strings"
	"testing"
)

// bitWriter writes the entropy-coded bytes of a JPEG.
type bitWriter struct {
	bytes.Buffer
	held uint32
	n    int
}

func (w *bitWriter) put(v uint32, n int) {
	for n--; n >= 0; n-- {
		w.held, w.n = w.held<<1|v>>n&1, w.n+1
		if w.n == 8 {
			if w.WriteByte(byte(w.held)); byte(w.held) == 0xff {
				w.WriteByte(0)
			}
			w.held, w.n = 0, 0
		}
	}
}

// flatJPEG is a baseline JPEG of three components sampled like that, whose
// blocks are of one value each: at(c, x, y) is that of the block x, y of
// component c.
func flatJPEG(width, height int, sampling [3]byte, at func(c, x, y int) byte) []byte {
	file := []byte{0xff, 0xd8, 0xff, 0xdb, 0, 67, 0}
	file = append(file, bytes.Repeat([]byte{8}, 64)...) // so that a step of DC is one of values
	file = append(file, 0xff, 0xc0, 0, 17, 8, byte(height>>8), byte(height), byte(width>>8), byte(width), 3)
	for c, s := range sampling {
		file = append(file, byte(c+1), s, 0)
	}
	// DC: 12 categories in codes of 4 bits. AC: the end of a block in one bit.
	file = append(file, 0xff, 0xc4, 0, 19+12, 0, 0, 0, 0, 12)
	file = append(file, make([]byte, 12)...)
	for category := range byte(12) {
		file = append(file, category)
	}
	file = append(file, 0xff, 0xc4, 0, 20, 0x10, 1)
	file = append(file, make([]byte, 16)...)
	file = append(file, 0xff, 0xda, 0, 12, 3, 1, 0, 2, 0, 3, 0, 0, 63, 0)
	across, down := 0, 0
	for _, s := range sampling {
		across, down = max(across, int(s>>4)), max(down, int(s&15))
	}
	var w bitWriter
	var last [3]int
	for my := range (height + 8*down - 1) / (8 * down) {
		for mx := range (width + 8*across - 1) / (8 * across) {
			for c, s := range sampling {
				for by := range int(s & 15) {
					for bx := range int(s >> 4) {
						v := int(at(c, mx*int(s>>4)+bx, my*int(s&15)+by)) - 128
						diff := v - last[c]
						last[c] = v
						category := bits.Len(uint(max(diff, -diff)))
						w.put(uint32(category), 4)
						if diff < 0 {
							diff--
						}
						w.put(uint32(diff)&(1<<category-1), category)
						w.put(0, 1)
					}
				}
			}
		}
	}
	w.put(0x7f, 7)
	return append(append(file, w.Bytes()...), 0xff, 0xd9)
}

// TestUnusualSampling: JPEGs of unusual subsampling are decoded where a decoder
// can, and refused with their sampling factors where none can.
func TestUnusualSampling(t *testing.T) {
	const width, height = 77, 51
	at := func(c, x, y int) byte { return byte(60 + 37*(x+3*y+5*c)%130) }
	for _, c := range []struct {
		sampling     [3]byte
		plain, turbo bool // who can
	}{
		{[3]byte{0x11, 0x11, 0x11}, true, true},
		{[3]byte{0x31, 0x11, 0x11}, false, true},
		{[3]byte{0x13, 0x11, 0x11}, false, true},
		{[3]byte{0x32, 0x11, 0x11}, false, true},
		{[3]byte{0x14, 0x11, 0x11}, false, true},
		{[3]byte{0x31, 0x11, 0x31}, false, true},
		{[3]byte{0x31, 0x21, 0x11}, false, false}, // chroma for one and a half pixels
	} {
		file := flatJPEG(width, height, c.sampling, at)
		decoders(t, func(t *testing.T, newDecoder func(Options) *Decoder) {
			d := newDecoder(Options{})
			can := c.plain
			if d.turbo != nil {
				can = c.turbo
			}
			var m Image
			err := d.Decode(context.Background(), &m, file)
			if !can {
				factors := fmt.Sprintf("sampling factors %dx%d, %dx%d, %dx%d", c.sampling[0]>>4, c.sampling[0]&15,
					c.sampling[1]>>4, c.sampling[1]&15, c.sampling[2]>>4, c.sampling[2]&15)
				if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), factors) {
					t.Errorf("%x: %v, want %v and %q", c.sampling, err, ErrFormat, factors)
				}
				return
			}
			if err != nil {
				t.Fatalf("%x: %v", c.sampling, err)
			}
			across, down := int(max(c.sampling[0]>>4, c.sampling[1]>>4)), int(max(c.sampling[0]&15, c.sampling[1]&15))
			for y := range height {
				for x := range width {
					var v [3]byte
					for k, s := range c.sampling {
						v[k] = at(k, x*int(s>>4)/across/8, y*int(s&15)/down/8)
					}
					var want [3]byte
					add(&want, v[0], offsets(v[1], v[2]))
					if got := [3]byte(m.Pix[3*(y*width+x):]); got != want {
						t.Fatalf("%x: pixel %d,%d is %d, want %d", c.sampling, x, y, got, want)
					}
				}
			}
		})
	}
}
