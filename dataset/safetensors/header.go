package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/internal/file"
	"github.com/pinion-gpu/pinion/dataset/internal/names"
	"github.com/pinion-gpu/pinion/dataset/internal/stored"
	"github.com/pinion-gpu/pinion/dtype"
)

// maxHeader is far more than the header of a model with a hundred
// thousand tensors needs. It bounds the memory that a hostile file takes.
const (
	maxHeader = 16 << 20
	maxDims   = 64
)

// entry is one tensor of a .safetensors header:
// https://github.com/huggingface/safetensors#format
type entry struct {
	name    string
	DType   string  `json:"dtype"`
	Shape   []int64 `json:"shape"`
	Offsets []int64 `json:"data_offsets"` // begin and end behind the header
}

var types = map[string]stored.Type{
	"BOOL": stored.Of(dtype.U8), "U8": stored.Of(dtype.U8), "I8": stored.Of(dtype.I8), "U16": stored.Of(dtype.U16), "I16": stored.Of(dtype.I16),
	"I32": stored.Of(dtype.I32), "I64": stored.Of(dtype.I64), "U32": stored.Unsigned(4), "U64": stored.Unsigned(8),
	"F16": stored.Of(dtype.F16), "BF16": stored.Of(dtype.BF16), "F32": stored.Of(dtype.F32), "F64": stored.Of(dtype.F64),
}

// begins reports whether a file of that size begins as a .safetensors
// file: the length of the header in 8 bytes, then a JSON object.
func begins(head []byte, size int64) bool {
	return len(head) > 8 && head[8] == '{' && size >= 10 && binary.LittleEndian.Uint64(head) <= uint64(size-8)
}

// readHeader returns the tensors in the order of their data, and where
// the data begin.
func readHeader(r io.ReaderAt, size int64) ([]entry, int64, error) {
	var head [9]byte
	n, err := r.ReadAt(head[:], 0)
	if err != nil && err != io.EOF {
		return nil, 0, err
	}
	if n < len(head) || head[8] != '{' {
		return nil, 0, fmt.Errorf("%w: not a safetensors file: begins with %q", dataset.ErrFormat, head[:n])
	}
	length := binary.LittleEndian.Uint64(head[:])
	if length > uint64(size-8) {
		return nil, 0, fmt.Errorf("%w: a safetensors header of %d bytes in a file of %d", dataset.ErrDamaged, length, size)
	}
	if length > maxHeader {
		return nil, 0, fmt.Errorf("%w: a safetensors header of %d bytes, the limit is %d", dataset.ErrTooLarge, length, maxHeader)
	}
	text := make([]byte, length)
	if err := file.ReadFull(r, text, 8); err != nil {
		return nil, 0, err
	}
	start := 8 + int64(length)
	entries, err := parseHeader(text, size-start)
	return entries, start, err
}

// parseHeader reads the JSON text. The tensors must cover all data
// bytes without a gap or an overlap, as the format demands.
func parseHeader(text []byte, data int64) ([]entry, error) {
	damaged := func(format string, args ...any) error {
		return fmt.Errorf("%w: safetensors header: %s", dataset.ErrDamaged, fmt.Sprintf(format, args...))
	}
	if !utf8.Valid(text) {
		return nil, damaged("not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return nil, damaged("no JSON object")
	}
	var entries []entry
	seen := map[string]bool{}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, damaged("%v", err)
		}
		name, _ := key.(string)
		if seen[name] {
			return nil, damaged("%.80q twice", name)
		}
		seen[name] = true
		if name == "__metadata__" {
			var metadata map[string]string
			if err := dec.Decode(&metadata); err != nil {
				return nil, damaged("__metadata__: %.200v", err)
			}
			continue
		}
		e := entry{name: name}
		if err := dec.Decode(&e); err != nil {
			return nil, damaged("%.80q: %.200v", name, err)
		}
		if err := e.check(); err != nil {
			return nil, damaged("%.80q: %.200v", name, err)
		}
		entries = append(entries, e)
	}
	if _, err := dec.Token(); err != nil {
		return nil, damaged("%v", err)
	}
	if rest := bytes.TrimRight(text[dec.InputOffset():], " \t\r\n"); len(rest) > 0 {
		return nil, damaged("%d bytes after the object", len(rest))
	}
	slices.SortFunc(entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.Offsets[0], b.Offsets[0]), cmp.Compare(a.Offsets[1], b.Offsets[1]))
	})
	end := int64(0)
	for _, e := range entries {
		if e.Offsets[0] != end {
			return nil, damaged("%.80q begins at %d, the tensor before it ends at %d", e.name, e.Offsets[0], end)
		}
		end = e.Offsets[1]
	}
	if end != data {
		return nil, damaged("the tensors have %d bytes, the file %d", end, data)
	}
	return entries, nil
}

// check checks one entry. The size of a type that is not read here is not
// known, nor needed.
func (e entry) check() error {
	if len(e.Offsets) != 2 || e.Offsets[0] < 0 || e.Offsets[1] < e.Offsets[0] {
		return fmt.Errorf("data_offsets %d", names.First(e.Offsets, 8))
	}
	if e.DType == "" || len(e.Shape) > maxDims {
		return fmt.Errorf("type %.20q, %d dimensions", e.DType, len(e.Shape))
	}
	t, known := types[e.DType]
	bytes, empty := int64(t.Size), false
	for _, d := range e.Shape {
		switch {
		case d < 0:
			return fmt.Errorf("shape %d", e.Shape)
		case d == 0:
			empty = true
		case known && bytes > math.MaxInt64/d:
			return fmt.Errorf("shape %d and type %s", e.Shape, e.DType)
		default:
			bytes *= d
		}
	}
	if empty {
		bytes = 0
	}
	if have := e.Offsets[1] - e.Offsets[0]; known && have != bytes {
		return fmt.Errorf("%d bytes, shape %d and type %s need %d", have, e.Shape, e.DType, bytes)
	}
	return nil
}
