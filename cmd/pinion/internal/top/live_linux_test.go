package top

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/term"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/screen"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// live runs Live on a terminal of its own, until it ends.
func live(t *testing.T, ctx context.Context, look func(context.Context) (Look, error)) (*testkit.Terminal, <-chan error) {
	t.Helper()
	t.Setenv("TERM", "xterm")
	terminal := testkit.NewTerminal(t, 80, 24)
	before := testkit.Must(term.GetState(int(terminal.Program.Fd())))(t)
	ended := make(chan error, 1)
	go func() {
		s, err := screen.Open(ctx, terminal.Program, terminal.Program)
		if err != nil {
			ended <- err
			return
		}
		defer func() {
			s.Close()
			if after, _ := term.GetState(int(terminal.Program.Fd())); after == nil || *after != *before {
				t.Error("the terminal is not as it was")
			}
			ended <- err
		}()
		err = Live(ctx, s, Options{Every: time.Millisecond, Look: look})
	}()
	return terminal, ended
}

// What a person sees who presses keys, makes the window smaller, and leaves; and that
// a process which ends is told.
func TestLive(t *testing.T) {
	once := make(chan os.Signal, 1) // the first use of signals begins a goroutine that stays
	signal.Notify(once, syscall.SIGWINCH)
	signal.Stop(once)
	testkit.NoLeaks(t)
	all, without := busy(), busy()
	for i := range all.Processes {
		all.Processes[i].path = all.Processes[i].Command
	}
	without.Processes = all.Processes[1:]
	looks := 0
	terminal, ended := live(t, ctx, func(context.Context) (Look, error) {
		if looks++; looks%50 < 25 {
			return all, nil
		}
		return without, nil
	})
	terminal.Sees(t, "4 processes")
	terminal.Sees(t, "3 processes")
	terminal.Sees(t, "ended: 99 stuck")
	terminal.Press(t, "s") // by link: nothing else changes, since the note stands where the keys do
	terminal.Press(t, "\x1b[6~")
	terminal.Sees(t, "20-39 of")
	terminal.Press(t, "p")
	terminal.Sees(t, "paused")
	terminal.Resize(t, 45, 12)
	testkit.OK(t, syscall.Kill(syscall.Getpid(), syscall.SIGWINCH))
	terminal.Sees(t, "20-26 of")
	terminal.Press(t, "q")
	testkit.OK(t, testkit.Receive(t, "the end", ended))
	if strings.Contains(terminal.Seen(), nobody) {
		t.Error("a hostile name arrives at the terminal as it is")
	}
}

// The terminal is given back however a run ends.
func TestLiveEnds(t *testing.T) {
	bad := errors.New("bad")
	_, ended := live(t, ctx, func(context.Context) (Look, error) { return Look{}, bad })
	testkit.WantError(t, "an error", testkit.Receive(t, "the end", ended), bad)
	_, ended = live(t, ctx, func(context.Context) (Look, error) { panic("a mistake") })
	if err := testkit.Receive(t, "the end", ended); err == nil || !strings.Contains(err.Error(), "a mistake") {
		t.Errorf("a panic: %v", err)
	}
	over, cancel := context.WithCancel(ctx)
	terminal, ended := live(t, over, func(ctx context.Context) (Look, error) { return busy(), ctx.Err() })
	terminal.Sees(t, "4 processes")
	cancel()
	testkit.WantError(t, "a signal", testkit.Receive(t, "the end", ended), context.Canceled)
	terminal, ended = live(t, ctx, func(context.Context) (Look, error) { return busy(), nil })
	terminal.Sees(t, "4 processes")
	terminal.Press(t, "\x03")
	testkit.OK(t, testkit.Receive(t, "the end", ended))
}
