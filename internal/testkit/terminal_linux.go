package testkit

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// Terminal is a terminal of a test's own: a program has one end, a person the other.
type Terminal struct {
	Program *os.File // what the program reads keys from, and writes to
	Person  *os.File // to press keys on

	mu   sync.Mutex
	seen strings.Builder
}

// NewTerminal makes a terminal of that many columns and lines, which goes when the
// test ends. The test is skipped where there are none.
func NewTerminal(t testing.TB, width, height int) *Terminal {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no pseudo-terminals:", err)
	}
	number, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	OK(t, err)
	OK(t, unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0))
	program, err := os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	OK(t, err)
	term := &Terminal{Program: program, Person: person}
	term.Resize(t, width, height)
	done := make(chan struct{})
	go func() {
		defer close(done)
		b := make([]byte, 4096)
		for {
			n, err := person.Read(b)
			term.mu.Lock()
			term.seen.Write(b[:n])
			term.mu.Unlock()
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
	return term
}

// Resize changes the size.
func (term *Terminal) Resize(t testing.TB, width, height int) {
	t.Helper()
	size := unix.Winsize{Col: uint16(width), Row: uint16(height)}
	OK(t, unix.IoctlSetWinsize(int(term.Person.Fd()), unix.TIOCSWINSZ, &size))
}

// Press presses keys.
func (term *Terminal) Press(t testing.TB, keys string) {
	t.Helper()
	_, err := term.Person.WriteString(keys)
	OK(t, err)
}

// Seen is everything that was written so far.
func (term *Terminal) Seen() string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return term.seen.String()
}

// Sees waits until a text was written.
func (term *Terminal) Sees(t testing.TB, text string) {
	t.Helper()
	Eventually(t, strconv.Quote(text)+" on the terminal", func() bool { return strings.Contains(term.Seen(), text) })
}
