package nifti

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"unsafe"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/internal/file"
	"github.com/pinion-gpu/pinion/dtype"
)

// Volume is a file that is read in rows of its slowest axis, so that it need not fit into
// memory: package window's source. A fourth axis, and what is above it, are channels. Voxels
// are scaled by the header, as float32. Its methods are for one goroutine at a time.
type Volume struct {
	path     string
	f        *source
	size     []int
	channels int
	row      int64 // bytes of a row of one channel, as it is stored
	streams  []*stream
	raw      []byte
	closed   bool
}

// stream is one channel of a compressed file.
type stream struct {
	source file.ContextReader
	gzip   *gzip.Reader
	at     int // its next row
}

// OpenVolume opens a .nii or .nii.gz file, NIfTI-1 or NIfTI-2. It fails with
// [dataset.ErrFormat] for what is none, or for voxels of another type, and with
// [dataset.ErrDamaged] for a broken header or a file that ends too early. Close the volume.
//
// A compressed file is decompressed as rows are asked for, in their order; rows before them
// begin anew. Each channel is decompressed for itself, from the beginning of the file up to
// its rows, and takes some 80 kB: many channels are read faster from a file that is not
// compressed.
func OpenVolume(path string) (*Volume, error) {
	f, err := openSource(path)
	if err != nil {
		return nil, err
	}
	v := &Volume{path: path, f: f, size: f.header.shape, channels: 1}
	if n := len(v.size) - 3; n > 0 {
		v.channels, v.size = int(elements(v.size[:n])), v.size[n:]
	}
	all, err := volumeBytes(f.header.shape, f.header.kind.size, math.MaxInt64)
	if err == nil {
		err = f.checkSize(all)
	}
	if err != nil {
		f.file.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	v.row = elements(v.size[1:]) * int64(f.header.kind.size)
	return v, nil
}

// Size is the volume's, slowest axis first: {Z, Y, X}.
func (v *Volume) Size() []int { return slices.Clone(v.size) }

// Channels are how many volumes there are.
func (v *Volume) Channels() int { return v.channels }

// ReadRows reads rows of all channels, from one on: data is [channels, rows, the other axes].
func (v *Volume) ReadRows(ctx context.Context, from, rows int, data []float32) error {
	each := int(elements(v.size[1:])) * rows
	switch {
	case v.closed:
		return fmt.Errorf("%s: %w", v.path, fs.ErrClosed)
	case from < 0 || rows < 0 || rows > v.size[0] || from > v.size[0]-rows || len(data) != v.channels*each:
		return fmt.Errorf("%s: %w: %d numbers for rows %d to %d of %d, of %d channels of %v", v.path, dataset.ErrArgument, len(data), from, from+rows, v.size[0], v.channels, v.size)
	case rows == 0 || each == 0:
		return nil
	}
	n := int64(rows) * v.row
	v.raw = slices.Grow(v.raw[:0], int(n))[:n]
	for c := range v.channels {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := v.load(ctx, c, from, v.raw); err != nil {
			return fmt.Errorf("%s: rows %d to %d: %w", v.path, from, from+rows, err)
		}
		v.f.header.native(v.raw)
		to := data[c*each:][:each]
		if err := v.f.header.convert(unsafe.Slice((*byte)(unsafe.Pointer(&to[0])), 4*each), v.raw, dtype.F32); err != nil {
			return fmt.Errorf("%s: %w", v.path, err)
		}
	}
	return nil
}

// load reads rows of a channel.
func (v *Volume) load(ctx context.Context, channel, from int, raw []byte) error {
	before := int64(channel)*int64(v.size[0])*v.row + v.f.header.offset
	if !v.f.gz {
		return file.ReadFull(v.f.file, raw, before+int64(from)*v.row)
	}
	if v.streams == nil {
		v.streams = make([]*stream, v.channels)
	}
	s := v.streams[channel]
	v.streams[channel] = nil // after an error it begins anew
	err := func() (err error) {
		if s == nil || from < s.at {
			s = &stream{source: file.ContextReader{Reader: io.NewSectionReader(v.f.file, 0, v.f.size)}}
			s.source.Ctx = ctx
			if s.gzip, err = gzip.NewReader(bufio.NewReaderSize(&s.source, 32<<10)); err != nil {
				return err
			}
			if _, err := io.CopyN(io.Discard, s.gzip, before); err != nil {
				return err
			}
		}
		s.source.Ctx = ctx
		if _, err := io.CopyN(io.Discard, s.gzip, int64(from-s.at)*v.row); err != nil {
			return err
		}
		if _, err := io.ReadFull(s.gzip, raw); err != nil {
			return err
		}
		s.at = from + int(int64(len(raw))/v.row)
		if s.at == v.size[0] && channel == v.channels-1 {
			// At the end the checksum is compared; more may follow.
			if _, err := s.gzip.Read(make([]byte, 1)); err != nil && err != io.EOF {
				return err
			}
		}
		return nil
	}()
	if err == nil {
		v.streams[channel] = s
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("%w: gzip: channel %d: %w", dataset.ErrDamaged, channel, err)
}

// Close closes the file. A second Close does nothing.
func (v *Volume) Close() error {
	if v.closed {
		return nil
	}
	v.closed, v.streams, v.raw = true, nil, nil
	return v.f.file.Close()
}
