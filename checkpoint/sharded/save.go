package sharded

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pinion-gpu/pinion/internal/atomicfile"
	"github.com/pinion-gpu/pinion/parallel"
	"github.com/pinion-gpu/pinion/safetensors"
)

// Piece is a part of a value, or all of it.
type Piece struct {
	Name  string
	Type  safetensors.DType // of whole bytes
	Shape []int64           // of the whole value

	// From and N are the elements that this is of the value, counted row by row.
	From, N int64

	// Row is for a value that is cut along another axis than the first: it is cut into rows
	// of so many elements, the same for all its pieces, and From and N are elements of each.
	// Of a matrix of 100 x 64 whose columns two ranks halve, Row is 64, From 0 or 32, and N
	// is 32. Default: all elements are one row.
	Row int64

	// Read reads them, row by row.
	Read func(data []byte) error
}

// rows is how many rows the value has; false if the piece is none of it.
func (p *Piece) rows() (n int64, ok bool) {
	whole, ok := elements(p.Shape)
	n, each, fit := rows(whole, p.Row)
	return n, ok && fit && p.From >= 0 && p.N >= 0 && p.From <= each-p.N
}

func (p *Piece) wrong() error {
	of := ""
	if p.Row != 0 {
		of = fmt.Sprintf(" of each %d", p.Row)
	}
	return fmt.Errorf("%w: %.80q: elements %d to %d%s of shape %d", ErrArgument, p.Name, p.From, p.From+p.N, of, p.Shape)
}

// SaveOptions tune [Save].
type SaveOptions struct {
	// Meta is text of the caller's, of which the first rank's is kept.
	Meta map[string]string
}

// Save writes the pieces of all ranks into a folder, which is made if it is not there, and
// replaces what was saved there before. All ranks call it; comm is nil where there is one.
// Each element of a value has to be a piece of one rank. If anything fails on a rank, all
// have its error, and the folder has what it had.
func Save(ctx context.Context, folder string, comm parallel.Comm, pieces []Piece, o SaveOptions) error {
	s := &saving{folder: folder, comm: comm, size: 1}
	if comm != nil {
		s.rank, s.size = comm.Rank(), comm.Size()
	}
	if err := s.save(ctx, pieces, o); err != nil {
		return fmt.Errorf("sharded: save %s: %w", folder, err)
	}
	return nil
}

type saving struct {
	folder     string
	comm       parallel.Comm
	rank, size int
	id         string
}

func (s *saving) save(ctx context.Context, pieces []Piece, o SaveOptions) error {
	ids := []string{rand.Text()[:12]}
	if s.comm != nil {
		var err error
		if ids, err = parallel.Texts(s.comm, ids[0]); err != nil {
			return err
		}
	}
	s.id = strings.ToLower(ids[0])
	former, written := s.former()
	err := s.all(s.write(ctx, pieces, o))
	var x *index
	if err == nil {
		if s.rank == 0 {
			x, err = s.look(o)
		}
		err = s.all(err)
	}
	if err != nil { // no index names the file
		s.remove(fileName(s.id, s.rank, s.size))
		return err
	}
	if s.rank == 0 {
		err = s.put(x)
	}
	if err = s.all(err); err == nil && s.rank == 0 {
		s.clean(former, written)
	}
	return err
}

// former are the files that the index names now, and when it was written.
func (s *saving) former() (files []fileEntry, written time.Time) {
	info, err := os.Stat(filepath.Join(s.folder, IndexName))
	if err != nil {
		return nil, time.Time{}
	}
	if x, err := readIndex(s.folder); err == nil {
		files = x.Files
	}
	return files, info.ModTime()
}

// all is the same failure on all ranks.
func (s *saving) all(err error) error {
	if s.comm == nil {
		return err
	}
	return parallel.FirstError(s.comm, err)
}

// write writes this rank's file.
func (s *saving) write(ctx context.Context, pieces []Piece, o SaveOptions) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	for k, v := range o.Meta {
		if !utf8.ValidString(k) || !utf8.ValidString(v) {
			return fmt.Errorf("%w: meta %.80q: %.80q is no UTF-8", ErrArgument, k, v)
		}
	}
	seen := map[string]bool{}
	of, list, at := map[string]placed{}, []safetensors.Tensor{}, map[string]Piece{}
	for _, p := range pieces {
		n, ok := p.rows()
		bits := p.Type.Bits()
		switch {
		case !ok:
			return p.wrong()
		case bits == 0 || bits%8 != 0:
			return fmt.Errorf("%w: %.80q: type %.20q", ErrArgument, p.Name, p.Type)
		case seen[p.Name]:
			return fmt.Errorf("%w: %.80q stands twice", ErrArgument, p.Name)
		case p.Read == nil:
			return fmt.Errorf("%w: %.80q: Piece.Read is nil", ErrArgument, p.Name)
		case p.N == 0 && !slices.Contains(p.Shape, 0):
			continue
		}
		shape := []int64{n * p.N}
		if whole, _ := elements(p.Shape); n*p.N == whole {
			shape = p.Shape
		} else if n > 1 {
			shape = []int64{n, p.N}
		}
		seen[p.Name] = true
		of[p.Name], at[p.Name] = placed{p.Shape, p.Row, p.From}, p
		list = append(list, safetensors.Tensor{Name: p.Name, DType: p.Type, Shape: shape})
	}
	said, err := json.Marshal(of)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.folder, 0o777); err != nil {
		return err
	}
	w, err := safetensors.Create(filepath.Join(s.folder, fileName(s.id, s.rank, s.size)), list,
		safetensors.WriterOptions{Metadata: map[string]string{saveKey: s.id, piecesKey: string(said)}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Discard()) }()
	var buffer []byte
	for _, t := range w.Tensors() {
		if err := ctx.Err(); err != nil {
			return err
		}
		buffer = slices.Grow(buffer[:0], int(t.Bytes))[:t.Bytes]
		if err := at[t.Name].Read(buffer); err != nil {
			return fmt.Errorf("%.80q: %w", t.Name, err)
		}
		if err := w.Write(t.Name, buffer); err != nil {
			return err
		}
	}
	return w.Commit()
}

// look looks whether all files are there, and have all values, and returns their index.
func (s *saving) look(o SaveOptions) (*index, error) {
	x := &index{Version: version, Save: s.id, Meta: o.Meta}
	for rank := range s.size {
		name := fileName(s.id, rank, s.size)
		info, err := os.Stat(filepath.Join(s.folder, name))
		if err != nil {
			return nil, fmt.Errorf("the file of rank %d is not seen by rank 0, so the ranks do not share the folder: %w", rank, err)
		}
		x.Files = append(x.Files, fileEntry{name, info.Size()})
	}
	ck, err := open(s.folder, x)
	if errors.Is(err, ErrDamaged) {
		return nil, fmt.Errorf("%w: pieces of ranks do not go together: %w", ErrArgument, err)
	}
	if err != nil {
		return nil, err
	}
	return x, ck.Close()
}

// put writes the index. From then on the files belong to it, whatever else happens.
func (s *saving) put(x *index) error {
	data, err := json.MarshalIndent(x, "", " ")
	if err != nil {
		return err
	}
	return atomicfile.WriteFile(filepath.Join(s.folder, IndexName), append(data, '\n'), 0o666)
}

// clean removes the files of the save before, and those of saves that failed before that:
// others may be under way. What cannot be removed now is left to the next save.
func (s *saving) clean(former []fileEntry, written time.Time) {
	for _, f := range former {
		s.remove(f.Name)
	}
	list, _ := os.ReadDir(s.folder)
	for _, e := range list {
		if info, err := e.Info(); err == nil && fileNames.MatchString(e.Name()) && info.ModTime().Before(written) {
			s.remove(e.Name())
		}
	}
}

func (s *saving) remove(name string) { _ = os.Remove(filepath.Join(s.folder, name)) }
