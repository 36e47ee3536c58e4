package header

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"iter"
	"slices"
	"strings"
)

// MaxScans is how many scans a JPEG may have, as libturbojpeg has it. One of a
// hundred bytes can make a decoder pass over all pixels.
const MaxScans = 500

// Markers of a JPEG.
const (
	markerTEM  = 0x01
	markerSOF0 = 0xc0 // baseline; up to 0xcf other frames, but for three
	MarkerDHT  = 0xc4
	markerJPG  = 0xc8
	markerDAC  = 0xcc
	markerRST0 = 0xd0
	markerSOI  = 0xd8
	markerEOI  = 0xd9
	MarkerSOS  = 0xda
)

// Segments returns the markers of a JPEG up to its end marker, with what
// their segments hold, as far as it is there.
func Segments(data []byte) iter.Seq2[byte, []byte] {
	return func(yield func(byte, []byte) bool) {
		for rest := data; ; {
			at := bytes.IndexByte(rest, 0xff)
			if at < 0 || at+1 == len(rest) {
				return
			}
			rest = rest[at+1:]
			switch marker := rest[0]; {
			case marker == markerEOI:
				return
			case marker == 0xff: // fills up; the marker follows
			case marker == 0 || marker == markerTEM || marker >= markerRST0 && marker <= markerSOI: // without a segment
				rest = rest[1:]
			case len(rest) < 3:
				return
			default:
				end := min(1+int(binary.BigEndian.Uint16(rest[1:])), len(rest))
				if !yield(marker, rest[min(3, end):end]) {
					return
				}
				rest = rest[end:]
			}
		}
	}
}

// Scans counts the scans of a JPEG.
func Scans(data []byte) (scans int) {
	for marker := range Segments(data) {
		if marker == MarkerSOS {
			scans++
		}
	}
	return scans
}

// Frame is what the header of a JPEG says of the memory that it takes.
type Frame struct {
	Samples     int64 // of all components, in whole blocks
	Progressive bool
	Scans       bool // its components come in scans of their own
}

// FrameOf reads the frame of a JPEG of that size. One that it does not find
// takes as much as there can be.
func FrameOf(data []byte, width, height int) Frame {
	var f Frame
	var components []byte
	for marker, content := range Segments(data) {
		if marker == MarkerSOS {
			if components == nil || len(content) == 0 {
				return most(width, height)
			}
			f.Scans = int(content[0]) < len(components)/3
			return f
		}
		if found := componentsOf(marker, content); found != nil {
			components = found
			f = Frame{Progressive: marker&3 == 2, Samples: samplesOf(components, width, height)}
		}
	}
	return most(width, height)
}

// componentsOf returns the components of a frame, three bytes each: a number,
// sampling factors and a table. It returns nil for other segments.
func componentsOf(marker byte, content []byte) []byte {
	if marker < markerSOF0 || marker >= markerRST0 || marker == MarkerDHT || marker == markerJPG || marker == markerDAC {
		return nil
	}
	if len(content) < 6 || content[5] == 0 || len(content) < 6+3*int(content[5]) {
		return nil
	}
	return content[6:][:3*int(content[5])]
}

// Sampling returns the sampling factors of the components, across and
// down, such as "2x2, 1x1, 1x1".
func Sampling(data []byte) string {
	var factors []string
	for marker, content := range Segments(data) {
		if components := componentsOf(marker, content); components != nil {
			for c := range slices.Chunk(components, 3) {
				factors = append(factors, fmt.Sprintf("%dx%d", c[1]>>4, c[1]&15))
			}
			break
		}
	}
	return strings.Join(factors, ", ")
}

// samplesOf counts the samples of components: three bytes each, of which the
// second has how densely it is sampled.
func samplesOf(components []byte, width, height int) (samples int64) {
	const block = 8
	across, down, blocks := 1, 1, 0 // of a minimum coded unit
	for i := 1; i < len(components); i += 3 {
		h, v := int(components[i]>>4), int(components[i]&15)
		across, down, blocks = max(across, h), max(down, v), blocks+h*v
	}
	up := func(n, unit int) int64 { return int64((n + unit - 1) / unit) }
	return up(width, block*across) * up(height, block*down) * int64(blocks) * block * block
}

// most is the frame of a picture of which nothing is known: four
// components at full density.
func most(width, height int) Frame {
	return Frame{Samples: samplesOf([]byte{0, 0x11, 0, 0, 0x11, 0, 0, 0x11, 0, 0, 0x11, 0}, width, height), Progressive: true, Scans: true}
}
