package npy

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/internal/file"
	"github.com/pinion-gpu/pinion/dataset/internal/names"
	"github.com/pinion-gpu/pinion/internal/units"
)

const (
	zipMagic      = "PK\x03\x04"
	zipMagicEmpty = "PK\x05\x06"
	// maxDirectory bounds the memory that the list of a hostile archive
	// takes: it is some 300,000 entries.
	maxDirectory = 16 << 20
	// maxDeflateRatio is what DEFLATE can make of a byte, and some.
	maxDeflateRatio = 1040
)

// archive is the arrays of a .npz file by name.
type archive struct {
	file    io.ReaderAt
	size    int64
	members map[string]*zip.File
}

// member is an array of an archive: a part of the file, or in memory.
type member struct {
	name   string
	header header
	io.ReaderAt
	data []byte // decompressed, with the header; nil if it is in the file
}

// readArchive reads the list of members.
func readArchive(file io.ReaderAt, size int64) (archive, error) {
	limited := &limitedReaderAt{file, maxDirectory}
	r, err := zip.NewReader(limited, size)
	switch {
	case errors.Is(err, zip.ErrFormat):
		return archive{}, fmt.Errorf("%w: not a zip archive, or one that is cut short", dataset.ErrFormat)
	case errors.Is(err, dataset.ErrTooLarge):
		return archive{}, err
	case err != nil && !errors.Is(err, zip.ErrInsecurePath): // nothing is written to any path
		return archive{}, fmt.Errorf("%w: zip archive: %w", dataset.ErrDamaged, err)
	}
	limited.left = math.MaxInt64 // from here on arrays are read
	a := archive{file, size, map[string]*zip.File{}}
	for _, m := range r.File {
		name, ok := strings.CutSuffix(m.Name, ".npy")
		if !ok {
			continue
		}
		if a.members[name] != nil {
			return archive{}, fmt.Errorf("%w: two arrays %.80q", dataset.ErrDamaged, name)
		}
		a.members[name] = m
	}
	if len(a.members) == 0 {
		return archive{}, fmt.Errorf("%w: a zip archive of %s, none of them an array (.npy)%s", dataset.ErrFormat, units.Count(len(r.File), "file"), instead(r.File))
	}
	return a, nil
}

// instead says what to do with an archive of something else.
func instead(files []*zip.File) string {
	for _, f := range files {
		switch strings.ToLower(path.Ext(f.Name)) {
		case ".jpg", ".jpeg", ".png", ".webp":
			return "; unpack it: photos are read from folders and tars"
		case ".pkl":
			return "; of a PyTorch file, save the tensors with safetensors.torch.save_file"
		}
	}
	return ""
}

func (a archive) names() []string { return slices.Sorted(maps.Keys(a.members)) }

// open reads the header of an array, and all of it if it is compressed.
func (a archive) open(ctx context.Context, name string, limit int64) (member, error) {
	m := a.members[name]
	if m == nil {
		return member{}, fmt.Errorf("%w: no array %.80q; there are %s", dataset.ErrArgument, name, names.Listed(a.names()))
	}
	d := member{name: name}
	if err := d.locate(ctx, m, a, limit); err != nil {
		return member{}, fmt.Errorf("array %.80q: %w", name, err)
	}
	return d, nil
}

// readHeader reads the header of an array of that many bytes.
func (d *member) readHeader(r io.ReaderAt, size uint64) (err error) {
	if d.header, err = readHeader(r); err != nil {
		return err
	}
	return cmp.Or(d.header.checkSamples(), d.header.checkSize(int64(size)))
}

// locate finds the bytes of a member and reads its header. Members that overlap do no harm: at most
// two are read, each within the limit.
func (d *member) locate(ctx context.Context, m *zip.File, a archive, limit int64) error {
	packed, size := m.CompressedSize64, m.UncompressedSize64
	start, err := m.DataOffset()
	if err != nil {
		return fmt.Errorf("%w: zip archive: %w", dataset.ErrDamaged, err)
	}
	if m.Flags&1 != 0 {
		return fmt.Errorf("%w: an encrypted archive", dataset.ErrFormat)
	}
	if start > a.size || packed > uint64(a.size-start) {
		return fmt.Errorf("%w: %d bytes from %d in a file of %d", dataset.ErrDamaged, packed, start, a.size)
	}
	switch m.Method {
	case zip.Store:
		if packed != size {
			return fmt.Errorf("%w: an uncompressed member of %d bytes has %d", dataset.ErrDamaged, size, packed)
		}
		d.ReaderAt = io.NewSectionReader(a.file, start, int64(size))
		return d.readHeader(d, size)
	case zip.Deflate:
		if size > uint64(limit) || size > math.MaxInt {
			return fmt.Errorf("%w: it decompresses to %d bytes, the limit is %d", dataset.ErrTooLarge, size, limit)
		}
		// Before memory for it is allocated.
		if size/maxDeflateRatio > packed {
			return fmt.Errorf("%w: %d bytes cannot decompress to %d", dataset.ErrDamaged, packed, size)
		}
		return d.inflate(ctx, m, int(size))
	}
	return fmt.Errorf("%w: a member of compression method %d; want none or DEFLATE", dataset.ErrFormat, m.Method)
}

// inflate decompresses a member of exactly that size. Its header has to agree
// with the size before there is memory for all of it.
func (d *member) inflate(ctx context.Context, m *zip.File, size int) error {
	r, err := m.Open()
	if err != nil {
		return fmt.Errorf("%w: zip archive: %w", dataset.ErrDamaged, err)
	}
	defer r.Close()
	source := file.ContextReader{Ctx: ctx, Reader: r}
	head := make([]byte, min(size, headerRoom))
	n, err := io.ReadFull(source, head)
	if err == nil {
		if err := d.readHeader(bytes.NewReader(head), uint64(size)); err != nil {
			return err
		}
		d.data = make([]byte, size)
		n, err = io.ReadFull(source, d.data[copy(d.data, head):])
		n += len(head)
	}
	if err == nil { // the checksum is compared at the end
		if _, err = io.ReadFull(source, make([]byte, 1)); err == io.EOF {
			d.ReaderAt = bytes.NewReader(d.data)
			return nil
		}
		err = cmp.Or(err, errors.New("there is more"))
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w: zip archive: after %d of %d bytes: %w", dataset.ErrDamaged, n, size, err)
}

// labels converts an array of n labels.
func (d member) labels(n int) ([]int32, error) {
	labels, err := d.header.labels(d, d.header.bytes, n)
	if err != nil {
		return nil, fmt.Errorf("array %.80q: %w", d.name, err)
	}
	return labels, nil
}

// limitedReaderAt fails after a number of bytes.
type limitedReaderAt struct {
	file io.ReaderAt
	left int64
}

// ReadAt implements [io.ReaderAt].
func (r *limitedReaderAt) ReadAt(b []byte, at int64) (int, error) {
	if r.left -= int64(len(b)); r.left < 0 {
		return 0, fmt.Errorf("%w: a zip directory of more than %d bytes", dataset.ErrTooLarge, maxDirectory)
	}
	return r.file.ReadAt(b, at)
}
