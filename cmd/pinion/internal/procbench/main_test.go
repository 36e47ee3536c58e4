//go:build unix

package procbench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	_ "github.com/pinion-gpu/pinion/device/all"
)

// TestMain makes the test binary one of the processes where a test has started
// it as one. The argument says how it behaves.
func TestMain(m *testing.M) {
	os.Setenv("GORACE", "atexit_sleep_ms=0") // of processes that are started
	if len(os.Args) == 2 && os.Getenv("PINION_PROCBENCH_TEST") != "" {
		if err := behave(os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Setenv("PINION_PROCBENCH_TEST", "1")
	os.Exit(m.Run())
}

func behave(how string) error {
	switch how {
	case "child":
		leaveTrace()
		return Child(context.Background())
	case "parent": // runs until it is killed
		dev, err := device.Open("host:64MiB")
		if err != nil {
			return err
		}
		_, err = Run(context.Background(), dev, Options{
			Args: []string{"child"}, Size: MinSize, Repeats: 1 << 30,
			Progress: func(_, _ int, what string) {
				if what == Pageable+" h2d" { // all processes that stay are there
					os.WriteFile(filepath.Join(os.Getenv("PINION_PROCBENCH_TRACE"), "steady"), nil, 0o600)
				}
			},
		})
		return err
	case "leaves":
		os.Stderr.WriteString("one\ntwo\n")
		os.Exit(3)
	case "hangs":
		time.Sleep(time.Hour)
	}

	// The rest answers, with a difference.
	conn, err := net.FileConn(os.NewFile(socketDescriptor, "socket"))
	if err != nil {
		return err
	}
	c := &child{ctx: context.Background(), conn: conn.(*net.UnixConn), host: map[memory][]byte{}}
	for {
		var req request
		if err := readFrame(conn, &req); err != nil {
			if err == io.EOF {
				return c.close()
			}
			return err
		}
		if req.Op == opCopy && how == "dies" {
			os.Stderr.WriteString("going down")
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		if how == "babbles" {
			conn.Write([]byte("hello, world"))
			continue
		}
		rep, err := c.do(req)
		if err != nil {
			rep = failure(err)
		}
		if req.Op == opOpen {
			switch how {
			case "garbles":
				c.dev = garbling{c.dev}
			case "pins nothing":
				c.dev = struct{ device.Device }{c.dev}
			case "closes badly":
				c.later(func() error { return errors.New("it will not close") })
			}
		}
		if err := writeFrame(conn, rep); err != nil {
			return err
		}
	}
}

// garbling is a device whose copies to it lose the last byte.
type garbling struct{ device.Device }

func (d garbling) NewStream() (device.Stream, error) {
	s, err := d.Device.NewStream()
	return garblingStream{s}, err
}

type garblingStream struct{ device.Stream }

func (s garblingStream) CopyH2D(dst device.Ptr, src []byte) error {
	return s.Stream.CopyH2D(dst, src[:len(src)-1])
}

// leaveTrace makes a file, where a test wants that, which stays locked for as
// long as this process lives.
func leaveTrace() {
	dir := os.Getenv("PINION_PROCBENCH_TRACE")
	if dir == "" {
		return
	}
	f, err := os.Create(filepath.Join(dir, "."+strconv.Itoa(os.Getpid())))
	if err != nil {
		panic(err)
	}
	fd, _ := syscall.Dup(int(f.Fd())) // which no finaliser closes
	syscall.CloseOnExec(fd)
	if err := syscall.Flock(fd, syscall.LOCK_EX); err != nil {
		panic(err)
	}
	if err := os.Rename(f.Name(), filepath.Join(dir, strconv.Itoa(os.Getpid()))); err != nil {
		panic(err)
	}
}
