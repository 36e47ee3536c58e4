package npy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/internal/stored"
	"github.com/pinion-gpu/pinion/dtype"
)

const (
	magic = "\x93NUMPY"
	// maxHeader is far more than the longest header of an array of plain
	// numbers needs.
	maxHeader = 64 << 10
	maxDims   = 64 // NumPy's own limit
	// headerRoom is what a header takes with all that comes before its text.
	headerRoom = 12 + maxHeader
)

// header is the header of a .npy file:
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
type header struct {
	stored.Type
	fortran bool  // the first axis is the fastest
	shape   []int // at least one axis, all positive but for the first, which may be 0
	bytes   int64 // of the header; elements follow
}

var types = map[string]stored.Type{
	"b1": stored.Of(dtype.U8), "u1": stored.Of(dtype.U8), "i1": stored.Of(dtype.I8),
	"u2": stored.Of(dtype.U16), "i2": stored.Of(dtype.I16), "i4": stored.Of(dtype.I32), "i8": stored.Of(dtype.I64),
	"f2": stored.Of(dtype.F16), "f4": stored.Of(dtype.F32), "f8": stored.Of(dtype.F64),
	"u4": stored.Unsigned(4), "u8": stored.Unsigned(8),
}

func readHeader(r io.ReaderAt) (header, error) {
	var head [12]byte
	n, err := r.ReadAt(head[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return header{}, err
	}
	if !strings.HasPrefix(string(head[:n]), magic) {
		return header{}, fmt.Errorf("%w: not a NumPy file: begins with %q", dataset.ErrFormat, head[:min(n, len(magic))])
	}
	// Magic, two bytes of version, length of the text: 2 bytes or 4.
	version := head[6]
	textAt, textBytes := int64(10), int64(binary.LittleEndian.Uint16(head[8:]))
	if version >= 2 {
		textAt, textBytes = 12, int64(binary.LittleEndian.Uint32(head[8:]))
	}
	switch {
	case int64(n) < textAt:
		return header{}, fmt.Errorf("%w: the NumPy header ends after %d bytes", dataset.ErrDamaged, n)
	case version < 1 || version > 3:
		return header{}, fmt.Errorf("%w: NumPy file version %d.%d, want 1 to 3", dataset.ErrFormat, version, head[7])
	case textBytes > maxHeader:
		return header{}, fmt.Errorf("%w: a NumPy header of %d bytes, the limit is %d", dataset.ErrDamaged, textBytes, maxHeader)
	}
	text := make([]byte, textBytes)
	if n, err := r.ReadAt(text, textAt); n < len(text) {
		if !errors.Is(err, io.EOF) {
			return header{}, err
		}
		return header{}, fmt.Errorf("%w: the NumPy header has %d bytes, the file %d of them", dataset.ErrDamaged, textBytes, n)
	}
	h, err := parseHeader(string(text))
	h.bytes = textAt + textBytes
	return h, err
}

// sample returns the form of a sample of an array whose first axis counts them.
func (h header) sample() dataset.Spec { return dataset.Spec{Shape: h.shape[1:], DType: h.DType} }

// checkSamples fails for an array whose first axis counts samples, and has none.
func (h header) checkSamples() error {
	if h.shape[0] == 0 {
		return fmt.Errorf("%w: a NumPy array of shape %v", dataset.ErrEmpty, h.shape)
	}
	return nil
}

// checkSize compares the size of the file with what the header promises.
func (h header) checkSize(file int64) error {
	want := h.bytes + int64(h.Size)*elements(h.shape)
	if file != want {
		return fmt.Errorf("%w: the file has %d bytes, its header (%s) promises %d", dataset.ErrDamaged, file, dataset.Spec{Shape: h.shape, DType: h.DType}, want)
	}
	return nil
}

func elements(shape []int) int64 {
	n := int64(1)
	for _, d := range shape {
		n *= int64(d)
	}
	return n
}

// parseHeader reads the text: a Python dictionary with exactly the keys
// descr, fortran_order and shape.
func parseHeader(text string) (h header, err error) {
	p := literal{rest: text}
	seen := map[string]bool{}
	p.want("{")
	for p.err == nil && !p.take("}") {
		key := p.str()
		p.want(":")
		if seen[key] {
			p.fail("key %q twice", key)
		}
		seen[key] = true
		switch key {
		case "descr":
			h.Type, err = p.descr()
		case "fortran_order":
			h.fortran = p.boolean()
		case "shape":
			h.shape = p.tuple()
		default:
			p.fail("unknown key %q", key)
		}
		if p.err == nil && err != nil {
			return header{}, err
		}
		if !p.take(",") {
			p.want("}")
			break
		}
	}
	if p.space(); p.err == nil && p.rest != "" {
		p.fail("%d bytes after the dictionary", len(p.rest))
	}
	if p.err == nil && len(seen) != 3 {
		p.fail("only %d of the keys descr, fortran_order, shape", len(seen))
	}
	if p.err != nil {
		return header{}, p.err
	}
	h.fortran = h.fortran && !orderless(h.shape)
	return h, checkShape(h)
}

// orderless reports whether Fortran order is C order: at most one axis is
// longer than 1. Some writers say Fortran of all arrays.
func orderless(shape []int) bool {
	long := 0
	for _, d := range shape {
		if d > 1 {
			long++
		}
	}
	return long <= 1
}

func checkShape(h header) error {
	if len(h.shape) == 0 {
		return fmt.Errorf("%w: a NumPy scalar; want an array whose first axis counts samples", dataset.ErrFormat)
	}
	left := int64(math.MaxInt64/2) / int64(h.DType.Size()) // room for the header
	for i, d := range h.shape {
		if d == 0 && i == 0 {
			continue
		}
		if d == 0 {
			return fmt.Errorf("%w: a NumPy array of shape %v", dataset.ErrEmpty, h.shape)
		}
		if left /= int64(d); left == 0 {
			return fmt.Errorf("%w: a NumPy array of shape %v and type %v", dataset.ErrTooLarge, h.shape, h.DType)
		}
		if i > 0 && elements(h.shape[1:i+1]) > math.MaxInt/int64(h.DType.Size()) {
			return fmt.Errorf("%w: NumPy samples of shape %v and type %v", dataset.ErrTooLarge, h.shape[1:], h.DType)
		}
	}
	return nil
}

// literal reads the few Python literals of a header. The first error stays.
type literal struct {
	rest string
	err  error
}

func (p *literal) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("%w: NumPy header: %s", dataset.ErrDamaged, fmt.Sprintf(format, args...))
	}
}

func (p *literal) space() { p.rest = strings.TrimLeft(p.rest, " \t\r\n") }

func (p *literal) take(token string) bool {
	p.space()
	rest, ok := strings.CutPrefix(p.rest, token)
	p.rest = rest
	return ok
}

func (p *literal) want(token string) {
	if !p.take(token) {
		p.fail("%q expected before %.20q", token, p.rest)
	}
}

// str reads 'text' or "text"; nothing that needs an escape occurs.
func (p *literal) str() string {
	quote := "'"
	if !p.take(quote) {
		quote = `"`
		p.want(quote)
	}
	s, rest, ok := strings.Cut(p.rest, quote)
	if !ok || strings.ContainsAny(s, "\\\n") {
		p.fail("string expected before %.20q", p.rest)
		return ""
	}
	p.rest = rest
	return s
}

func (p *literal) boolean() bool {
	if p.take("True") {
		return true
	}
	p.want("False")
	return false
}

// tuple reads (), (1,), (1, 2) or (1, 2,). Python 2 wrote 1L for 1.
func (p *literal) tuple() []int {
	var t []int
	p.want("(")
	for p.err == nil && !p.take(")") {
		p.space()
		end := strings.IndexFunc(p.rest, func(r rune) bool { return r < '0' || r > '9' })
		v, err := strconv.Atoi(p.rest[:max(end, 0)])
		if err != nil || len(t) == maxDims {
			p.fail("bad shape before %.20q", p.rest)
			return nil
		}
		t = append(t, v)
		p.rest = strings.TrimPrefix(p.rest[end:], "L")
		if !p.take(",") {
			p.want(")")
			if len(t) == 1 {
				p.fail("shape (%d) without a comma is no tuple", v)
			}
			break
		}
	}
	return t
}

// descr reads the element type. A list describes a structure.
func (p *literal) descr() (t stored.Type, err error) {
	p.space()
	if strings.HasPrefix(p.rest, "[") || strings.HasPrefix(p.rest, "(") {
		return t, fmt.Errorf("%w: a NumPy array of structures, such as records; save each of their fields as an array of its own", dataset.ErrFormat)
	}
	s := p.str()
	if s == "" {
		p.fail("no element type")
		return t, nil
	}
	order, code := s[0], s[1:]
	t, ok := types[code]
	switch {
	case strings.HasPrefix(code, "O"):
		return t, fmt.Errorf("%w: a NumPy array of Python objects (%q)", dataset.ErrFormat, s)
	case !ok || !strings.ContainsRune("<>|", rune(order)):
		return t, fmt.Errorf("%w: a NumPy array of type %q; want bool, uint8 to uint64, int8 to int64 or float16 to float64", dataset.ErrFormat, s)
	case order == '|' && t.Size > 1:
		p.fail("type %q has no byte order", s)
	}
	t.BigEndian = order == '>' && t.Size > 1
	return t, nil
}
