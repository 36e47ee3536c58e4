package screen

import (
	"context"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/pinion-gpu/pinion/internal/testkit"
)

// pair is a terminal: what a program has, and what a person would see and press.
type pair struct {
	program, person *os.File

	mu   sync.Mutex
	seen strings.Builder
}

func terminal(t *testing.T) *pair {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no pseudo-terminals:", err)
	}
	fd := int(person.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	testkit.OK(t, err)
	testkit.OK(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	program, err := os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	testkit.OK(t, err)
	p := &pair{program: program, person: person}
	done := make(chan struct{})
	go func() {
		defer close(done)
		b := make([]byte, 4096)
		for {
			n, err := person.Read(b)
			p.mu.Lock()
			p.seen.Write(b[:n])
			p.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = program.Close()
		_, _ = person.WriteString("x\n") // ends a read that keeps it open
		<-done
		_ = person.Close()
	})
	t.Setenv("TERM", "xterm")
	return p
}

func (p *pair) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen.String()
}

func (p *pair) sees(t *testing.T, what string) {
	t.Helper()
	testkit.Eventually(t, strconv.Quote(what)+" on the terminal", func() bool { return strings.Contains(p.text(), what) })
}

func TestScreen(t *testing.T) {
	p := terminal(t)
	fd := int(p.program.Fd())
	before := testkit.Must(term.GetState(fd))(t)
	s := testkit.Must(Open(context.Background(), p.program, p.program))(t)
	defer s.Close()
	p.sees(t, enter)
	if raw := testkit.Must(term.GetState(fd))(t); *raw == *before {
		t.Error("the terminal is as before")
	}
	testkit.OK(t, unix.IoctlSetWinsize(int(p.person.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 5, Col: 33}))
	if w, h := s.Size(); w != 33 || h != 5 {
		t.Errorf("%d x %d", w, h)
	}
	testkit.OK(t, s.Draw([]string{"one", "two"}))
	p.sees(t, home+clear+"one\r\n"+clear+"two")
	testkit.OK(t, s.Draw([]string{"one", "two"})) // the same: nothing is written
	testkit.OK(t, s.Draw([]string{"three"}))
	p.sees(t, "three")
	if n := strings.Count(p.text(), "one"); n != 1 {
		t.Errorf("drawn %d times", n)
	}
	s.Redraw()
	testkit.OK(t, s.Draw([]string{"three"}))
	testkit.Eventually(t, "the same again", func() bool { return strings.Count(p.text(), "three") == 2 })

	_, err := p.person.WriteString("q\x1b[A\x03")
	testkit.OK(t, err)
	for _, want := range []Key{'q', Up, Interrupt} {
		if k := testkit.Receive(t, "a key", s.Keys()); k != want {
			t.Errorf("%v, want %v", k, want)
		}
	}
	testkit.OK(t, syscall.Kill(os.Getpid(), syscall.SIGWINCH))
	testkit.Receive(t, "the new size", s.Resized())
	s.Close()
	s.Close()
	p.sees(t, leave)
	if after := testkit.Must(term.GetState(fd))(t); *after != *before {
		t.Error("the terminal is not as before")
	}
}

// The terminal is as it was after a panic, and when a context ends; keys end then.
func TestRestored(t *testing.T) {
	p := terminal(t)
	fd := int(p.program.Fd())
	before := testkit.Must(term.GetState(fd))(t)
	func() {
		defer func() { _ = recover() }()
		s := testkit.Must(Open(context.Background(), p.program, p.program))(t)
		defer s.Close()
		panic("a mistake")
	}()
	p.sees(t, leave)
	if after := testkit.Must(term.GetState(fd))(t); *after != *before {
		t.Error("the terminal is not as before")
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := testkit.Must(Open(ctx, p.program, p.program))(t)
	defer s.Close()
	cancel()
	for range s.Keys() {
		t.Error("a key")
	}
}

func TestNoTerminal(t *testing.T) {
	p := terminal(t)
	file := testkit.Must(os.CreateTemp(t.TempDir(), ""))(t)
	defer file.Close()
	for _, c := range [][2]*os.File{{file, p.program}, {p.program, file}} {
		_, err := Open(context.Background(), c[0], c[1])
		testkit.WantError(t, "a file", err, ErrNoTerminal)
	}
	t.Setenv("TERM", "dumb")
	_, err := Open(context.Background(), p.program, p.program)
	testkit.WantError(t, "a terminal that only prints", err, ErrNoTerminal)
}
