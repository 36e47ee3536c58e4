package screen

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/cli"
)

// What a terminal is told, by the names of xterm's manual.
const (
	enter = "\x1b[?1049h\x1b[?25l\x1b[?7l" // alternate screen; no cursor; lines that are too long are cut
	leave = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l"
	home  = "\x1b[H"
	clear = "\x1b[K" // clears the line from here on; behind a full line it would take the last character
)

// ErrNoTerminal: the input or the output is none, or one that can only print.
var ErrNoTerminal = errors.New("no terminal")

// Screen is a terminal that shows nothing but what is drawn. Its methods are for one
// goroutine.
type Screen struct {
	out    *os.File
	keys   chan Key
	resize chan struct{}
	last   string // what is shown

	give    func() error // the terminal back as it was
	take    func() error // it over
	restore func()
	cancel  context.CancelFunc
	readers sync.WaitGroup
}

// Usable reports whether in and out are a terminal that Open can use.
func Usable(in, out *os.File) bool {
	return term.IsTerminal(int(in.Fd())) && term.IsTerminal(int(out.Fd())) && os.Getenv("TERM") != "dumb"
}

// Open takes the terminal over, until Close. Keys arrive until ctx ends, Ctrl-C as
// one of them.
func Open(ctx context.Context, in, out *os.File) (*Screen, error) {
	if !Usable(in, out) {
		return nil, ErrNoTerminal
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &Screen{out: out, keys: make(chan Key), resize: make(chan struct{}, 1), cancel: cancel}
	var before *term.State
	s.take = func() (err error) {
		if before, err = term.MakeRaw(int(in.Fd())); err != nil {
			return err
		}
		if _, err = io.WriteString(out, enter); err != nil {
			return errors.Join(err, s.give())
		}
		s.Redraw()
		return nil
	}
	s.give = func() error {
		_, err := io.WriteString(out, leave)
		return errors.Join(err, term.Restore(int(in.Fd()), before))
	}
	if err := s.take(); err != nil {
		cancel()
		return nil, err
	}
	forget := notifyResize(s.resize)
	s.restore = sync.OnceFunc(func() {
		forget()
		_ = s.give() // who asked is leaving
	})
	s.readers.Go(func() { s.read(ctx, cli.ReaderUntil(ctx, in)) })
	return s, nil
}

// Close gives the terminal back as it was. A second call does nothing.
func (s *Screen) Close() {
	s.restore()
	s.cancel()
	s.readers.Wait()
}

// Suspend gives the terminal back, stops this process, as Ctrl-Z does with others, and
// takes the terminal over again when it goes on. Where the system has no such thing it
// does nothing.
func (s *Screen) Suspend() error {
	if !canStop {
		return nil
	}
	if err := s.give(); err != nil {
		return err
	}
	stop()
	return s.take()
}

// Size is that of the terminal, in columns and lines.
func (s *Screen) Size() (width, height int) {
	width, height, err := term.GetSize(int(s.out.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		return 80, 24
	}
	return width, height
}

// Keys gives the keys that are pressed. It is closed when there will be no more.
func (s *Screen) Keys() <-chan Key { return s.keys }

// Resized says that the size may have changed, where the system tells.
func (s *Screen) Resized() <-chan struct{} { return s.resize }

// Draw shows lines, as many as the screen has. They may have attributes, must not be
// wider than the screen, and are written at once, so that nothing flickers.
func (s *Screen) Draw(lines []string) error {
	frame := home + clear + strings.Join(lines, "\r\n"+clear)
	if frame == s.last {
		return nil
	}
	s.last = frame
	_, err := io.WriteString(s.out, frame)
	return err
}

// Redraw has the next Draw write everything, as after a change of the size.
func (s *Screen) Redraw() { s.last = "" }

// read sends keys until ctx or the input ends.
func (s *Screen) read(ctx context.Context, in io.Reader) {
	defer close(s.keys)
	var d decoder
	buffer := make([]byte, 256)
	for {
		n, err := in.Read(buffer)
		for _, k := range d.decode(buffer[:n]) {
			select {
			case s.keys <- k:
			case <-ctx.Done():
				return
			}
		}
		if err != nil {
			return
		}
	}
}
