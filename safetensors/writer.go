package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/pinion-gpu/pinion/internal/atomicfile"
	"github.com/pinion-gpu/pinion/internal/directio"
	"github.com/pinion-gpu/pinion/internal/units"
)

// Writer writes a file, or a folder of shards, that is there as a whole or not
// at all. The header is written first, so that the tensors can follow in any
// order, by several goroutines at once.
//
//	w, err := safetensors.Create("model.safetensors", tensors, safetensors.WriterOptions{})
//	if err != nil {
//		return err
//	}
//	defer w.Discard()
//	for _, t := range w.Tensors() {
//		if err := w.Write(t.Name, data[t.Name]); err != nil {
//			return err
//		}
//	}
//	return w.Commit()
type Writer struct {
	tensors []Tensor // in the order of their data
	byName  map[string]int
	files   []*os.File // of each tensor

	commit  func() error
	discard func() error

	mu      sync.Mutex
	written []bool // or being written
	writing int    // tensors
	ended   bool
}

// WriterOptions tune a Writer.
type WriterOptions struct {
	// Metadata is free text for the header of each file. Default: none.
	Metadata map[string]string

	// ShardBytes is the most bytes of tensors in a file that [CreateFolder]
	// writes; a tensor that is larger has a file to itself. Default: 5 GB, as
	// the transformers library has it.
	ShardBytes int64
}

const defaultShardBytes = 5_000_000_000

// Create begins a file of these tensors, of which name, type and shape are
// used. It fails with [ErrArgument] for a name that stands twice, is no UTF-8
// or "__metadata__", a type that is not known, and a shape that is too large or
// has more than [MaxRank] dimensions.
func Create(path string, tensors []Tensor, o WriterOptions) (*Writer, error) {
	tensors, err := prepare(tensors)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	out, err := atomicfile.Create(path, 0o666)
	if err != nil {
		return nil, err
	}
	w := newWriter(out.Commit, out.Discard)
	if err := w.begin(out.File, tensors, o.Metadata); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), out.Discard())
	}
	return w, nil
}

// CreateFolder begins a folder of these tensors as [Open] takes it: one file, or
// shards and their index where o.ShardBytes makes more of them. Tensors keep the
// order in which they are given as far as shards go. The folder must be new or
// empty, or it fails with [fs.ErrExist]; otherwise it fails as [Create] does.
func CreateFolder(path string, tensors []Tensor, o WriterOptions) (w *Writer, err error) {
	if o.ShardBytes < 0 {
		return nil, fmt.Errorf("%s: %w: shards of %d bytes", path, ErrArgument, o.ShardBytes)
	}
	prepared, err := prepare(tensors)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	total := int64(0)
	for _, t := range prepared {
		total += t.Bytes
	}
	// Commit would find that too, but a model later.
	if entries, err := os.ReadDir(path); err == nil && len(entries) > 0 {
		return nil, fmt.Errorf("%s: %w: it has %s", path, fs.ErrExist, units.Count(len(entries), "file"))
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	folder, err := atomicfile.CreateFolder(path)
	if err != nil {
		return nil, err
	}
	var files []*os.File
	shut := func() (err error) {
		for _, f := range files {
			err = errors.Join(err, f.Close())
		}
		return err
	}
	w = newWriter(func() error {
		for _, f := range files {
			if err := f.Sync(); err != nil {
				return err
			}
		}
		if err := shut(); err != nil {
			return err
		}
		files = nil
		return folder.Commit()
	}, func() error { return errors.Join(shut(), folder.Discard()) })
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("%s: %w", path, err), w.discard())
			w = nil
		}
	}()

	shards := split(tensors, cmp.Or(o.ShardBytes, defaultShardBytes))
	index := &Index{Files: map[string]string{}}
	for i, shard := range shards {
		name := SingleName
		if len(shards) > 1 {
			name = ShardName(i+1, len(shards))
		}
		f, err := os.Create(filepath.Join(folder.Path(), name))
		if err != nil {
			return w, err
		}
		files = append(files, f)
		if i == 0 && total > 0 { // before the first shards fill the disk
			if err := directio.CheckRoom(f, total); err != nil {
				return w, err
			}
		}
		if shard, err = prepare(shard); err != nil {
			return w, err
		}
		if err := w.begin(f, shard, o.Metadata); err != nil {
			return w, err
		}
		for _, t := range shard {
			index.Files[t.Name] = name
			index.TotalBytes += t.Bytes
		}
	}
	if len(shards) > 1 {
		return w, index.Write(filepath.Join(folder.Path(), IndexName))
	}
	return w, nil
}

// split divides tensors among files of at most so many bytes. There is one at
// least.
func split(tensors []Tensor, most int64) [][]Tensor {
	shards := [][]Tensor{nil}
	var bytes int64
	for _, t := range tensors {
		n, _ := sizeOf(t.DType, t.Shape)
		if last := len(shards) - 1; len(shards[last]) > 0 && n > most-bytes {
			shards, bytes = append(shards, nil), 0
		}
		shards[len(shards)-1] = append(shards[len(shards)-1], t)
		bytes += n
	}
	return shards
}

// prepare checks tensors and puts them in the order in which the reference
// implementation writes them: those with large elements first, so that all are
// aligned, then by name. Their offsets are those in the data.
func prepare(tensors []Tensor) ([]Tensor, error) {
	tensors = slices.Clone(tensors)
	slices.SortStableFunc(tensors, func(a, b Tensor) int {
		return cmp.Or(cmp.Compare(b.DType.Bits(), a.DType.Bits()), cmp.Compare(a.Name, b.Name))
	})
	names := map[string]bool{}
	end := int64(0)
	for i := range tensors {
		t := &tensors[i]
		switch {
		case !utf8.ValidString(t.Name) || t.Name == metadataKey:
			return nil, fmt.Errorf("%w: a tensor cannot have the name %.80q", ErrArgument, t.Name)
		case names[t.Name]:
			return nil, fmt.Errorf("%w: two tensors have the name %.80q", ErrArgument, t.Name)
		case t.DType.Bits() == 0:
			return nil, fmt.Errorf("%w: %.80q: type %.20q", ErrArgument, t.Name, t.DType)
		case len(t.Shape) > MaxRank:
			return nil, fmt.Errorf("%w: %.80q: %d dimensions, the limit is %d", ErrArgument, t.Name, len(t.Shape), MaxRank)
		}
		names[t.Name] = true
		var err error
		if t.Bytes, err = sizeOf(t.DType, t.Shape); err != nil {
			return nil, fmt.Errorf("%w: %.80q: %w", ErrArgument, t.Name, err)
		}
		if end > maxData-t.Bytes {
			return nil, fmt.Errorf("%w: the tensors have more than %d bytes", ErrArgument, int64(maxData))
		}
		t.Offset = end
		end += t.Bytes
	}
	return tensors, nil
}

// maxData leaves room for a header in what a file can have.
const maxData = 1<<63 - 1 - MaxHeader - lengthBytes

func newWriter(commit, discard func() error) *Writer {
	return &Writer{byName: map[string]int{}, commit: commit, discard: discard}
}

// begin writes the header of a file and makes room for its data.
func (w *Writer) begin(f *os.File, tensors []Tensor, metadata map[string]string) error {
	head, err := encode(tensors, metadata)
	if err != nil {
		return err
	}
	start := int64(len(head))
	size := start
	for _, t := range tensors {
		w.byName[t.Name] = len(w.tensors)
		t.Offset += start
		t.File = nil
		w.tensors = append(w.tensors, t)
		w.files = append(w.files, f)
		w.written = append(w.written, t.Bytes == 0)
		size += t.Bytes
	}
	if err := directio.Reserve(f, size); err != nil {
		return err
	}
	if err := f.Truncate(size); err != nil {
		return err
	}
	_, err = f.WriteAt(head, 0)
	return err
}

// encode returns the start of a file: length and header, which ends at a
// multiple of eight.
func encode(tensors []Tensor, metadata map[string]string) ([]byte, error) {
	var b bytes.Buffer
	b.Write(make([]byte, lengthBytes))
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	member := func(name string, value any) error {
		b.WriteByte(',')
		if err := e.Encode(name); err != nil {
			return err
		}
		b.Truncate(b.Len() - 1) // the encoder ends each value with a line feed
		b.WriteByte(':')
		if err := e.Encode(value); err != nil {
			return err
		}
		b.Truncate(b.Len() - 1)
		return nil
	}
	if len(metadata) > 0 {
		for key, text := range metadata {
			if !utf8.ValidString(key) || !utf8.ValidString(text) {
				return nil, fmt.Errorf("%w: metadata %.80q is no UTF-8", ErrArgument, key)
			}
		}
		if err := member(metadataKey, metadata); err != nil {
			return nil, err
		}
	}
	for _, t := range tensors {
		if err := member(t.Name, struct {
			DType   DType    `json:"dtype"`
			Shape   []int64  `json:"shape"`
			Offsets [2]int64 `json:"data_offsets"`
		}{t.DType, append([]int64{}, t.Shape...), [2]int64{t.Offset, t.Offset + t.Bytes}}); err != nil {
			return nil, err
		}
	}
	if b.Len() == lengthBytes {
		b.WriteByte('{')
	}
	b.WriteByte('}')
	for b.Len()%8 != 0 {
		b.WriteByte(' ')
	}
	head := b.Bytes()
	head[lengthBytes] = '{' // in place of the first comma
	length := len(head) - lengthBytes
	if length > MaxHeader {
		return nil, fmt.Errorf("%w: a header of %d bytes, the limit is %d", ErrTooLarge, length, MaxHeader)
	}
	binary.LittleEndian.PutUint64(head, uint64(length))
	return head, nil
}

// Tensors returns the tensors with the place of their data, file by file.
func (w *Writer) Tensors() []Tensor { return slices.Clone(w.tensors) }

// Write writes the data of a tensor: as many bytes as it has, little-endian.
// It fails with [ErrArgument] for another number of bytes, a tensor that is not
// in the header, and one that was written before.
func (w *Writer) Write(name string, data []byte) error {
	return w.Place(name, func(f *os.File, t Tensor) error {
		if int64(len(data)) != t.Bytes {
			return fmt.Errorf("%w: %d bytes, shape %s and type %s need %d", ErrArgument, len(data), shapeText(t.Shape), t.DType, t.Bytes)
		}
		_, err := f.WriteAt(data, t.Offset)
		return err
	})
}

// WriteFrom is [Writer.Write] of what r has. It fails with
// [io.ErrUnexpectedEOF] where that is too little; what is too much is not read.
func (w *Writer) WriteFrom(name string, r io.Reader) error {
	return w.Place(name, func(f *os.File, t Tensor) error {
		n, err := io.CopyN(io.NewOffsetWriter(f, t.Offset), r, t.Bytes)
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("%d of %d bytes: %w", n, t.Bytes, io.ErrUnexpectedEOF)
		}
		return err
	})
}

// Place lets write write the data of a tensor: t.Bytes bytes at t.Offset of f,
// which is the Writer's. It is for data that are not in host memory.
func (w *Writer) Place(name string, write func(f *os.File, t Tensor) error) error {
	w.mu.Lock()
	i, ok := w.byName[name]
	ended, twice := w.ended, ok && w.written[i] && w.tensors[i].Bytes > 0
	if ok && !ended && !twice {
		w.written[i] = true
		w.writing++
	}
	w.mu.Unlock()
	switch {
	case ended:
		return fmt.Errorf("%.80q: %w", name, ErrClosed)
	case !ok:
		return fmt.Errorf("%w: no tensor %.80q in the header", ErrArgument, name)
	case twice:
		return fmt.Errorf("%w: %.80q is written twice", ErrArgument, name)
	}
	done := false
	defer func() { // also when write panics
		w.mu.Lock()
		defer w.mu.Unlock()
		w.written[i] = done || w.tensors[i].Bytes == 0
		w.writing--
	}()
	if err := write(w.files[i], w.tensors[i]); err != nil {
		return fmt.Errorf("%.80q: %w", name, err)
	}
	done = true
	return nil
}

// Commit makes what was written durable and puts it in its place. It fails with
// [ErrArgument] while a tensor is not written yet or a write is under way, and
// the Writer goes on; any other error leaves what was there before.
func (w *Writer) Commit() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return ErrClosed
	}
	if i := slices.Index(w.written, false); i >= 0 {
		left := 0
		for _, done := range w.written {
			if !done {
				left++
			}
		}
		return fmt.Errorf("%w: %d of %d tensors are not written yet, the first is %.80q", ErrArgument, left, len(w.tensors), w.tensors[i].Name)
	}
	if w.writing > 0 {
		return fmt.Errorf("%w: %s under way", ErrArgument, units.Count(w.writing, "write"))
	}
	w.ended = true
	if err := w.commit(); err != nil {
		return errors.Join(err, w.discard())
	}
	return nil
}

// Discard removes what was written. After Commit, and a second time, it does
// nothing. No write may be under way.
func (w *Writer) Discard() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return nil
	}
	w.ended = true
	return w.discard()
}
