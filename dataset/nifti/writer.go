package nifti

import (
	"compress/gzip"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"strings"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/atomicfile"
)

// Writer writes results over a volume, such as those of a segmentation, into a file of its
// own: package window's sink. Its methods are for one goroutine at a time.
type Writer struct {
	path    string
	file    *atomicfile.File
	gzip    *gzip.Writer // nil: rows of each class have places
	order   binary.ByteOrder
	size    []int
	classes int
	kind    voxelKind
	start   int64 // of the voxels
	next    int   // row
	raw     []byte
	err     error // of the rows before
	over    bool
}

// Create begins a file with the size and the place in space of v, and voxels of U8, I16 or
// F32. Several classes are its fourth axis. A name that ends with .nii.gz is compressed,
// which takes one class, since each is one piece of the file; another has to end with .nii.
// An [dataset.ErrArgument] otherwise. The file is there when Commit returns; Discard, which
// is to be deferred, removes what is written if that did not happen.
func (v *Volume) Create(path string, classes int, t dtype.DType) (*Writer, error) {
	w := &Writer{path: path, size: v.Size(), classes: classes, order: binary.LittleEndian}
	for _, k := range voxelKinds {
		if k.dtype == t && !k.widens && (t == dtype.U8 || t == dtype.I16 || t == dtype.F32) {
			w.kind = k
		}
	}
	zip := strings.HasSuffix(path, ".nii.gz")
	switch {
	case v.closed:
		return nil, fmt.Errorf("%s: %w", v.path, fs.ErrClosed)
	case w.kind.code == 0:
		return nil, fmt.Errorf("%s: %w: results as %v; want u8, i16 or f32", path, dataset.ErrArgument, t)
	case classes < 1 || classes > math.MaxInt16:
		return nil, fmt.Errorf("%s: %w: %d classes", path, dataset.ErrArgument, classes)
	case !zip && !strings.HasSuffix(path, ".nii"):
		return nil, fmt.Errorf("%s: %w: the name of a NIfTI file ends with .nii or .nii.gz", path, dataset.ErrArgument)
	case zip && classes > 1:
		return nil, fmt.Errorf("%s: %w: %d classes in a compressed file, each of which is one piece of it; write a .nii file", path, dataset.ErrArgument, classes)
	}
	head := v.head(w)
	var err error
	if w.file, err = atomicfile.Create(path, 0o644); err != nil {
		return nil, err
	}
	to := io.Writer(w.file)
	if zip {
		w.gzip, _ = gzip.NewWriterLevel(w.file, gzip.BestSpeed)
		to = w.gzip
	}
	if _, err := to.Write(head); err != nil {
		_ = w.Discard()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	w.start = int64(len(head))
	return w, nil
}

// head is the header of v with what is the writer's.
func (v *Volume) head(w *Writer) []byte {
	from := v.f.head
	version, order := versionOf(from)
	bytes := header1Bytes
	if version == 2 {
		bytes = header2Bytes
	}
	head := make([]byte, bytes+4) // no extensions follow
	copy(head, from[:bytes])
	axes := len(w.size)
	dims := [8]int{axes, 1, 1, 1, 1, 1, 1, 1}
	for i, d := range w.size {
		dims[axes-i] = d
	}
	if w.classes > 1 {
		dims[0], dims[4] = 4, w.classes
	}
	bits := 8 * w.kind.size
	put := func(at int, v any) { _, _ = binary.Encode(head[at:], order, v) }
	if version == 1 {
		for i, d := range dims {
			put(40+2*i, int16(d))
		}
		put(56, [3]float32{})                                // what the numbers meant
		put(68, []int16{0, int16(w.kind.code), int16(bits)}) // and what they are
		put(108, []float32{float32(len(head)), 1, 0})        // where voxels begin, scaling
		put(124, [2]float32{})                               // display range
		clear(head[328:344])                                 // what the meaning was called
		if w.classes > 1 {
			put(92, float32(1)) // between classes
		}
	} else {
		put(12, []int16{int16(w.kind.code), int16(bits)})
		for i, d := range dims {
			put(16+8*i, int64(d))
		}
		put(80, [3]float64{})
		put(168, int64(len(head)))
		put(176, []float64{1, 0, 0, 0})
		put(504, int32(0))
		clear(head[508:524])
		if w.classes > 1 {
			put(136, float64(1))
		}
	}
	w.order = order
	return head
}

// WriteRows writes rows of all classes, from one on: data is [classes, rows, the other axes].
// Rows come in order. Values have to be ones of the voxels' type: an [dataset.ErrArgument]
// otherwise, after which the file cannot be committed.
func (w *Writer) WriteRows(ctx context.Context, from, rows int, data []float32) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	each := int(elements(w.size[1:])) * rows
	switch {
	case w.over:
		return fmt.Errorf("%s: %w", w.path, fs.ErrClosed)
	case w.err != nil:
		return w.err
	case from != w.next || rows < 0 || from+rows > w.size[0] || len(data) != w.classes*each:
		return fmt.Errorf("%s: %w: %d numbers for rows %d to %d behind row %d of %d, of %d classes of %v", w.path, dataset.ErrArgument, len(data), from, from+rows, w.next, w.size[0], w.classes, w.size)
	}
	for c := range w.classes {
		if w.err = w.encode(data[c*each:][:each]); w.err == nil {
			if w.gzip != nil {
				_, w.err = w.gzip.Write(w.raw)
			} else {
				row := elements(w.size[1:]) * int64(w.kind.size)
				_, w.err = w.file.WriteAt(w.raw, w.start+(int64(c)*int64(w.size[0])+int64(from))*row)
			}
		}
		if w.err != nil {
			w.err = fmt.Errorf("%s: rows %d to %d: %w", w.path, from, from+rows, w.err)
			return w.err
		}
	}
	w.next += rows
	return nil
}

// encode makes voxels of values.
func (w *Writer) encode(values []float32) error {
	n := len(values) * w.kind.size
	w.raw = slices.Grow(w.raw[:0], n)[:n]
	switch w.kind.dtype {
	case dtype.F32:
		for i, v := range values {
			w.order.PutUint32(w.raw[4*i:], math.Float32bits(v))
		}
	case dtype.I16:
		for i, v := range values {
			if float32(int16(v)) != v {
				return fmt.Errorf("%w: %v is no %v", dataset.ErrArgument, v, w.kind.dtype)
			}
			w.order.PutUint16(w.raw[2*i:], uint16(int16(v)))
		}
	default:
		for i, v := range values {
			if float32(uint8(v)) != v {
				return fmt.Errorf("%w: %v is no %v", dataset.ErrArgument, v, w.kind.dtype)
			}
			w.raw[i] = uint8(v)
		}
	}
	return nil
}

// Commit puts the file in its place. All rows have to be written: an [dataset.ErrArgument]
// otherwise.
func (w *Writer) Commit() error {
	switch {
	case w.over:
		return fmt.Errorf("%s: %w", w.path, fs.ErrClosed)
	case w.err != nil:
		return w.err
	case w.next != w.size[0]:
		return fmt.Errorf("%s: %w: %d of %d rows were written", w.path, dataset.ErrArgument, w.next, w.size[0])
	}
	if w.gzip != nil {
		if err := w.gzip.Close(); err != nil {
			return fmt.Errorf("%s: %w", w.path, err)
		}
	}
	w.over = true
	return w.file.Commit()
}

// Discard removes what is written. After Commit, and a second time, it does nothing.
func (w *Writer) Discard() error {
	w.over = true
	return w.file.Discard()
}
