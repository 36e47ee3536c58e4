//go:build linux || darwin

package segment

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/internal/fdpass"
	"golang.org/x/sys/unix"
)

// socketPair returns the ends of a connection.
func socketPair(t *testing.T) (a, b *net.UnixConn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]*net.UnixConn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "socket")
		conn, err := net.FileConn(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		ends[i] = conn.(*net.UnixConn)
		t.Cleanup(func() { conn.Close() })
	}
	return ends[0], ends[1]
}

func TestSend(t *testing.T) {
	a, b := socketPair(t)
	before := descriptors(t)
	for i := range 3 {
		s := mustCreate(t, int64(1000+i), Options{Name: "sent"})
		if err := s.Send(a); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Write([]byte("next")); err != nil {
			t.Fatal(err)
		}
		got, err := Receive(b)
		if err != nil {
			t.Fatal(err)
		}
		s.Bytes()[1] = 9
		if got.Bytes()[1] != 9 || got.Len() != s.Len() || got.Generation() != s.Generation() {
			t.Errorf("%d bytes of %d", got.Len(), s.Len())
		}
		next := make([]byte, 4)
		if _, err := io.ReadFull(b, next); err != nil || string(next) != "next" {
			t.Errorf("then %q, %v", next, err)
		}
		if err := errors.Join(s.Close(), got.Close()); err != nil {
			t.Error(err)
		}
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors, %d before", after, before)
	}
}

func TestReceiveForeign(t *testing.T) {
	s := mustCreate(t, 5000, Options{})
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	message := func(magic string, generation uint64, size int64) []byte {
		b := binary.LittleEndian.AppendUint64([]byte(magic), generation)
		return binary.LittleEndian.AppendUint64(b, uint64(size))
	}
	right := message(layoutMagic, s.Generation(), 5000)
	for name, c := range map[string]struct {
		msg  []byte
		file *os.File
		want error
		text string
	}{
		"right":         {right, s.File(), nil, ""},
		"magic":         {message("PNG 1234", s.Generation(), 5000), s.File(), ErrInvalid, `starts with "PNG 1234"`},
		"generation":    {message(layoutMagic, 0, 5000), s.File(), ErrInvalid, "announces generation 0000000000000000"},
		"size":          {message(layoutMagic, s.Generation(), 5001), s.File(), ErrInvalid, "with 5001 bytes"},
		"other file":    {right, null, ErrInvalid, "not a regular file"},
		"no descriptor": {right, nil, ErrInvalid, "0 came with the message"},
		"short":         {right[:23], s.File(), io.ErrUnexpectedEOF, "after 23 of 24 bytes"},
		"nothing":       {nil, nil, io.EOF, "after 0 of 24 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := socketPair(t)
			before := descriptors(t)
			if c.file != nil {
				err = fdpass.Send(a, c.msg, c.file)
			} else {
				_, err = a.Write(c.msg)
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := a.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			got, err := Receive(b)
			if c.want == nil {
				if err != nil {
					t.Fatal(err)
				}
				if err := got.Close(); err != nil {
					t.Error(err)
				}
			} else if got != nil || !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%v, %v, want %q", got, err, c.text)
			}
			if after := descriptors(t); after != before {
				t.Errorf("%d descriptors, %d before", after, before)
			}
		})
	}
	a, _ := socketPair(t)
	a.Close()
	if err := s.Send(a); !errors.Is(err, net.ErrClosed) {
		t.Errorf("on a closed connection: %v", err)
	}
}
