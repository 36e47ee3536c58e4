package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"

	"github.com/pinion-gpu/pinion/internal/fdpass"
	"github.com/pinion-gpu/pinion/internal/shmem"
)

// messageBytes is what goes with the descriptor (layout.go).
const messageBytes = 24

// Send hands the segment to the process at the other end of a Unix stream
// socket, which calls [Receive]. It may block until the socket takes
// 24 bytes; a deadline of conn cuts that short.
func (s *Segment) Send(conn *net.UnixConn) error {
	f := s.File()
	if f == nil {
		return s.closedError("send")
	}
	msg := append(make([]byte, 0, messageBytes), layoutMagic...)
	msg = binary.LittleEndian.AppendUint64(msg, s.header.generation)
	msg = binary.LittleEndian.AppendUint64(msg, uint64(s.header.size))
	if err := fdpass.Send(conn, msg, f); err != nil {
		return fmt.Errorf("segment: send %s: %w", s.header.label(), err)
	}
	return nil
}

// Receive opens the segment that the process at the other end of conn
// sends with [Segment.Send]; the segment must be closed. It reads that one
// message and nothing behind it, and waits for it until a deadline of conn.
//
// It fails with [ErrInvalid] when another message arrives, one without a
// descriptor or with several, or when the file is not the segment that the
// message names; with [io.EOF] when the peer has closed the connection, and
// with [io.ErrUnexpectedEOF] when it did so within the message. Descriptors
// that came along are closed then.
func Receive(conn *net.UnixConn) (*Segment, error) {
	if _, err := identify(); err != nil {
		return nil, err
	}
	s, err := receive(conn)
	if err != nil {
		return nil, fmt.Errorf("segment: receive segment: %w", err)
	}
	return s, nil
}

func receive(conn *net.UnixConn) (*Segment, error) {
	msg := make([]byte, messageBytes)
	f, err := fdpass.Receive(conn, msg)
	if errors.Is(err, fdpass.ErrCount) {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if err != nil {
		return nil, err
	}
	s, err := func() (*Segment, error) {
		if got := msg[:8]; string(got) != layoutMagic {
			return nil, fmt.Errorf("%w: the message starts with %q, not %q", ErrInvalid, got, layoutMagic)
		}
		generation, size := binary.LittleEndian.Uint64(msg[8:]), binary.LittleEndian.Uint64(msg[16:])
		h, _, err := readHeader(f)
		if err != nil {
			return nil, err
		}
		if h.generation != generation || uint64(h.size) != size {
			return nil, fmt.Errorf("%w: the message announces generation %016x with %d bytes, the file is generation %016x with %d",
				ErrInvalid, generation, size, h.generation, h.size)
		}
		return open(f, "", OpenOptions{})
	}()
	if err != nil {
		return nil, errors.Join(err, shmem.Close(f))
	}
	return s, nil
}
