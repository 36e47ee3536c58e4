package points

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/internal/listing"
	"github.com/pinion-gpu/pinion/dataset/internal/names"
)

// maxPCDHeader is far more than the longest header needs, comments included.
const maxPCDHeader = 64 << 10

// pcdVersions are those that differ in nothing that is read here: 0.5 has no
// VIEWPOINT.
var pcdVersions = map[string]bool{".5": true, ".6": true, ".7": true}

// pcdHeader is the header of a .pcd file:
// https://pointclouds.org/documentation/tutorials/pcd_file_format.html
type pcdHeader struct {
	fields  []pcdField
	points  int
	stride  int // bytes of a point in binary data
	numbers int // of a point
	data    string
	bytes   int64 // of the header; data follows
}

// pcdField is one field of a point.
type pcdField struct {
	name   string
	kind   byte // I, U or F
	size   int  // bytes of a number
	count  int  // numbers
	offset int  // bytes before it in a point
	number int  // numbers before it in a point
}

func isPCD(name string) bool { return listing.HasExtension(name, []string{".pcd"}) }

// readPCDHeader reads the header of a file of that size and checks that the
// points can be in it.
func readPCDHeader(r io.ReaderAt, size int64) (h pcdHeader, err error) {
	for limit := int64(4 << 10); ; limit = maxPCDHeader {
		head := make([]byte, min(limit, size))
		n, err := r.ReadAt(head, 0)
		if err != nil && !errors.Is(err, io.EOF) {
			return h, err
		}
		h, err = parsePCDHeader(head[:n])
		if !errors.Is(err, errPCDHeaderEnd) || limit >= size || limit == maxPCDHeader {
			if err == nil {
				err = h.checkSize(size)
			}
			return h, err
		}
	}
}

var errPCDHeaderEnd = fmt.Errorf("%w: a PCD header without a DATA line", dataset.ErrDamaged)

// parsePCDHeader reads the header that a file begins with.
func parsePCDHeader(head []byte) (h pcdHeader, err error) {
	seen := map[string][]string{}
	for rest := head; ; {
		line, after, ok := bytes.Cut(rest, []byte{'\n'})
		if !ok {
			if len(seen) == 0 && !bytes.HasPrefix(head, []byte("#")) {
				return h, fmt.Errorf("%w: not a PCD file: begins with %q", dataset.ErrFormat, head[:min(len(head), 8)])
			}
			return h, errPCDHeaderEnd
		}
		rest = after
		words := strings.Fields(string(line))
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		key := words[0]
		if !pcdKeys[key] {
			return h, fmt.Errorf("%w: a PCD header with a line %.40q", dataset.ErrFormat, line)
		}
		if _, twice := seen[key]; twice {
			return h, fmt.Errorf("%w: a PCD header with two lines %s", dataset.ErrDamaged, key)
		}
		seen[key] = words[1:]
		if key == "DATA" {
			h.bytes = int64(len(head) - len(rest))
			return h, h.fill(seen)
		}
	}
}

var pcdKeys = map[string]bool{
	"VERSION": true, "FIELDS": true, "SIZE": true, "TYPE": true, "COUNT": true,
	"WIDTH": true, "HEIGHT": true, "VIEWPOINT": true, "POINTS": true, "DATA": true,
}

// fill takes the meaning of the lines.
func (h *pcdHeader) fill(lines map[string][]string) error {
	if v := strings.Join(lines["VERSION"], " "); !pcdVersions[strings.TrimPrefix(v, "0")] {
		return fmt.Errorf("%w: PCD version %.20q, want 0.5 to 0.7", dataset.ErrFormat, v)
	}
	names, sizes, kinds, counts := lines["FIELDS"], lines["SIZE"], lines["TYPE"], lines["COUNT"]
	if len(names) == 0 || len(sizes) != len(names) || len(kinds) != len(names) || counts != nil && len(counts) != len(names) {
		return fmt.Errorf("%w: a PCD header of %d FIELDS, %d SIZE, %d TYPE, %d COUNT", dataset.ErrDamaged, len(names), len(sizes), len(kinds), len(counts))
	}
	for i, name := range names {
		f := pcdField{name: name, kind: kinds[i][0], count: 1, offset: h.stride, number: h.numbers}
		var err error
		if f.size, err = strconv.Atoi(sizes[i]); err != nil || !pcdTypes[kinds[i]+sizes[i]] {
			return fmt.Errorf("%w: PCD field %.40q of TYPE %.20q and SIZE %.20q", dataset.ErrFormat, name, kinds[i], sizes[i])
		}
		if counts != nil {
			if f.count, err = strconv.Atoi(counts[i]); err != nil || f.count < 1 {
				return fmt.Errorf("%w: PCD field %.40q of COUNT %.20q", dataset.ErrDamaged, name, counts[i])
			}
		}
		if f.count > maxColumns-h.numbers {
			return fmt.Errorf("%w: PCD points of more than %d numbers", dataset.ErrTooLarge, maxColumns)
		}
		h.stride += f.size * f.count
		h.numbers += f.count
		h.fields = append(h.fields, f)
	}
	width, height := pcdCount(lines["WIDTH"]), pcdCount(lines["HEIGHT"])
	points := width * height
	if width < 0 || height < 0 || lines["POINTS"] != nil && pcdCount(lines["POINTS"]) != points {
		return fmt.Errorf("%w: a PCD header of WIDTH %.20q, HEIGHT %.20q, POINTS %.20q", dataset.ErrDamaged, lines["WIDTH"], lines["HEIGHT"], lines["POINTS"])
	}
	if points > math.MaxInt32 {
		return fmt.Errorf("%w: %d points", dataset.ErrTooLarge, points)
	}
	h.points = int(points)
	h.data = strings.Join(lines["DATA"], " ")
	return nil
}

var pcdTypes = map[string]bool{
	"I1": true, "I2": true, "I4": true, "I8": true, "U1": true, "U2": true, "U4": true, "U8": true, "F4": true, "F8": true,
}

// pcdCount returns a number of at most 31 bits, or -1 where there is none.
func pcdCount(words []string) int64 {
	if len(words) == 1 {
		if n, err := strconv.ParseUint(words[0], 10, 31); err == nil {
			return int64(n)
		}
	}
	return -1
}

// maxLZFRatio: three bytes of LZF become at most 264.
const maxLZFRatio = 88

// checkSize compares the size of the file with the least that the points take.
func (h *pcdHeader) checkSize(file int64) error {
	have, points := file-h.bytes, int64(h.points)
	var least int64
	switch h.data {
	case "ascii": // a digit and a blank or line end, but for the last
		least = max(2*points*int64(h.numbers)-1, 0)
	case "binary":
		least = points * int64(h.stride)
	case "binary_compressed":
		least = 8 + points*int64(h.stride)/maxLZFRatio
	default:
		return fmt.Errorf("%w: PCD data %.40q, want ascii, binary or binary_compressed", dataset.ErrFormat, h.data)
	}
	if have < least {
		return fmt.Errorf("%w: %d bytes of PCD data (%s), %d points need %d", dataset.ErrDamaged, have, h.data, h.points, least)
	}
	return nil
}

// pcdColumn is where one number of each point is.
type pcdColumn struct {
	pcdField
	index int // below count
}

// pick returns the columns of those fields, or of the default ones.
func (h *pcdHeader) pick(names []string) ([]pcdColumn, error) {
	if names == nil {
		names = []string{"x", "y", "z"}
		if _, err := h.field("intensity"); err == nil {
			names = append(names, "intensity")
		}
	}
	var columns []pcdColumn
	for _, name := range names {
		f, err := h.field(name)
		if err != nil {
			return nil, err
		}
		if f.count > maxColumns-len(columns) {
			return nil, fmt.Errorf("%w: points of more than %d columns", dataset.ErrTooLarge, maxColumns)
		}
		for i := range f.count {
			columns = append(columns, pcdColumn{f, i})
		}
	}
	if len(columns) == 0 {
		return nil, fmt.Errorf("%w: no fields of points", dataset.ErrArgument)
	}
	return columns, nil
}

// field returns the first field of that name.
func (h *pcdHeader) field(name string) (pcdField, error) {
	var there []string
	for _, f := range h.fields {
		if f.name == name {
			return f, nil
		}
		there = append(there, f.name)
	}
	return pcdField{}, fmt.Errorf("%w: no PCD field %.40q; there are %s", dataset.ErrFormat, name, names.Listed(there))
}
