package imaging

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"iter"
	"slices"
	"strings"
)

// maxScans is how many scans a JPEG may have, as libturbojpeg has it. One of a
// hundred bytes can make a decoder pass over all pixels.
const maxScans = 500

// Markers of a JPEG.
const (
	markerTEM  = 0x01
	markerSOF0 = 0xc0 // baseline; up to 0xcf other frames, but for three
	markerDHT  = 0xc4
	markerJPG  = 0xc8
	markerDAC  = 0xcc
	markerRST0 = 0xd0
	markerSOI  = 0xd8
	markerEOI  = 0xd9
	markerSOS  = 0xda
)

// segmentsOfJPEG returns the markers of a JPEG up to its end marker, with what
// their segments hold, as far as it is there.
func segmentsOfJPEG(data []byte) iter.Seq2[byte, []byte] {
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

// scansOfJPEG counts the scans of a JPEG.
func scansOfJPEG(data []byte) (scans int) {
	for marker := range segmentsOfJPEG(data) {
		if marker == markerSOS {
			scans++
		}
	}
	return scans
}

// frame is what the header of a JPEG says of the memory that it takes.
type frame struct {
	samples     int64 // of all components, in whole blocks
	progressive bool
	scans       bool // its components come in scans of their own
}

// frameOfJPEG reads the frame of a JPEG of that size. One that it does not find
// takes as much as there can be.
func frameOfJPEG(data []byte, width, height int) frame {
	var f frame
	var components []byte
	for marker, content := range segmentsOfJPEG(data) {
		if marker == markerSOS {
			if components == nil || len(content) == 0 {
				return mostOfFrame(width, height)
			}
			f.scans = int(content[0]) < len(components)/3
			return f
		}
		if found := componentsOf(marker, content); found != nil {
			components = found
			f = frame{progressive: marker&3 == 2, samples: samplesOf(components, width, height)}
		}
	}
	return mostOfFrame(width, height)
}

// componentsOf returns the components of a frame, three bytes each: a number,
// sampling factors and a table. It returns nil for other segments.
func componentsOf(marker byte, content []byte) []byte {
	if marker < markerSOF0 || marker >= markerRST0 || marker == markerDHT || marker == markerJPG || marker == markerDAC {
		return nil
	}
	if len(content) < 6 || content[5] == 0 || len(content) < 6+3*int(content[5]) {
		return nil
	}
	return content[6:][:3*int(content[5])]
}

// samplingOfJPEG returns the sampling factors of the components, across and
// down, such as "2x2, 1x1, 1x1".
func samplingOfJPEG(data []byte) string {
	var factors []string
	for marker, content := range segmentsOfJPEG(data) {
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

// mostOfFrame is the frame of a picture of which nothing is known: four
// components at full density.
func mostOfFrame(width, height int) frame {
	return frame{samples: samplesOf([]byte{0, 0x11, 0, 0, 0x11, 0, 0, 0x11, 0, 0, 0x11, 0}, width, height), progressive: true, scans: true}
}
