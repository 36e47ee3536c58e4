//go:build unix

package main

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/pinion-gpu/pinion/internal/testkit"
)

// program puts a shell script named pinion-train into a folder, which becomes PATH.
func program(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	ok(t, os.Chmod(writeFile(t, dir, trainProgram, []byte("#!/bin/sh\n"+script)), 0o755))
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// The program gets arguments as they are, and its exit code is the command's.
func TestTrainRunsProgram(t *testing.T) {
	program(t, `printf '<%s>' "$@"; echo "no" >&2; exit 7`)
	r := process(t, nil, "train", "--json", "-x", "two words", "--help")
	if r.code != 7 || r.stdout != "<--json><-x><two words><--help>" || r.stderr != "no\n" {
		t.Errorf("%+v", r)
	}
}

// A signal reaches the program.
func TestTrainSignals(t *testing.T) {
	ready := t.TempDir() + "/ready"
	program(t, `trap 'echo got it; exit 5' TERM; touch "$1"; while :; do sleep 0.01; done`)
	r := process(t, func(p *os.Process) {
		testkit.Eventually(t, "the program runs", func() bool { _, err := os.Stat(ready); return err == nil })
		ok(t, p.Signal(syscall.SIGTERM))
	}, "train", ready)
	if r.code != 5 || r.stdout != "got it\n" {
		t.Errorf("%+v", r)
	}
}

func TestTrainWithoutProgram(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if r := pinion(t, "train", "book.txt"); r.code != exitFailed || !strings.Contains(r.stderr, "pinion-train is neither beside pinion nor in PATH") {
		t.Errorf("%+v", r)
	}
	for _, args := range [][]string{{"help", "train"}, {"train", "--help"}} {
		if r := pinion(t, args...); r.code != exitDone || !strings.Contains(r.stdout, "go build") {
			t.Errorf("%q: %+v", args, r)
		}
	}
}
