//go:build linux

package main

import (
	"bufio"
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/pinned/segment"
)

func python(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err != nil {
		t.Skip(err)
	}
	if exec.Command(path, "-c", "import socket; socket.recv_fds").Run() != nil {
		t.Skip("needs Python 3.9")
	}
	return path
}

// shared is a folder on a shared-memory file system, where there is one: a GPU
// does not pin the pages of files on disks.
func shared(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "pinion-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// consume starts consumer.py and returns what it prints first.
func consume(t *testing.T, args ...string) (cmd *exec.Cmd, in io.Closer, lines []string) {
	t.Helper()
	cmd = exec.Command(python(t), append([]string{"consumer.py", "--hold"}, args...)...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	for s := bufio.NewScanner(out); len(lines) < 3; {
		if !s.Scan() {
			t.Fatalf("consumer.py said only %q", lines)
		}
		lines = append(lines, s.Text())
	}
	t.Log(lines[2])
	return cmd, in, lines
}

func pids(t *testing.T, s *segment.Segment) []int {
	t.Helper()
	owners, err := s.Owners()
	if err != nil {
		t.Fatal(err)
	}
	var list []int
	for _, o := range owners {
		list = append(list, o.PID)
	}
	return list
}

// The Python consumer and the Go producer agree on the bytes and the owners.
func TestConsumerByPath(t *testing.T) {
	path := filepath.Join(shared(t), "segment")
	s, err := segment.Create(100_001, segment.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i := range s.Bytes() {
		s.Bytes()[i] = byte(i * 31)
	}
	first, in, lines := consume(t, "--path", path)
	second, _, _ := consume(t, "--path", path)
	me := os.Getpid()
	for i, want := range []string{
		fmt.Sprintf("%d bytes, generation %016x, crc32 %08x", s.Len(), s.Generation(), crc32.ChecksumIEEE(s.Bytes())),
		fmt.Sprintf("owners: %d %d", me, first.Process.Pid),
	} {
		if lines[i] != want {
			t.Errorf("%q, want %q", lines[i], want)
		}
	}
	if got, want := pids(t, s), []int{me, first.Process.Pid, second.Process.Pid}; !slices.Equal(got, want) {
		t.Errorf("owners %v, want %v", got, want)
	}
	second.Process.Kill()
	second.Wait()
	in.Close()
	if err := first.Wait(); err != nil {
		t.Error(err)
	}
	if got := pids(t, s); !slices.Equal(got, []int{me}) {
		t.Errorf("owners %v, want %d", got, me)
	}
}

// The last owner may be a consumer: it clears up after a dead creator, and
// finds slots of dead owners.
func TestConsumerIsLast(t *testing.T) {
	if path := os.Getenv("PINION_SEGMENT_PATH"); path != "" {
		if _, err := segment.Create(10, segment.Options{Path: path}); err != nil {
			t.Fatal(err)
		}
		return // without closing it
	}
	path := filepath.Join(shared(t), "segment")
	creator := exec.Command(os.Args[0], "-test.run=^TestConsumerIsLast$")
	creator.Env = append(os.Environ(), "PINION_SEGMENT_PATH="+path)
	if out, err := creator.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	consumer, in, lines := consume(t, "--path", path)
	if want := fmt.Sprintf("owners: %d", consumer.Process.Pid); lines[1] != want {
		t.Errorf("%q, want %q", lines[1], want)
	}
	in.Close()
	if err := consumer.Wait(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("left behind: %v", err)
	}
}

func TestConsumerBySocket(t *testing.T) {
	for _, path := range []string{"", filepath.Join(shared(t), "segment")} {
		socket := filepath.Join(t.TempDir(), "s")
		ctx, cancel := context.WithCancel(t.Context())
		r, w := io.Pipe()
		done := make(chan error, 1)
		go func() {
			err := run(ctx, w, "host", 1<<20, socket, path)
			w.CloseWithError(err)
			done <- err
		}()
		var produced []string
		for s := bufio.NewScanner(r); len(produced) < 3; produced = append(produced, s.Text()) {
			if !s.Scan() {
				t.Fatalf("producer: %q, %v", produced, s.Err())
			}
		}
		for range 2 {
			consumer, in, lines := consume(t, "--socket", socket)
			if lines[0] != produced[0] || !strings.HasPrefix(lines[0], "1048576 bytes, ") {
				t.Errorf("consumer: %q, producer: %q", lines[0], produced[0])
			}
			in.Close()
			if err := consumer.Wait(); err != nil {
				t.Error(err)
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		r.Close()
	}
}

func TestConsumerRefuses(t *testing.T) {
	s, err := segment.Create(10, segment.Options{Path: filepath.Join(shared(t), "segment")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	good, err := os.ReadFile(s.Path())
	if err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func([]byte) []byte{
		"less than the header":     func(b []byte) []byte { return b[:100] },
		"not b'PINIONSG'":          func(b []byte) []byte { b[0]++; return b },
		"layout version 2":         func(b []byte) []byte { b[8]++; return b },
		"bytes of data in a file":  func(b []byte) []byte { b[20]++; return b },
		"in a file of 65536 bytes": func(b []byte) []byte { return b[:65536] },
	} {
		path := filepath.Join(t.TempDir(), "bad")
		if err := os.WriteFile(path, change(slices.Clone(good)), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(python(t), "consumer.py", "--path", path).CombinedOutput()
		if err == nil || !strings.HasPrefix(string(out), "consumer: ") || !strings.Contains(string(out), want) {
			t.Errorf("%v: %s, want %q", err, out, want)
		}
	}
}
