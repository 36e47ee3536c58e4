//go:build unix

package fdpass_test

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/internal/fdpass"
	"golang.org/x/sys/unix"
)

func Example() {
	there, here, err := pair()
	if err != nil {
		log.Fatal(err)
	}
	f, err := os.Open(os.DevNull)
	if err != nil {
		log.Fatal(err)
	}
	if err := fdpass.Send(there, []byte("take this"), f); err != nil {
		log.Fatal(err)
	}
	f.Close()

	msg := make([]byte, len("take this"))
	got, err := fdpass.Receive(here, msg)
	if err != nil {
		log.Fatal(err)
	}
	defer got.Close()
	_, err = got.Read(make([]byte, 1))
	fmt.Printf("%s: %v\n", msg, err)
	// Output: take this: EOF
}

// pair returns the ends of a connection.
func pair() (a, b *net.UnixConn, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return nil, nil, err
	}
	var ends [2]*net.UnixConn
	for i, fd := range fds {
		unix.CloseOnExec(fd)
		f := os.NewFile(uintptr(fd), "socket")
		conn, err := net.FileConn(f)
		f.Close()
		if err != nil {
			return nil, nil, err
		}
		ends[i] = conn.(*net.UnixConn)
	}
	return ends[0], ends[1], nil
}

func testPair(t *testing.T) (a, b *net.UnixConn) {
	t.Helper()
	a, b, err := pair()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

// open counts the descriptors of this process.
func open(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func TestReceive(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rights := func(n int) []byte {
		fds := make([]int, n)
		for i := range fds {
			fds[i] = int(f.Fd())
		}
		return unix.UnixRights(fds...)
	}
	type part struct {
		msg     string
		control []byte
	}
	for name, c := range map[string]struct {
		parts []part
		want  error
		text  string
	}{
		"whole":            {parts: []part{{"message!", rights(1)}}},
		"more follows":     {parts: []part{{"message!and more", rights(1)}}},
		"in parts":         {parts: []part{{"mess", rights(1)}, {"age!", nil}}},
		"late":             {parts: []part{{"mess", nil}, {"age!", rights(1)}}},
		"none":             {parts: []part{{"message!", nil}}, want: fdpass.ErrCount, text: ": 0 came"},
		"two":              {parts: []part{{"message!", rights(2)}}, want: fdpass.ErrCount, text: ": 2 came"},
		"two in two parts": {parts: []part{{"mess", rights(1)}, {"age!", rights(1)}}, want: fdpass.ErrCount, text: ": 2 came"},
		"many":             {parts: []part{{"message!", rights(100)}}, want: fdpass.ErrCount, text: "more than"},
		"closed":           {want: io.EOF, text: "after 0 of 8 bytes"},
		"short":            {parts: []part{{"mess", rights(3)}}, want: io.ErrUnexpectedEOF, text: "after 4 of 8 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := testPair(t)
			before := open(t)
			for _, p := range c.parts {
				if _, _, err := a.WriteMsgUnix([]byte(p.msg), p.control, nil); err != nil {
					t.Fatal(err)
				}
			}
			if err := a.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			msg := make([]byte, 8)
			got, err := fdpass.Receive(b, msg)
			if c.want != nil {
				if got != nil || !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
					t.Errorf("%v, %v, want %q with %q", got, err, c.want, c.text)
				}
			} else if err != nil {
				t.Error(err)
			} else {
				same := func() bool {
					x, err1 := f.Stat()
					y, err2 := got.Stat()
					return err1 == nil && err2 == nil && os.SameFile(x, y)
				}
				if string(msg) != "message!" || !same() {
					t.Errorf("%q with %s", msg, got.Name())
				}
				got.Close()
			}
			if c.parts != nil && c.want == nil {
				var rest string
				for _, p := range c.parts {
					rest += p.msg
				}
				left, err := io.ReadAll(b)
				if err != nil || string(left) != rest[8:] {
					t.Errorf("%q left, %v", left, err)
				}
			}
			if after := open(t); after != before {
				t.Errorf("%d descriptors, %d before", after, before)
			}
		})
	}
}

// What arrives is not handed on to programs that this process starts.
func TestCloseOnExec(t *testing.T) {
	a, b := testPair(t)
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := fdpass.Send(a, []byte("x"), f); err != nil {
		t.Fatal(err)
	}
	got, err := fdpass.Receive(b, make([]byte, 1))
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close()
	if flags, err := unix.FcntlInt(got.Fd(), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("flags %#x, %v", flags, err)
	}
}

func TestSendClosed(t *testing.T) {
	a, b := testPair(t)
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	b.Close()
	if err := fdpass.Send(a, []byte("x"), f); !errors.Is(err, unix.EPIPE) && runtime.GOOS == "linux" {
		t.Errorf("to a closed peer: %v", err)
	}
	a.Close()
	if err := fdpass.Send(a, []byte("x"), f); !errors.Is(err, net.ErrClosed) {
		t.Errorf("on a closed connection: %v", err)
	}
	if _, err := fdpass.Receive(a, make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("from a closed connection: %v", err)
	}
	f.Close()
	c, _ := testPair(t)
	if err := fdpass.Send(c, []byte("x"), f); !errors.Is(err, os.ErrClosed) {
		t.Errorf("of a closed file: %v", err)
	}
}
