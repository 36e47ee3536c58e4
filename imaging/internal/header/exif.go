package header

import (
	"bytes"
	"encoding/binary"
)

// Upright is the orientation of a picture that is stored as it is looked at, and
// of one that says nothing.
const (
	Upright = 1
	last    = 8 // of the orientations that there are
)

// Orientation returns how the picture of a file of that format lies, by the
// numbers of EXIF: [Upright] where there is none, or none that can be read. It
// looks at the headers of the file's parts only.
func Orientation(f Format, data []byte) int {
	switch f {
	case JPEG:
		return tiffOrientation(exifOfJPEG(data))
	case PNG:
		return tiffOrientation(exifOfPNG(data))
	}
	return tiffOrientation(exifOfWebP(data))
}

var exifName = []byte("Exif\x00\x00")

// exifOfJPEG returns the content of the first APP1 segment of EXIF before the
// pixels.
func exifOfJPEG(data []byte) []byte {
	const app1, scan = 0xe1, 0xda
	for rest := data[2:]; len(rest) >= 4 && rest[0] == 0xff; {
		marker := rest[1]
		if marker == 0xff { // a byte that fills up
			rest = rest[1:]
			continue
		}
		size := int(binary.BigEndian.Uint16(rest[2:]))
		if marker == scan || size < 2 || size > len(rest)-2 {
			return nil
		}
		if body := rest[4 : 2+size]; marker == app1 && bytes.HasPrefix(body, exifName) {
			return body
		}
		rest = rest[2+size:]
	}
	return nil
}

// exifOfPNG returns the content of the chunk eXIf.
func exifOfPNG(data []byte) []byte {
	const head, sum = 8, 4
	for rest := data[8:]; len(rest) >= head; {
		size := int64(binary.BigEndian.Uint32(rest))
		if size > int64(len(rest)-head) {
			return nil
		}
		if string(rest[4:head]) == "eXIf" {
			return rest[head:][:size]
		}
		rest = rest[min(head+size+sum, int64(len(rest))):]
	}
	return nil
}

// exifOfWebP returns the content of the chunk EXIF.
func exifOfWebP(data []byte) []byte {
	const head = 8
	for rest := data[12:]; len(rest) >= head; {
		size := int64(binary.LittleEndian.Uint32(rest[4:]))
		if size > int64(len(rest)-head) {
			return nil
		}
		if string(rest[:4]) == "EXIF" {
			return rest[head:][:size]
		}
		rest = rest[min(head+size+size&1, int64(len(rest))):]
	}
	return nil
}

// tiffOrientation reads the tag from the first directory of EXIF data, which
// is a TIFF file.
func tiffOrientation(exif []byte) int {
	const (
		tag         = 0x0112
		short, long = 3, 4 // the standard's type, and one that some write
		entry       = 12
	)
	exif = bytes.TrimPrefix(exif, exifName)
	var order binary.ByteOrder
	switch {
	case bytes.HasPrefix(exif, []byte("II*\x00")):
		order = binary.LittleEndian
	case bytes.HasPrefix(exif, []byte("MM\x00*")):
		order = binary.BigEndian
	}
	if order == nil || len(exif) < 8 {
		return Upright
	}
	at := int64(order.Uint32(exif[4:]))
	if at > int64(len(exif)-2) {
		return Upright
	}
	count := order.Uint16(exif[at:])
	list := exif[at+2:]
	for ; count > 0 && len(list) >= entry; count-- {
		if kind := order.Uint16(list[2:]); order.Uint16(list) == tag && (kind == short || kind == long) {
			o := uint32(order.Uint16(list[8:]))
			if kind == long {
				o = order.Uint32(list[8:])
			}
			if o >= Upright && o <= last {
				return int(o)
			}
			return Upright
		}
		list = list[entry:]
	}
	return Upright
}
