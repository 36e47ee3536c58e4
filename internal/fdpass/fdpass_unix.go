//go:build unix

package fdpass

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// Send writes msg, which must not be empty, with a descriptor of f. The
// caller keeps f, and may close it when Send returns.
func Send(conn *net.UnixConn, msg []byte, f *os.File) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return fmt.Errorf("fdpass: send: %w", err)
	}
	var n int
	if e := raw.Control(func(fd uintptr) {
		n, _, err = conn.WriteMsgUnix(msg, unix.UnixRights(int(fd)), nil)
	}); e != nil {
		err = os.ErrClosed // Control has no other reason
	}
	if err == nil && n < len(msg) {
		_, err = conn.Write(msg[n:])
	}
	if err != nil {
		return fmt.Errorf("fdpass: send: %w", err)
	}
	return nil
}

// room is for how many descriptors a message may bring before the system
// drops the rest. One is right; more are counted to say so.
const room = 8

// Receive fills msg and returns the file that came with it, which the caller
// owns. It fails with [ErrCount] when there was none or more than one, with
// [io.EOF] when the peer has closed the connection, and with
// [io.ErrUnexpectedEOF] when it did so within the message.
func Receive(conn *net.UnixConn, msg []byte) (*os.File, error) {
	var got []int
	truncated := false
	err := func() error {
		control := make([]byte, unix.CmsgSpace(room*4))
		for n := 0; n < len(msg); {
			m, c, flags, _, err := conn.ReadMsgUnix(msg[n:], control)
			got = append(got, descriptors(control[:c])...)
			truncated = truncated || flags&unix.MSG_CTRUNC != 0
			n += m
			if m == 0 && (err == nil || errors.Is(err, io.EOF)) {
				if err = io.EOF; n > 0 {
					err = io.ErrUnexpectedEOF
				}
			}
			if err != nil {
				return fmt.Errorf("%w after %d of %d bytes", err, n, len(msg))
			}
		}
		switch {
		case truncated:
			return fmt.Errorf("%w: more than %d came with the message", ErrCount, len(got))
		case len(got) != 1:
			return fmt.Errorf("%w: %d came with the message", ErrCount, len(got))
		}
		return nil
	}()
	if err != nil {
		for _, fd := range got {
			err = errors.Join(err, unix.Close(fd))
		}
		return nil, fmt.Errorf("fdpass: receive: %w", err)
	}
	return os.NewFile(uintptr(got[0]), "received"), nil
}

// descriptors lists the descriptors in control data that the kernel wrote.
func descriptors(control []byte) []int {
	var all []int
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return nil
	}
	for _, m := range messages {
		if fds, err := unix.ParseUnixRights(&m); err == nil {
			all = append(all, fds...)
		}
	}
	return all
}
