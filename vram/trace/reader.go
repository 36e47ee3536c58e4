package trace

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"iter"
	"os"
)

// Options say how a trace is read. The zero value works.
type Options struct {
	// Device is the number of the device to read from a snapshot of several.
	// Default: the one with the most trace entries or, if there are none, with
	// the most live blocks. Other formats have one device.
	Device *int

	// MaxSnapshotBytes is the largest snapshot that is read, in bytes
	// (uncompressed). A snapshot is held in memory as a whole, which takes
	// several times its size; other formats are streamed, whatever their
	// length. Default 1 GiB.
	MaxSnapshotBytes int64
}

// Format is a format of traces; see the package comment.
type Format string

const (
	JSONLines Format = "json lines"
	CSV       Format = "csv"
	Snapshot  Format = "pytorch snapshot"
)

// Reader returns the events of a trace in order. It is not safe for concurrent
// use.
type Reader struct {
	format Format
	parser parser
	file   io.Closer // of Open
	err    error     // the first one, which stays
}

// parser returns events, and io.EOF after the last one.
type parser interface{ next() (Event, error) }

// Open opens a trace file. The caller has to close the Reader.
func Open(path string, o Options) (*Reader, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	r, err := NewReader(file, o)
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	r.file = file
	return r, nil
}

// NewReader reads a trace from r. It recognises the format by the first bytes,
// also inside gzip. Input of no bytes is a trace of no events.
//
// It fails with [ErrFormat] for an unknown format. A snapshot is read here as a
// whole, so any of its errors is returned here.
func NewReader(r io.Reader, o Options) (*Reader, error) {
	if o.MaxSnapshotBytes < 0 {
		return nil, fmt.Errorf("trace: %w: MaxSnapshotBytes %d", ErrArgument, o.MaxSnapshotBytes)
	}
	if o.MaxSnapshotBytes == 0 {
		o.MaxSnapshotBytes = 1 << 30
	}
	in := bufio.NewReaderSize(r, maxLine)
	if magic, _ := in.Peek(2); string(magic) == "\x1f\x8b" {
		unzipped, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("trace: %w", err)
		}
		in = bufio.NewReaderSize(unzipped, maxLine)
	}
	format, err := detect(in)
	if err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	out := &Reader{format: format}
	switch format {
	case Snapshot:
		out.parser, err = newSnapshot(in, o)
	case CSV:
		out.parser, err = newCSV(in)
	case JSONLines:
		out.parser = newJSONLines(in)
	}
	if err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	return out, nil
}

// detect looks at the first byte that is not a space. What is neither a pickle nor
// JSON must be CSV, which newCSV checks by the header.
func detect(in *bufio.Reader) (Format, error) {
	start, err := in.Peek(512)
	if len(start) == 0 && err != nil && err != io.EOF {
		return "", err
	}
	if bytes.HasPrefix(start, []byte("\xef\xbb\xbf")) { // byte order mark
		in.Discard(3)
		start = start[3:]
	}
	text := bytes.TrimSpace(start)
	switch {
	case len(start) > 0 && start[0] == 0x80: // the opcode PROTO
		return Snapshot, nil
	case len(start) == 0, len(text) > 0 && text[0] == '{':
		return JSONLines, nil
	}
	return CSV, nil
}

// Format returns the format that was recognised.
func (r *Reader) Format() Format { return r.format }

// Next returns the next event, or io.EOF after the last one. Any other error
// wraps [ErrMalformed] or comes from reading, and repeats on further calls.
func (r *Reader) Next() (Event, error) {
	if r.err != nil {
		return Event{}, r.err
	}
	event, err := r.parser.next()
	if err != nil {
		if err != io.EOF {
			err = fmt.Errorf("trace: %w", err)
		}
		r.err = err
		return Event{}, err
	}
	return event, nil
}

// All returns the remaining events. If the trace cannot be read to its end, the
// last pair has an error and no event.
func (r *Reader) All() iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for {
			event, err := r.Next()
			if err == io.EOF {
				return
			}
			if !yield(event, err) || err != nil {
				return
			}
		}
	}
}

// Close closes the file of [Open]. A Reader of [NewReader] needs no Close.
func (r *Reader) Close() error {
	if r.file == nil {
		return nil
	}
	return r.file.Close()
}
