package imaging

// scaler makes the rows of a resized picture one after the other. As in
// Pillow the horizontal pass rounds to samples, then the vertical pass works on
// those. The passes alternate, so that only the rows under one vertical filter
// are held, and they stay in the cache.
//
// A transposed scaler does the vertical pass first: in a picture that is
// stored lying on its side, that is the horizontal pass of the upright one.
type scaler struct {
	pixel      pixel // grey for a plane, too
	x, y       *table
	transposed bool

	ring    []byte             // the last rows that the first pass took in
	slots   int                // rows of the ring
	pitch   int                // bytes from one to the next
	lines   [][]byte           // those rows of the ring that the next output row needs
	scratch []byte             // rows that must be converted
	next    int                // the first source row that the ring did not get
	between [rowsAtOnce][]byte // of a transposed scaler: rows between the passes
	floats  []float64          // of a deep scaler: a row of samples, or of sums
}

// rowsAtOnce is how many rows the horizontal pass takes together: they share
// the weights, which are a good part of its loads.
const rowsAtOnce = 4

// padded is n bytes and what the passes may touch beyond them: the portable
// vertical pass works on 8 bytes at a time, and the horizontal pass of vector
// code writes a byte too many.
func padded(n int) int { return (n + 8) &^ 7 }

// begin makes s ready for the rows of another picture.
func (s *scaler) begin(p pixel, x, y *table, transposed bool) {
	s.pixel, s.x, s.y, s.transposed = p, x, y, transposed
	s.next = 0
	width := x.N
	if transposed {
		width = x.hi - x.lo
	}
	s.pitch = padded(p.bytes() * width)
	s.slots = y.taps + rowsAtOnce - 1
	if cap(s.ring) > keepBytes { // after a huge picture that became tiny
		s.ring = nil
	}
	s.ring = resized(s.ring, s.pitch*s.slots)
	s.scratch = resized(s.scratch, rowsAtOnce*padded(p.bytes()*(x.hi-x.lo)))
	s.lines = resized(s.lines, y.stride)
	if transposed {
		for i := range s.between {
			s.between[i] = resized(s.between[i], p.bytes()*width)
		}
	}
	if p.deep {
		s.floats = resized(s.floats, p.channels()*max(x.N, x.hi-x.lo))
	}
}

// rows writes up to rowsAtOnce output rows of src, whose samples lie one after
// the other: those that l makes as number i and after. All are asked for, in
// that order. dst have padded capacity if s is transposed.
func (s *scaler) rows(dst [][]byte, src rows, l *layout, i int) {
	if !s.transposed {
		for j, row := range dst {
			s.row(row, src, l.output(i+j))
		}
		return
	}
	between := s.between[:len(dst)]
	for j, row := range between {
		s.row(row, src, l.output(i+j))
	}
	s.horizontal(dst, between)
}

// row writes output row k of the vertical pass.
func (s *scaler) row(dst []byte, src rows, k int) {
	y := s.y
	start := int(y.start[k])
	for s.next = max(s.next, start); s.next < start+y.taps; {
		n := min(rowsAtOnce, y.hi-s.next)
		s.take(src, n)
		s.next += n
	}
	at := start % s.slots
	for t := range s.lines { // those beyond the taps have no weight
		s.lines[t] = s.ring[at*s.pitch:][:s.pitch]
		if at++; at == s.slots {
			at = 0
		}
	}
	if s.pixel.deep {
		verticalDeep(dst, s.lines[:y.taps], y, k, s.floats)
		return
	}
	vertical(dst, s.lines, y, k)
}

// take brings n rows into the ring.
func (s *scaler) take(src rows, n int) {
	x := s.x
	size := s.pixel.bytes() * (x.hi - x.lo)
	var in, out [rowsAtOnce][]byte
	for i := range n {
		in[i] = src.row(s.next+i, x.lo, x.hi, s.scratch[i*padded(size):][:size])
		out[i] = s.ring[(s.next+i)%s.slots*s.pitch:][:s.pitch]
		if s.transposed {
			copy(out[i], in[i])
		}
	}
	if !s.transposed {
		s.horizontal(out[:n], in[:n])
	}
}

// horizontal scales up to rowsAtOnce rows. They begin at source sample x.lo.
func (s *scaler) horizontal(dst, src [][]byte) {
	size := s.pixel.bytes()
	n := size * s.x.N
	switch {
	case s.x.identity():
		for i := range dst {
			copy(dst[i][:n], src[i][size*(s.x.Offset+s.x.First-s.x.lo):])
		}
	case s.pixel.deep:
		for i := range dst {
			horizontalDeep(dst[i], src[i], s.x, s.pixel.channels(), s.floats)
		}
	case !s.pixel.grey:
		horizontalRGB(dst, src, s.x)
	default:
		for i := range dst {
			horizontalPlane(dst[i][:n], src[i], s.x)
		}
	}
}
