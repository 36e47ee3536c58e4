package main

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/pinion-gpu/pinion/internal/testkit"
)

// Ctrl-Z in a shell gives the terminal back and stops the command; fg shows it again.
func TestTopSuspend(t *testing.T) {
	topFolder(t)
	terminal := testkit.NewTerminal(t, 80, 24)
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	defer cancel()
	shell := exec.CommandContext(ctx, "/bin/sh", "-c", `set -m; "$0" top; echo "stopped $?"; fg >/dev/null; echo "ended $?"`, os.Args[0])
	shell.Env = append(os.Environ(), "PINION_TEST_MAIN=1", "TERM=xterm")
	shell.Stdin, shell.Stdout, shell.Stderr = terminal.Program, terminal.Program, terminal.Program
	shell.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	ok(t, shell.Start())
	const drawn = "No process"
	terminal.Sees(t, drawn)
	terminal.Press(t, "\x1a")
	terminal.Sees(t, "stopped 148") // 128 and SIGTSTP
	if _, after, _ := strings.Cut(terminal.Seen(), drawn); !strings.Contains(after, "\x1b[?1049l") {
		t.Error("the terminal was not given back")
	}
	testkit.Eventually(t, "it is drawn again", func() bool {
		_, after, _ := strings.Cut(terminal.Seen(), "stopped 148")
		return strings.Contains(after, drawn)
	})
	terminal.Press(t, "q")
	terminal.Sees(t, "ended 0")
	ok(t, shell.Wait())
}
