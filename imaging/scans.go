package imaging

import (
	"bytes"
	"encoding/binary"
)

// maxScans is how many scans a JPEG may have, as libturbojpeg has it. One of a
// hundred bytes can make a decoder pass over all pixels.
const maxScans = 500

// scansOfJPEG counts the scans of a JPEG up to its end marker.
func scansOfJPEG(data []byte) (scans int) {
	const rst0, soi, eoi, sos, tem = 0xd0, 0xd8, 0xd9, 0xda, 0x01
	for rest := data; ; {
		at := bytes.IndexByte(rest, 0xff)
		if at < 0 || at+1 == len(rest) {
			return scans
		}
		rest = rest[at+1:]
		switch marker := rest[0]; {
		case marker == eoi:
			return scans
		case marker == 0xff: // fills up; the marker follows
		case marker == 0 || marker == tem || marker >= rst0 && marker <= soi: // without a segment
			rest = rest[1:]
		case len(rest) < 3:
			return scans
		default:
			if marker == sos {
				scans++
			}
			size := int(binary.BigEndian.Uint16(rest[1:]))
			rest = rest[min(1+size, len(rest)):]
		}
	}
}
