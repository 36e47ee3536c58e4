package nvjpeg

import (
	"bytes"
	"fmt"

	"github.com/pinion-gpu/pinion/imaging"
)

// scan reads the header of the first scan: T.81, B.2.3.
func (p *parser) scan(b []byte) error {
	if p.Components == 0 {
		return p.damaged("a scan before the frame")
	}
	if len(b) < 1 || len(b) != 4+2*int(b[0]) || int(b[0]) > p.Components {
		return p.damaged("scan header of %d bytes for %d components", len(b), p.Components)
	}
	n := int(b[0])
	p.Interleaved = n == p.Components
	if p.Progressive || !p.Interleaved {
		return nil
	}
	for i, c := range p.components[:n] {
		id, dc, ac := b[1+2*i], b[2+2*i]>>4, b[2+2*i]&15
		switch {
		case id != c.id:
			return p.damaged("component %d of the scan is %d, of the frame %d", i, id, c.id)
		case dc > 1 || ac > 1: // which decoders hardly ever meet
			return fmt.Errorf("%w: JPEG with Huffman tables %d and %d", imaging.ErrFormat, dc, ac)
		case !p.huff[0][dc] || !p.huff[1][ac]:
			return p.damaged("component %d lacks Huffman tables %d and %d", i, dc, ac)
		case !p.quant[c.quant]:
			return p.damaged("component %d lacks quantization table %d", i, c.quant)
		}
	}
	if b[1+2*n] != 0 || b[2+2*n] != 63 || b[3+2*n] != 0 {
		return p.damaged("a sequential scan of coefficients %d to %d", b[1+2*n], b[2+2*n])
	}
	return nil
}

// codedBytes returns the length of the one scan, the end marker included. It
// looks at the markers alone: restart markers as many as there must be and in
// turn, then the end.
func (p *parser) codedBytes() (int, error) {
	blocks, restarts := p.units()
	d := p.data[p.at:]
	n, seen := 0, 0
	for {
		i := bytes.IndexByte(d[n:], 0xFF)
		if i < 0 || n+i+1 == len(d) {
			return 0, p.damaged("the picture is cut short: no end marker")
		}
		n += i + 1
		switch m := d[n]; {
		case m == 0: // a data byte 0xFF
			n++
		case m == 0xFF: // fills up
		case m >= markRST0 && m <= markRST7:
			if seen == restarts || m&7 != byte(seen&7) {
				return 0, p.damaged("restart marker %d is out of turn: number %d of %d", m&7, seen, restarts)
			}
			seen++
			n++
		case m == markEOI:
			n++
			// The shortest codes of a block are a bit for DC and one for AC.
			if need := blocks * 2 / 8; seen < restarts || n-2 < need {
				return 0, p.damaged("the picture is cut short: %d bytes for %d blocks, %d of %d restarts", n-2, blocks, seen, restarts)
			}
			return n, nil
		default:
			return 0, p.damaged("marker %#x in the picture", m)
		}
	}
}

// units counts the blocks of 8x8 samples of a picture in one scan and the
// restart markers in it: T.81, A.2.
func (p *parser) units() (blocks, restarts int) {
	h, v, perUnit := 1, 1, 1 // one component counts in blocks, however it is sampled
	if p.Components > 1 {
		perUnit = 0
		for _, s := range p.Sampling[:p.Components] {
			h, v = max(h, int(s.H)), max(v, int(s.V))
			perUnit += int(s.H) * int(s.V)
		}
	}
	mcus := ceilDiv(p.Width, 8*h) * ceilDiv(p.Height, 8*v)
	if p.restart > 0 {
		restarts = ceilDiv(mcus, p.restart) - 1
	}
	return mcus * perUnit, restarts
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }
