package imaging

// scaler makes the rows of a resized picture one after the other. As in
// Pillow the horizontal pass rounds to bytes, then the vertical pass works on
// those. The passes alternate row by row, so that only the rows under one
// vertical filter are held, and they stay in the cache.
type scaler struct {
	channels int // bytes per sample: 3 for RGB, 1 for a plane
	x, y     *filter

	line  []byte   // one source row, when it must be converted
	ring  []byte   // the last rows that were scaled horizontally
	lines [][]byte // those rows of the ring that the next output row needs
	next  int      // the first source row that the ring did not get
}

// begin makes s ready for the rows of another picture.
func (s *scaler) begin(channels int, x, y *filter) {
	s.channels, s.x, s.y, s.next = channels, x, y, 0
	s.line = resized(s.line, channels*(x.hi-x.lo))
	s.ring = resized(s.ring, s.pitch()*y.taps)
	s.lines = resized(s.lines, y.taps)
}

// pitch is the length of a row in the ring: the portable vertical pass works
// on 8 bytes at a time.
func (s *scaler) pitch() int { return (s.channels*s.x.n + 7) &^ 7 }

// row writes output row i of src, whose samples lie one after the other. Rows
// are asked for in order.
func (s *scaler) row(dst []byte, src rows, i int) {
	y, pitch := s.y, s.pitch()
	start := int(y.start[i])
	for s.next = max(s.next, start); s.next < start+y.taps; s.next++ {
		line := src.row(s.next, s.x.lo, s.x.hi, s.line)
		s.horizontal(s.ring[s.next%y.taps*pitch:][:s.channels*s.x.n], line)
	}
	for t := range s.lines {
		s.lines[t] = s.ring[(start+t)%y.taps*pitch:][:pitch]
	}
	vertical(dst, s.lines, y.weight[i*y.stride:][:y.taps])
}

// horizontal scales one row. src begins at source sample x.lo.
func (s *scaler) horizontal(dst, src []byte) {
	switch {
	case s.x.identity():
		copy(dst, src[s.channels*(s.x.first-s.x.lo):])
	case s.channels == 3:
		horizontalRGB(dst, src, s.x)
	default:
		horizontalPlane(dst, src, s.x)
	}
}
