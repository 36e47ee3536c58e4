package nifti

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/internal/file"
)

// source is an open .nii or .nii.gz file.
type source struct {
	header header
	head   []byte // that the file begins with, decompressed: a header or more
	file   *os.File
	size   int64 // of the file
	gz     bool
}

// openSource opens a file and reads its header.
func openSource(path string) (*source, error) {
	file, size, err := file.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	f := &source{file: file, size: size}
	head := make([]byte, header2Bytes)
	n, err := file.ReadAt(head, 0)
	if err == nil || errors.Is(err, io.EOF) {
		head, err = head[:n], nil
		if f.gz = bytes.HasPrefix(head, []byte(gzipMagic)); f.gz {
			head, err = gunzipHead(io.NewSectionReader(file, 0, size))
		}
	}
	if err == nil {
		f.head = head
		f.header, err = parseHeader(head)
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// maxDeflateRatio is what DEFLATE can make of a byte, and some.
const maxDeflateRatio = 1040

const gzipMagic = "\x1f\x8b"

// gunzipHead decompresses what is enough for a header.
func gunzipHead(r io.Reader) ([]byte, error) {
	z, err := gzip.NewReader(r)
	if err != nil {
		return nil, fmt.Errorf("%w: gzip: %w", dataset.ErrDamaged, err)
	}
	head, err := io.ReadAll(io.LimitReader(z, header2Bytes))
	if len(head) < header1Bytes && err != nil {
		return nil, fmt.Errorf("%w: gzip: %d bytes: %w", dataset.ErrDamaged, len(head), err)
	}
	return head, nil
}

// begins reports whether a file begins as a NIfTI file, compressed or not.
func begins(head []byte) bool {
	if bytes.HasPrefix(head, []byte(gzipMagic)) {
		head, _ = gunzipHead(bytes.NewReader(head))
	}
	version, _ := versionOf(head)
	return version != 0
}

// checkSize checks that voxels of that many bytes can be in the file.
func (f *source) checkSize(bytes int64) error {
	if f.gz && bytes/maxDeflateRatio > f.size {
		return fmt.Errorf("%w: %d bytes of gzip cannot decompress to a volume of %d bytes (shape %v)", dataset.ErrDamaged, f.size, bytes, f.header.shape)
	}
	if !f.gz && (f.header.offset > f.size || bytes > f.size-f.header.offset) {
		return fmt.Errorf("%w: the file has %d bytes; voxels of shape %v begin at %d and have %d", dataset.ErrDamaged, f.size, f.header.shape, f.header.offset, bytes)
	}
	return nil
}

// gunzip is what one reader needs to decompress.
type gunzip struct {
	buffer *bufio.Reader
	gzip   *gzip.Reader
}

// load reads all voxels of a file into b.
func (f *source) load(ctx context.Context, z *gunzip, b []byte) error {
	if !f.gz {
		return file.ReadFull(f.file, b, f.header.offset)
	}
	source := file.ContextReader{Ctx: ctx, Reader: io.NewSectionReader(f.file, 0, f.size)}
	if z.gzip == nil {
		z.buffer, z.gzip = bufio.NewReaderSize(source, 256<<10), new(gzip.Reader)
	}
	z.buffer.Reset(source)
	err := z.gzip.Reset(z.buffer)
	if err == nil {
		_, err = io.CopyN(io.Discard, z.gzip, f.header.offset)
	}
	n := 0
	if err == nil {
		n, err = io.ReadFull(z.gzip, b)
	}
	if err == nil { // at the end the checksum is compared; more may follow
		if _, err = z.gzip.Read(make([]byte, 1)); err == nil || err == io.EOF {
			return nil
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w: gzip: after %d of %d bytes of voxels: %w", dataset.ErrDamaged, n, len(b), err)
}
