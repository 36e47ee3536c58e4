package procbench

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/pinion-gpu/pinion/device"
)

// request is what the parent asks of a process. Behind a take request come the
// bytes of the serialised buffer, or the segment.
type request struct {
	Op     string `json:"op"`
	Device string `json:"device,omitempty"` // open: its name

	// take
	Memory memory `json:"memory,omitempty"`
	Size   int64  `json:"size,omitempty"`
	Offset int64  `json:"offset,omitempty"` // of the process's part of the segment
	Seed   uint64 `json:"seed,omitempty"`   // of its bytes

	// first, check, copy
	Staged   bool `json:"staged,omitempty"`
	ToHost   bool `json:"to_host,omitempty"`
	Together bool `json:"together,omitempty"`
}

// Operations of a request.
const (
	opOpen  = "open"
	opTake  = "take"
	opFirst = "first"
	opCheck = "check"
	opCopy  = "copy"
)

// reply is the answer: an error, or times.
type reply struct {
	Error string `json:"error,omitempty"`
	Code  string `json:"code,omitempty"` // of a sentinel error

	Took time.Duration `json:"took,omitempty"`
	Map  time.Duration `json:"map,omitempty"` // take shared: before it was pinned

	// copy: on the system's clock, in nanoseconds, which all processes share.
	Begin  int64 `json:"begin,omitempty"` // of the copies before the timed one
	Start  int64 `json:"start,omitempty"` // of the timed one
	End    int64 `json:"end,omitempty"`   // of the copies after it
	Copies int64 `json:"copies,omitempty"`
}

// codes are the errors that the parent tells apart.
var codes = map[string]error{
	"pin limit":     device.ErrPinLimit,
	"not supported": device.ErrNotSupported,
	"out of memory": device.ErrOutOfMemory,
	"unavailable":   device.ErrUnavailable,
}

func failure(err error) reply {
	r := reply{Error: err.Error()}
	for code, sentinel := range codes {
		if errors.Is(err, sentinel) {
			r.Code = code
		}
	}
	return r
}

// err is the error that the process has met, or nil.
func (r reply) err() error {
	if r.Error == "" {
		return nil
	}
	return &remoteError{r.Error, codes[r.Code]}
}

// remoteError is an error of another process.
type remoteError struct {
	text string
	is   error // a sentinel, or nil
}

func (e *remoteError) Error() string { return e.text }
func (e *remoteError) Unwrap() error { return e.is }

// maxFrame bounds a message, in bytes.
const maxFrame = 64 << 10

// writeFrame writes v as JSON behind its length.
func writeFrame(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(b) > maxFrame {
		return fmt.Errorf("a message of %d bytes, at most %d are possible", len(b), maxFrame)
	}
	_, err = w.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(b))), b...))
	return err
}

// readFrame reads what writeFrame wrote, and nothing behind it. It fails with
// io.EOF where the peer has closed the connection between two messages.
func readFrame(r io.Reader, v any) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	n := binary.LittleEndian.Uint32(head[:])
	if n > maxFrame {
		return fmt.Errorf("a message of %d bytes, at most %d are possible", n, maxFrame)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	return json.Unmarshal(b, v)
}
