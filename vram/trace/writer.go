package trace

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/pinion-gpu/pinion/internal/jsonscan"
)

// Writer writes a trace as JSON lines. It accepts only traces that a [Reader] can
// read.
type Writer struct {
	w      *bufio.Writer
	ledger ledger
	events int64
	line   []byte
}

// NewWriter returns a Writer. Call [Writer.Flush] at the end.
func NewWriter(w io.Writer) *Writer {
	return &Writer{w: bufio.NewWriterSize(w, 64<<10), ledger: newLedger(0)}
}

// Write appends an event. It fails with [ErrMalformed], and writes nothing, if the
// event contradicts those before it. Of a free, only ID, Stream and Time are
// written: the rest is that of its allocation.
//
// A reader keeps IDs that ascend from allocation to allocation, as those of
// readers and generators do. It replaces others.
func (w *Writer) Write(e Event) error {
	line, err := w.format(w.line[:0], e)
	if err != nil {
		return fmt.Errorf("trace: %w: event %d: %w", ErrMalformed, w.events+1, err)
	}
	w.line = line
	w.events++
	if _, err := w.w.Write(line); err != nil {
		return fmt.Errorf("trace: %w", err)
	}
	return nil
}

// Flush writes what is buffered.
func (w *Writer) Flush() error {
	if err := w.w.Flush(); err != nil {
		return fmt.Errorf("trace: %w", err)
	}
	return nil
}

func (w *Writer) format(out []byte, e Event) ([]byte, error) {
	if e.Stream < 0 || e.Stream > math.MaxInt32 {
		return nil, fmt.Errorf("stream %d is not in 0 to %d", e.Stream, math.MaxInt32)
	}
	out = append(out, `{"op":"`...)
	out = append(out, e.Op.String()...)
	out = append(out, '"')
	switch {
	case e.Op == Free && !e.Failed:
		b, err := w.ledger.free(e.ID)
		if err != nil {
			return nil, err
		}
		out = strconv.AppendUint(append(out, `,"id":`...), e.ID, 10)
		if e.Stream != b.stream {
			out = strconv.AppendInt(append(out, `,"stream":`...), int64(e.Stream), 10)
		}
	case e.Op == Alloc:
		if e.Failed {
			if err := checkFailed(e.Bytes); err != nil {
				return nil, err
			}
			out = append(out, `,"failed":true`...)
		} else {
			if _, err := w.ledger.alloc(e.ID, e.ID, e.Bytes, e.Stream); err != nil {
				return nil, err
			}
			out = strconv.AppendUint(append(out, `,"id":`...), e.ID, 10)
		}
		out = strconv.AppendInt(append(out, `,"bytes":`...), e.Bytes, 10)
		out = strconv.AppendInt(append(out, `,"stream":`...), int64(e.Stream), 10)
		out = appendText(out, `,"purpose":`, e.Purpose)
		out = appendText(out, `,"name":`, e.Name)
	default:
		return nil, fmt.Errorf("op %d, failed %v", e.Op, e.Failed)
	}
	if e.Time != 0 {
		out = appendSeconds(append(out, `,"time_seconds":`...), e.Time)
	}
	return append(out, "}\n"...), nil
}

// appendText appends a key and a string, unless it is empty.
func appendText(out []byte, key, s string) []byte {
	if s == "" {
		return out
	}
	out = append(out, key...)
	if !jsonscan.Plain(s) {
		quoted, _ := json.Marshal(s) // cannot fail for a string
		return append(out, quoted...)
	}
	out = append(out, '"')
	out = append(out, s...)
	return append(out, '"')
}
