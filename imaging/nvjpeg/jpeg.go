package nvjpeg

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/pinion-gpu/pinion/imaging"
)

// JPEG is a JPEG file that [Parse] found to be in order.
type JPEG struct {
	Header
	data []byte // of the caller; from the start marker to the end marker
}

// Bytes is the file, from the start marker to the end marker.
func (j JPEG) Bytes() []byte { return j.data }

// Header is what the segments in front of the first scan say.
type Header struct {
	Width, Height int // pixels, at least 1
	Components    int // 1 grey, 3 colour, 4 CMYK or YCCK
	Precision     int // bits of a sample: 8 or 12
	Progressive   bool
	Interleaved   bool // the first scan has all components
	RGB           bool // the three components are red, green and blue, not YCbCr
	Sampling      [4]Sampling
	// EXIF is where the TIFF structure of an EXIF segment begins, in bytes from
	// the start of the file, or 0 where there is none.
	EXIF int
}

// Sampling is how often a component is sampled, across and down, in relation
// to the other components: 2x2, 1x1, 1x1 is 4:2:0.
type Sampling struct{ H, V uint8 }

// Markers of ITU-T T.81, table B.1.
const (
	markSOF0  = 0xC0 // baseline
	markSOF1  = 0xC1 // extended sequential
	markSOF2  = 0xC2 // progressive
	markDHT   = 0xC4
	markSOF15 = 0xCF
	markRST0  = 0xD0
	markRST7  = 0xD7
	markSOI   = 0xD8
	markEOI   = 0xD9
	markSOS   = 0xDA
	markDQT   = 0xDB
	markDRI   = 0xDD
	markAPP0  = 0xE0
	markAPP1  = 0xE1
	markAPP14 = 0xEE
)

// Parse checks the structure of a JPEG: its segments, its tables and, where it
// has one scan, the markers in it up to the end. It does not decode, so bits
// that went wrong between two markers are not found. It keeps data, which must
// not change while the result is in use. It allocates nothing, takes a few
// microseconds, and fails with [imaging.ErrDamaged], or with
// [imaging.ErrFormat] for what is not a JPEG or one of a rare kind (coded
// arithmetically, lossless, hierarchical, of a height that follows later).
func Parse(data []byte) (JPEG, error) {
	p := parser{data: data}
	if !bytes.HasPrefix(data, []byte{0xFF, markSOI}) {
		return JPEG{}, fmt.Errorf("%w: not a JPEG: %d bytes that begin with % x", imaging.ErrFormat, len(data), data[:min(4, len(data))])
	}
	p.at = 2
	for {
		marker, body, err := p.segment()
		if err != nil {
			return JPEG{}, err
		}
		switch {
		case marker == markDQT:
			err = p.quantization(body)
		case marker == markDHT:
			err = p.huffman(body)
		case marker == markDRI:
			err = p.restartInterval(body)
		case marker >= markSOF0 && marker <= markSOF15 && marker != 0xC8 && marker != 0xCC:
			err = p.frame(marker, body)
		case marker >= markAPP0 && marker <= markAPP14:
			p.application(marker, body)
		case marker == markSOS:
			if err := p.scan(body); err != nil {
				return JPEG{}, err
			}
			return p.finish()
		case marker < markSOF0 || marker >= markRST0 && marker <= markEOI:
			err = p.damaged("marker %#x is out of place", marker)
		}
		if err != nil {
			return JPEG{}, err
		}
	}
}

// parser walks over a file.
type parser struct {
	Header
	data []byte
	at   int // behind the newest segment

	components [4]component
	quant      [4]bool    // tables that were defined
	huff       [2][4]bool // DC, AC
	restart    int        // MCUs between two restart markers; 0 none
	jfif       bool
	adobe      bool
	transform  byte // of Adobe's segment
}

type component struct{ id, quant byte }

func (p *parser) damaged(format string, args ...any) error {
	return fmt.Errorf("%w: JPEG, at byte %d of %d: %s", imaging.ErrDamaged, p.at, len(p.data), fmt.Sprintf(format, args...))
}

// segment reads the next marker and its parameters.
func (p *parser) segment() (marker byte, body []byte, err error) {
	d := p.data[p.at:]
	if len(d) > 0 && d[0] != 0xFF {
		return 0, nil, p.damaged("%#x where a marker should be", d[0])
	}
	i := 0
	for i < len(d) && d[i] == 0xFF { // any number may fill up
		i++
	}
	if len(d) < i+3 {
		return 0, nil, p.damaged("cut short before the picture")
	}
	n := int(binary.BigEndian.Uint16(d[i+1:]))
	if n < 2 || len(d) < i+1+n {
		return 0, nil, p.damaged("segment %#x of %d bytes, %d are left", d[i], n, len(d)-i-1)
	}
	p.at += i + 1 + n
	return d[i], d[i+3 : i+1+n], nil
}

// frame reads the start of frame: T.81, B.2.2.
func (p *parser) frame(marker byte, b []byte) error {
	if p.Components != 0 {
		return p.damaged("a second frame")
	}
	if marker > markSOF2 {
		return fmt.Errorf("%w: JPEG with coding process %d, neither sequential nor progressive with Huffman codes", imaging.ErrFormat, marker-markSOF0)
	}
	if len(b) < 6 || len(b) != 6+3*int(b[5]) {
		return p.damaged("frame of %d bytes", len(b))
	}
	p.Progressive = marker == markSOF2
	p.Precision = int(b[0])
	p.Height, p.Width = int(binary.BigEndian.Uint16(b[1:])), int(binary.BigEndian.Uint16(b[3:]))
	p.Components = int(b[5])
	switch {
	case p.Precision != 8 && (p.Precision != 12 || marker == markSOF0):
		return p.damaged("%d bits a sample", p.Precision)
	case p.Width == 0:
		return p.damaged("%dx%d pixels", p.Width, p.Height)
	case p.Height == 0:
		return fmt.Errorf("%w: JPEG whose height follows the picture", imaging.ErrFormat)
	case p.Components != 1 && p.Components != 3 && p.Components != 4:
		return fmt.Errorf("%w: JPEG of %d components", imaging.ErrFormat, p.Components)
	}
	for i := range p.Components {
		c := b[6+3*i:]
		s := Sampling{c[1] >> 4, c[1] & 15}
		if s.H < 1 || s.H > 4 || s.V < 1 || s.V > 4 || c[2] > 3 {
			return p.damaged("component %d is sampled %dx%d, with quantization table %d", i, s.H, s.V, c[2])
		}
		for _, other := range p.components[:i] {
			if other.id == c[0] {
				return p.damaged("two components %d", c[0])
			}
		}
		p.Sampling[i], p.components[i] = s, component{c[0], c[2]}
	}
	return nil
}

// application notes what the segments of applications say about colour, and
// where EXIF is.
func (p *parser) application(marker byte, b []byte) {
	switch {
	case marker == markAPP0 && bytes.HasPrefix(b, []byte("JFIF\x00")):
		p.jfif = true
	case marker == markAPP14 && len(b) >= 12 && bytes.HasPrefix(b, []byte("Adobe")):
		p.adobe, p.transform = true, b[11]
	case marker == markAPP1 && p.EXIF == 0 && bytes.HasPrefix(b, []byte("Exif\x00\x00")):
		p.EXIF = p.at - len(b) + 6
	}
}

// isRGB tells which colours three components are, as libjpeg does.
func (p *parser) isRGB() bool {
	switch {
	case p.Components != 3 || p.jfif:
		return false
	case p.adobe:
		return p.transform == 0
	}
	return p.components[0].id == 'R' && p.components[1].id == 'G' && p.components[2].id == 'B'
}

// finish checks the scan behind its header.
func (p *parser) finish() (JPEG, error) {
	p.RGB = p.isRGB()
	if p.Progressive || !p.Interleaved {
		return JPEG{p.Header, p.data}, nil
	}
	n, err := p.codedBytes()
	if err != nil {
		return JPEG{}, err
	}
	return JPEG{p.Header, p.data[: p.at+n : p.at+n]}, nil
}
