package stream

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/pinion-gpu/pinion/internal/errs"
)

// Options says how records are made of a tar. The zero value works.
type Options struct {
	// Label is the extension of the member that holds a sample's label, and
	// LabelField a field of that member, which is JSON then: as in package shard.
	// Labels are whole numbers, or texts of which a member __classes__ before them
	// has the list.
	Label, LabelField string
	// MaxRecordBytes is the largest record, all its members together. Larger
	// ones fail with [errs.ErrTooLarge]. Default 256 MiB.
	MaxRecordBytes int64
}

const (
	defaultMaxRecord = 256 << 20
	// maxWindow is how much of what it decompressed Zstandard may ask for: as
	// much as zstd itself allows without being asked.
	maxWindow = 128 << 20
	readBytes = 256 << 10
)

// StandardInput is the location of standard input.
const StandardInput = "-"

// Open makes a stream of a tar, plain or compressed with gzip or Zstandard: of a
// file, a named pipe, or [StandardInput]. What is compressed is told by how it
// begins. Nothing is read before somebody asks for records; a file must be there.
func Open(location string, opts Options) (*Stream, error) {
	if location == StandardInput {
		read := false
		s := NewReader("standard input", func(context.Context) (io.ReadCloser, error) {
			if read {
				return nil, errOnce
			}
			read = true
			return standardInput()
		}, opts)
		s.once = true
		return s, nil
	}
	info, err := os.Stat(location)
	switch {
	case err != nil:
		return nil, err
	case info.Mode().IsRegular() || info.Mode().Type() == fs.ModeNamedPipe:
	default:
		return nil, fmt.Errorf("%s: %w: neither a file nor a pipe", location, errs.ErrFormat)
	}
	s := NewReader(location, func(context.Context) (io.ReadCloser, error) { return os.Open(location) }, opts)
	s.once = !info.Mode().IsRegular()
	return s, nil
}

// errOnce is why a pipe is not read twice.
var errOnce = fmt.Errorf("%w: it comes only once; write it to a file, which can be read any number of times", errs.ErrArgument)

// standardInput opens standard input anew where the system can: the end of a
// context then ends the wait for a pipe that is idle.
func standardInput() (io.ReadCloser, error) {
	if f, err := os.Open("/dev/stdin"); err == nil {
		return f, nil
	}
	return os.Stdin, nil
}

// NewReader makes a stream of tars that open opens, one for each time that the
// stream is read. They are closed when the reading ends, or its context.
func NewReader(name string, open func(ctx context.Context) (io.ReadCloser, error), opts Options) *Stream {
	opts.MaxRecordBytes = cmp.Or(opts.MaxRecordBytes, defaultMaxRecord)
	return &Stream{name: name, each: func(ctx context.Context, from Position, yield func(*Record) error) error {
		err := readTar(ctx, name, open, opts, from.Records, yield)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}}
}

// readTar yields the records behind the first skip ones.
func readTar(ctx context.Context, name string, open func(ctx context.Context) (io.ReadCloser, error), opts Options, skip int64, yield func(*Record) error) (err error) {
	source, err := open(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	defer source.Close()
	// A read that waits for a pipe ends when the pipe is closed.
	defer context.AfterFunc(ctx, func() { source.Close() })()
	plain, err := decompressed(bufio.NewReaderSize(source, readBytes))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	defer plain.Close()
	t := newTarReader(name, plain, opts)
	for {
		r, err := t.next(ctx, skip > 0)
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		case skip > 0:
			skip--
		default:
			if err := yield(r); err != nil {
				return err
			}
		}
	}
}

// How files begin that are compressed with gzip and Zstandard.
const (
	gzipMagic = "\x1f\x8b"
	zstdMagic = "\x28\xb5\x2f\xfd"
)

func compressed(head []byte) bool {
	head = head[:min(len(head), 4)]
	return strings.HasPrefix(string(head), gzipMagic) || strings.HasPrefix(string(head), zstdMagic)
}

// unread tells a compression that is not read by how a file begins, and names its
// tool.
func unread(head []byte) (name, tool string) {
	switch {
	case strings.HasPrefix(string(head), "BZh"):
		return "bzip2", "bzip2"
	case strings.HasPrefix(string(head), "\xfd7zXZ"):
		return "xz", "xz"
	}
	return "", ""
}

// decompressed reads what r has, decompressed if it is compressed. Errors of the
// decompressor are [errs.ErrDamaged].
func decompressed(r *bufio.Reader) (io.ReadCloser, error) {
	head, err := r.Peek(6)
	if err != nil && err != io.EOF {
		return nil, err
	}
	if len(head) == 0 {
		return nil, fmt.Errorf("%w: it is empty", errs.ErrDamaged)
	}
	if name, tool := unread(head); name != "" {
		return nil, fmt.Errorf("%w: compressed with %s, not with gzip or Zstandard; decompress it on the way, with %s -dc", errs.ErrFormat, name, tool)
	}
	switch {
	case strings.HasPrefix(string(head), gzipMagic):
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, fmt.Errorf("%w: gzip: %w", errs.ErrDamaged, err)
		}
		return &damage{"gzip", z, z.Close}, nil
	case strings.HasPrefix(string(head), zstdMagic):
		z, err := zstd.NewReader(r, zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, fmt.Errorf("%w: Zstandard: %w", errs.ErrDamaged, err)
		}
		return &damage{"Zstandard", z, func() error { z.Close(); return nil }}, nil
	}
	return io.NopCloser(r), nil
}

// damage is a decompressor whose errors are of what it reads.
type damage struct {
	method string
	io.Reader
	close func() error
}

func (d *damage) Read(p []byte) (int, error) {
	n, err := d.Reader.Read(p)
	var file *fs.PathError
	switch {
	case err == nil || err == io.EOF || errors.As(err, &file):
		return n, err
	case errors.Is(err, zstd.ErrWindowSizeExceeded) || errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return n, fmt.Errorf("%w: %s: %w", errs.ErrTooLarge, d.method, err)
	}
	return n, fmt.Errorf("%w: %s: %w", errs.ErrDamaged, d.method, err)
}

func (d *damage) Close() error { return d.close() }
