package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/pinion-gpu/pinion/internal/errs"
	"github.com/pinion-gpu/pinion/internal/jsonscan"
	"github.com/pinion-gpu/pinion/internal/units"
)

// Errors that callers can tell apart with errors.Is.
var (
	// ErrFormat: no .safetensors file, or a type of elements that is not known.
	ErrFormat = errs.ErrFormat
	// ErrDamaged: a file that is cut short, or whose header or index
	// contradicts itself or the data.
	ErrDamaged = errs.ErrDamaged
	// ErrTooLarge: a header, an index or a shape beyond the limit.
	ErrTooLarge = errs.ErrTooLarge
	// ErrArgument: an argument that cannot be right.
	ErrArgument = errs.ErrArgument
	// ErrClosed: the file was closed before.
	ErrClosed = errs.ErrClosed
)

// MaxHeader is the longest header, in bytes: the limit of the reference
// implementation. An index may be as long.
const MaxHeader = 100_000_000

// MaxRank is the most dimensions that a tensor may have, as in NumPy and PyTorch.
// The format knows no limit; without one a header would take many times its
// length in memory.
const MaxRank = 64

const (
	lengthBytes = 8 // of the header's length
	metadataKey = "__metadata__"
	leastEntry  = len(`"":{"dtype":"U8","shape":[],"data_offsets":[0,0]}`)
)

// Tensor says where a tensor is and what it holds.
type Tensor struct {
	Name  string
	DType DType
	Shape []int64 // rows first; empty for a scalar

	// Offset is where the data begin in the file, and Bytes how many there are.
	Offset, Bytes int64

	// File is what the tensor is in; nil in a header that was read by itself.
	File *File
}

// Elements returns the number of elements.
func (t Tensor) Elements() int64 {
	n := int64(1)
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// Header is what a file says of itself.
type Header struct {
	// Tensors are in the order of their data, which follow each other without
	// a gap.
	Tensors []Tensor

	// Metadata is free text about the file; nil where there is none.
	Metadata map[string]string

	// Bytes is where the data begin: the length of the header and the eight
	// bytes before it.
	Bytes int64

	byName map[string]int // in Tensors
}

// Find returns the tensor of that name.
func (h *Header) Find(name string) (Tensor, bool) {
	i, ok := h.byName[name]
	if !ok {
		return Tensor{}, false
	}
	return h.Tensors[i], true
}

// Sniff reports whether a file of that size, which begins with head, looks like
// a .safetensors file.
func Sniff(head []byte, size int64) bool {
	return len(head) > lengthBytes && head[lengthBytes] == '{' && size >= lengthBytes+2 &&
		binary.LittleEndian.Uint64(head) <= uint64(size-lengthBytes)
}

// ReadHeader reads and checks the header of a file of that size. It fails with
// [ErrFormat] for what is no .safetensors file or has a type that is not known,
// [ErrDamaged] for one that contradicts itself, and [ErrTooLarge] for a header
// beyond [MaxHeader] or a shape beyond [MaxRank].
func ReadHeader(r io.ReaderAt, size int64) (*Header, error) {
	var head [lengthBytes + 1]byte
	n, err := r.ReadAt(head[:min(int64(len(head)), size)], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if n < len(head) || head[lengthBytes] != '{' {
		return nil, fmt.Errorf("%w: not a safetensors file: %s", ErrFormat, describe(head[:n]))
	}
	length := binary.LittleEndian.Uint64(head[:])
	if length > uint64(size-lengthBytes) {
		return nil, fmt.Errorf("%w: a safetensors header of %d bytes in a file of %d", ErrDamaged, length, size)
	}
	if length > MaxHeader {
		return nil, fmt.Errorf("%w: a safetensors header of %d bytes, the limit is %d", ErrTooLarge, length, MaxHeader)
	}
	text := make([]byte, length)
	if n, err := r.ReadAt(text, lengthBytes); n < len(text) {
		if errors.Is(err, io.EOF) {
			err = fmt.Errorf("%w: the file has shrunk: %d of %d bytes of the header", ErrDamaged, n, length)
		}
		return nil, err
	}
	start := lengthBytes + int64(length)
	h, err := parse(text, start, size-start)
	if err != nil {
		return nil, fmt.Errorf("safetensors header: %w", err)
	}
	return h, nil
}

// describe tells what a file may be that begins with head.
func describe(head []byte) string {
	begins := fmt.Sprintf("begins with %q", head)
	switch {
	case len(head) == 0:
		return "empty"
	case bytes.HasPrefix(head, []byte("version h")):
		return begins + ", as a Git LFS pointer does: git lfs pull gets the file itself"
	case bytes.HasPrefix(head, []byte("PK\x03\x04")):
		return begins + ", as a pickled checkpoint of PyTorch does: safetensors.torch.save_file converts it"
	case bytes.HasPrefix(head, []byte("GGUF")):
		return begins + ", as a model of llama.cpp does"
	case head[0] == '<':
		return begins + ", as a web page does, perhaps in place of a download"
	case len(bytes.Trim(head, "\x00")) == 0:
		return begins + ", as a download does that is not complete"
	}
	return begins
}

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrDamaged, fmt.Errorf(format, args...))
}

// parse reads the JSON text of a header, behind which there are so many bytes
// of data.
func parse(text []byte, start, data int64) (*Header, error) {
	if err := checkText(text); err != nil {
		return nil, err
	}
	// As large as they will be: growing takes twice the memory.
	entries := min(bytes.Count(text, []byte{'{'}), len(text)/leastEntry)
	h := &Header{Bytes: start, byName: make(map[string]int, entries), Tensors: make([]Tensor, 0, entries)}
	hasMetadata := false
	err := jsonscan.Object(text, func(key, value []byte) error {
		if string(key) == metadataKey {
			if hasMetadata {
				return damaged("%q twice", key)
			}
			hasMetadata = true
			var err error
			if h.Metadata, err = parseMetadata(value); err != nil {
				return damaged("%s: %.200w", metadataKey, err)
			}
			return nil
		}
		if _, twice := h.byName[string(key)]; twice {
			return damaged("%.80q twice", key)
		}
		t, err := parseTensor(value)
		if err != nil {
			return fmt.Errorf("%.80q: %w", key, err)
		}
		t.Name = string(key)
		h.byName[t.Name] = 0 // until they are in order
		h.Tensors = append(h.Tensors, t)
		return nil
	})
	if err != nil {
		if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrFormat) && !errors.Is(err, ErrTooLarge) {
			err = damaged("%w", err)
		}
		return nil, err
	}
	slices.SortFunc(h.Tensors, func(a, b Tensor) int {
		return cmp.Or(cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Bytes, b.Bytes), cmp.Compare(a.Name, b.Name))
	})
	end := int64(0)
	for i := range h.Tensors {
		t := &h.Tensors[i]
		if t.Offset != end {
			return nil, damaged("%.80q begins at %d, the tensor before it ends at %d", t.Name, t.Offset, end)
		}
		size, err := sizeOf(t.DType, t.Shape)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%.80q: %w", t.Name, err)
		case size != t.Bytes:
			return nil, damaged("%.80q: %d bytes, shape %s and type %s need %d", t.Name, t.Bytes, shapeText(t.Shape), t.DType, size)
		}
		end += t.Bytes
		t.Offset += start
		h.byName[t.Name] = i
	}
	switch {
	case end > data:
		return nil, damaged("cut short: the tensors have %d bytes, the file has %d of them", end, data)
	case end < data:
		return nil, damaged("%s behind the %d of the tensors", units.Count(data-end, "byte"), end)
	}
	return h, nil
}

// checkText checks what JSON does not, or leaves to its readers.
func checkText(text []byte) error {
	if !utf8.Valid(text) {
		return damaged("not UTF-8")
	}
	if at := loneSurrogate(text); at >= 0 {
		return damaged("half of a surrogate pair, %s", text[at:min(at+6, len(text))])
	}
	return nil
}

// loneSurrogate returns where in JSON text an escaped half of a surrogate pair
// stands alone, or -1. It is no character, and encoding/json makes the same one
// of all of them, so that different names would become equal.
func loneSurrogate(text []byte) int {
	for at := 0; ; {
		next := bytes.IndexByte(text[at:], '\\')
		if next < 0 {
			return -1
		}
		at += next
		switch unit := escape(text[at:]); {
		case unit >= 0xd800 && unit < 0xdc00:
			if low := escape(text[at+6:]); low < 0xdc00 || low > 0xdfff {
				return at
			}
			at += 12
		case unit >= 0xdc00 && unit < 0xe000:
			return at
		default:
			at += 2
		}
		if at >= len(text) {
			return -1
		}
	}
}

// escape returns the number that \uXXXX at the start of text stands for, or -1.
func escape(text []byte) (unit rune) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return -1
	}
	for _, c := range text[2:6] {
		switch {
		case c >= '0' && c <= '9':
			unit = unit<<4 | rune(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			unit = unit<<4 | rune(c|0x20-'a'+10)
		default:
			return -1
		}
	}
	return unit
}

// parseMetadata reads an object of strings; null is none.
func parseMetadata(value []byte) (map[string]string, error) {
	if string(value) == "null" {
		return nil, nil
	}
	return parseStrings(value)
}

// parseStrings reads an object of strings.
func parseStrings(value []byte) (map[string]string, error) {
	n := 0
	if err := jsonscan.Object(value, func([]byte, []byte) error { n++; return nil }); err != nil {
		return nil, err
	}
	m := make(map[string]string, n) // growing takes twice the memory
	return m, jsonscan.Object(value, func(key, value []byte) error {
		if _, twice := m[string(key)]; twice {
			return fmt.Errorf("%.80q twice", key)
		}
		s, err := parseString(value)
		if err != nil {
			return fmt.Errorf("%.80q: %w", key, err)
		}
		m[string(key)] = s
		return nil
	})
}

func parseString(value []byte) (string, error) {
	if value[0] != '"' {
		return "", fmt.Errorf("%.40s is no string", value)
	}
	s, err := jsonscan.Unquote(value)
	return string(s), err
}

// members are what an entry has.
var members = [...]string{"dtype", "shape", "data_offsets"}

// parseTensor reads an entry. Its Offset is still that from the end of the
// header. Members that the format does not know are ignored, as the reference
// implementation does.
func parseTensor(value []byte) (t Tensor, err error) {
	var seen [len(members)]bool
	err = jsonscan.Object(value, func(key, value []byte) (err error) {
		i := slices.Index(members[:], string(key))
		if i < 0 {
			return nil
		}
		if seen[i] {
			return fmt.Errorf("%s twice", key)
		}
		seen[i] = true
		switch members[i] {
		case "dtype":
			t.DType, err = parseDType(value)
		case "shape":
			t.Shape, err = parseShape(value)
		default:
			t.Offset, t.Bytes, err = parseOffsets(value)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", members[i], err)
		}
		return nil
	})
	switch {
	case errors.Is(err, ErrFormat), errors.Is(err, ErrTooLarge):
		return t, err
	case err != nil:
		return t, damaged("%.200w", err)
	}
	var missing []string
	for i, there := range seen {
		if !there {
			missing = append(missing, members[i])
		}
	}
	if len(missing) > 0 {
		return t, damaged("has no %s", strings.Join(missing, " and no "))
	}
	return t, nil
}

func parseDType(value []byte) (DType, error) {
	name, err := parseString(value)
	if err != nil {
		return "", err
	}
	known, ok := types[name]
	if !ok {
		return "", fmt.Errorf("%w: type %.20q", ErrFormat, name)
	}
	return known.name, nil
}

func parseShape(value []byte) ([]int64, error) {
	rank := bytes.Count(value, []byte{','}) + 1
	if rank > MaxRank {
		return nil, fmt.Errorf("%w: %d dimensions, the limit is %d", ErrTooLarge, rank, MaxRank)
	}
	return parseNumbers(make([]int64, 0, rank), value)
}

func parseOffsets(value []byte) (offset, size int64, err error) {
	var buffer [2]int64
	if n := bytes.Count(value, []byte{','}) + 1; n > len(buffer) {
		return 0, 0, fmt.Errorf("%d numbers, not a start and an end", n)
	}
	offsets, err := parseNumbers(buffer[:0], value)
	if err != nil {
		return 0, 0, err
	}
	if len(offsets) < 2 || offsets[1] < offsets[0] {
		return 0, 0, fmt.Errorf("%d, not a start and an end", offsets)
	}
	return offsets[0], offsets[1] - offsets[0], nil
}

// parseNumbers appends an array of whole numbers from 0 on.
func parseNumbers(numbers []int64, value []byte) ([]int64, error) {
	if value[0] != '[' {
		return nil, fmt.Errorf("%.40s is no array", value)
	}
	inside := bytes.TrimSpace(value[1 : len(value)-1])
	if len(inside) == 0 {
		return numbers, nil
	}
	for part := range bytes.SplitSeq(inside, []byte{','}) {
		part = bytes.TrimSpace(part)
		n, ok := jsonscan.ParseUint(part)
		if !ok || n > math.MaxInt64 {
			return nil, fmt.Errorf("%.40s is no whole number from 0 to 2^63-1", part)
		}
		numbers = append(numbers, int64(n))
	}
	return numbers, nil
}

// sizeOf returns the bytes of a tensor. Like the reference implementation it
// multiplies in the order of the shape and fails where that overflows, also if a
// dimension of 0 follows.
func sizeOf(d DType, shape []int64) (int64, error) {
	bits := int64(1)
	for i := range len(shape) + 1 {
		n := d.Bits() // the last factor
		if i < len(shape) {
			n = shape[i]
		}
		if n < 0 || n > 0 && bits > math.MaxInt64/n {
			return 0, damaged("shape %s of type %s is more than 2^63-1 bits", shapeText(shape), d)
		}
		bits *= n
	}
	if bits%8 != 0 {
		return 0, damaged("shape %s of type %s is %d bits, no whole number of bytes", shapeText(shape), d, bits)
	}
	return bits / 8, nil
}

// shapeText is a list of numbers for a message.
func shapeText(shape []int64) string {
	const most = 8
	if len(shape) <= most {
		return fmt.Sprint(shape)
	}
	return fmt.Sprintf("%d and %d more", shape[:most], len(shape)-most)
}
