package sharded

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/pinion-gpu/pinion/safetensors"
)

// Checkpoint is a folder that is open. Its methods are safe for concurrent use.
type Checkpoint struct {
	// Ranks is how many have written it.
	Ranks int
	// Meta is what was kept beside.
	Meta map[string]string
	// ID is another one for each save.
	ID string

	folder string
	files  []*safetensors.File
	values map[string]*value
	names  []string
}

// value is a value by its pieces, in order.
type value struct {
	Value
	row    int64 // as in Piece
	pieces []piece
}

// piece is n elements of each row.
type piece struct {
	from, n int64
	tensor  safetensors.Tensor
}

// Value says what a value is.
type Value struct {
	Name  string
	Type  safetensors.DType
	Shape []int64
}

// Open opens a folder that [Save] has written. A file that is missing is fs.ErrNotExist, and
// the error says of which rank it was; files that are not of the same save, or do not have
// all of a value once, are [ErrDamaged].
func Open(folder string) (*Checkpoint, error) {
	x, err := readIndex(folder)
	var ck *Checkpoint
	if err == nil {
		ck, err = open(folder, x)
	}
	if err != nil {
		return nil, fmt.Errorf("sharded: open %s: %w", folder, err)
	}
	return ck, nil
}

func open(folder string, x *index) (_ *Checkpoint, err error) {
	ck := &Checkpoint{Ranks: len(x.Files), Meta: x.Meta, ID: x.Save, folder: folder, values: map[string]*value{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, ck.Close())
		}
	}()
	for i, e := range x.Files {
		f, err := safetensors.OpenFile(filepath.Join(folder, e.Name))
		if err != nil {
			return nil, fmt.Errorf("file %d of %d: %w", i+1, len(x.Files), err)
		}
		ck.files = append(ck.files, f)
		if f.Size() != e.Bytes {
			return nil, fmt.Errorf("%w: file %d of %d, %s, has %d bytes, and by the index %d", ErrDamaged, i+1, len(x.Files), e.Name, f.Size(), e.Bytes)
		}
		of, err := readPlaced(f, x.Save)
		if err != nil {
			return nil, err
		}
		for _, t := range f.Tensors {
			if err := ck.add(f, t, of); err != nil {
				return nil, err
			}
		}
	}
	for _, v := range ck.values {
		if err := v.check(); err != nil {
			return nil, err
		}
	}
	return ck, nil
}

// add adds a tensor of a file.
func (ck *Checkpoint) add(f *safetensors.File, t safetensors.Tensor, of map[string]placed) error {
	p, ok := of[t.Name]
	if bits := t.DType.Bits(); !ok || bits%8 != 0 {
		return fmt.Errorf("%w: %s does not say what its tensor %.80q of %s is of", ErrDamaged, f.Path(), t.Name, t.DType)
	}
	v := ck.values[t.Name]
	if v == nil {
		v = &value{Value: Value{Name: t.Name, Type: t.DType, Shape: p.Shape}, row: p.Row}
		ck.values[t.Name] = v
		ck.names = append(ck.names, t.Name)
	}
	if v.Type != t.DType || !slices.Equal(v.Shape, p.Shape) || v.row != p.Row {
		return fmt.Errorf("%w: %.80q is %s of shape %d in rows of %d in %s, and %s of shape %d in rows of %d in a file before", ErrDamaged, t.Name, t.DType, p.Shape, p.Row, f.Path(), v.Type, v.Shape, v.row)
	}
	whole, ok := elements(p.Shape)
	n, _, fit := rows(whole, p.Row)
	if !ok || !fit || t.Elements()%n != 0 {
		return fmt.Errorf("%w: %.80q: %d elements in %s of shape %d in rows of %d", ErrDamaged, t.Name, t.Elements(), f.Path(), p.Shape, p.Row)
	}
	v.pieces = append(v.pieces, piece{p.From, t.Elements() / n, t})
	return nil
}

// check looks whether the pieces are the whole.
func (v *value) check() error {
	slices.SortFunc(v.pieces, func(a, b piece) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.n, b.n)) })
	next := int64(0)
	for _, p := range v.pieces {
		if p.from != next {
			return fmt.Errorf("%w: %.80q: behind element %d comes a piece from element %d", ErrDamaged, v.Name, next, p.from)
		}
		next += p.n
	}
	whole, _ := elements(v.Shape)
	if _, each, _ := rows(whole, v.row); next != each {
		return fmt.Errorf("%w: %.80q: pieces have %d elements of rows of %d, and the shape is %d", ErrDamaged, v.Name, next, each, v.Shape)
	}
	return nil
}

// Values are all values, those of the first file first.
func (ck *Checkpoint) Values() (list []Value) {
	for _, name := range ck.names {
		list = append(list, ck.values[name].Value)
	}
	return list
}

// Find returns the value of that name.
func (ck *Checkpoint) Find(name string) (Value, bool) {
	if v := ck.values[name]; v != nil {
		return v.Value, true
	}
	return Value{}, false
}

// Close closes the files. A second Close does nothing.
func (ck *Checkpoint) Close() (err error) {
	for _, f := range ck.files {
		err = errors.Join(err, f.Close())
	}
	return err
}
