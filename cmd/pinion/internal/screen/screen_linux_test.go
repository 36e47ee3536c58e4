package screen

import (
	"context"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/term"

	"github.com/pinion-gpu/pinion/internal/testkit"
)

func TestScreen(t *testing.T) {
	p := testkit.NewTerminal(t, 80, 24)
	t.Setenv("TERM", "xterm")
	fd := int(p.Program.Fd())
	before := testkit.Must(term.GetState(fd))(t)
	s := testkit.Must(Open(context.Background(), p.Program, p.Program))(t)
	defer s.Close()
	p.Sees(t, enter)
	if raw := testkit.Must(term.GetState(fd))(t); *raw == *before {
		t.Error("the terminal is as before")
	}
	p.Resize(t, 33, 5)
	if w, h := s.Size(); w != 33 || h != 5 {
		t.Errorf("%d x %d", w, h)
	}
	testkit.OK(t, s.Draw([]string{"one", "two"}))
	p.Sees(t, home+clear+"one\r\n"+clear+"two")
	testkit.OK(t, s.Draw([]string{"one", "two"})) // the same: nothing is written
	testkit.OK(t, s.Draw([]string{"three"}))
	p.Sees(t, "three")
	if n := strings.Count(p.Seen(), "one"); n != 1 {
		t.Errorf("drawn %d times", n)
	}
	s.Redraw()
	testkit.OK(t, s.Draw([]string{"three"}))
	testkit.Eventually(t, "the same again", func() bool { return strings.Count(p.Seen(), "three") == 2 })

	p.Press(t, "q\x1b[A\x03")
	for _, want := range []Key{'q', Up, Interrupt} {
		if k := testkit.Receive(t, "a key", s.Keys()); k != want {
			t.Errorf("%v, want %v", k, want)
		}
	}
	testkit.OK(t, syscall.Kill(os.Getpid(), syscall.SIGWINCH))
	testkit.Receive(t, "the new size", s.Resized())
	s.Close()
	s.Close()
	p.Sees(t, leave)
	if after := testkit.Must(term.GetState(fd))(t); *after != *before {
		t.Error("the terminal is not as before")
	}
}

// The terminal is as it was after a panic, and when a context ends; keys end then.
func TestRestored(t *testing.T) {
	p := testkit.NewTerminal(t, 80, 24)
	t.Setenv("TERM", "xterm")
	fd := int(p.Program.Fd())
	before := testkit.Must(term.GetState(fd))(t)
	func() {
		defer func() { _ = recover() }()
		s := testkit.Must(Open(context.Background(), p.Program, p.Program))(t)
		defer s.Close()
		panic("a mistake")
	}()
	p.Sees(t, leave)
	if after := testkit.Must(term.GetState(fd))(t); *after != *before {
		t.Error("the terminal is not as before")
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := testkit.Must(Open(ctx, p.Program, p.Program))(t)
	defer s.Close()
	cancel()
	for range s.Keys() {
		t.Error("a key")
	}
}

func TestNoTerminal(t *testing.T) {
	p := testkit.NewTerminal(t, 80, 24)
	t.Setenv("TERM", "xterm")
	file := testkit.Must(os.CreateTemp(t.TempDir(), ""))(t)
	defer file.Close()
	for _, c := range [][2]*os.File{{file, p.Program}, {p.Program, file}} {
		_, err := Open(context.Background(), c[0], c[1])
		testkit.WantError(t, "a file", err, ErrNoTerminal)
	}
	t.Setenv("TERM", "dumb")
	_, err := Open(context.Background(), p.Program, p.Program)
	testkit.WantError(t, "a terminal that only prints", err, ErrNoTerminal)
}
