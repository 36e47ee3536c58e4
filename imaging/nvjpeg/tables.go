package nvjpeg

import "encoding/binary"

// quantization reads a segment of quantization tables: T.81, B.2.4.1.
func (p *parser) quantization(b []byte) error {
	for len(b) > 0 {
		bytes, id := 1+int(b[0]>>4), b[0]&15
		if bytes > 2 || id > 3 || len(b) < 1+64*bytes {
			return p.damaged("quantization table %d of %d bytes", id, len(b))
		}
		p.quant[id] = true
		b = b[1+64*bytes:]
	}
	return nil
}

// huffman reads a segment of Huffman tables: T.81, B.2.4.2. A table of more
// codes than its lengths have room for could lead a decoder astray.
func (p *parser) huffman(b []byte) error {
	const header = 1 + 16
	for len(b) > 0 {
		class, id := b[0]>>4, b[0]&15
		if class > 1 || id > 3 || len(b) < header {
			return p.damaged("Huffman table %d of class %d, %d bytes", id, class, len(b))
		}
		codes, room := 0, 1
		for _, n := range b[1:header] {
			codes += int(n)
			room = 2*room - int(n)
			if room < 0 {
				return p.damaged("Huffman table %d of class %d has too many codes", id, class)
			}
		}
		if codes == 0 || codes > 256 || len(b) < header+codes {
			return p.damaged("Huffman table %d of class %d has %d codes, %d bytes", id, class, codes, len(b))
		}
		if class == 0 {
			for _, bits := range b[header : header+codes] {
				if bits > 15 {
					return p.damaged("Huffman table %d has differences of %d bits", id, bits)
				}
			}
		}
		p.huff[class][id] = true
		b = b[header+codes:]
	}
	return nil
}

// restartInterval reads B.2.4.4.
func (p *parser) restartInterval(b []byte) error {
	if len(b) != 2 {
		return p.damaged("restart interval of %d bytes", len(b))
	}
	p.restart = int(binary.BigEndian.Uint16(b))
	return nil
}
