package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/internal/testkit"
)

// hang is how long a process may take before a test calls it stuck.
const hang = testkit.Hang

// process runs the command in a process of its own. during, if set, is called
// once it runs.
func process(t testing.TB, during func(*os.Process), args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), "PINION_TEST_MAIN=1")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	// What is started in the background of a script ignores interrupts, and so would
	// its processes until they listen.
	taken := make(chan os.Signal, 1)
	signal.Notify(taken, os.Interrupt)
	err := cmd.Start()
	signal.Stop(taken)
	ok(t, err)
	if during != nil {
		during(cmd.Process)
	}
	err = cmd.Wait()
	if ctx.Err() != nil {
		t.Fatalf("%q is stuck", args)
	}
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// The exit code of the process is the one that cli.Report gives.
func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		code int
		args string
	}{{exitDone, "devices --json"}, {exitFailed, "feed " + t.TempDir()}, {exitUsage, "nosuch"}} {
		r := process(t, nil, strings.Fields(c.args)...)
		if r.code != c.code || (r.code == exitDone) != (r.stdout != "") {
			t.Errorf("%q: exit code %d, want %d\n%s%s", c.args, r.code, c.code, r.stdout, r.stderr)
		}
	}
}

// An interrupt ends a run between two batches.
func TestInterrupt(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows does not interrupt single processes")
	}
	dir := makePhotos(t, 4)
	r := process(t, func(p *os.Process) {
		time.Sleep(100 * time.Millisecond) // most likely in the middle; right anywhere behind the start
		ok(t, p.Signal(os.Interrupt))
	}, "feed", dir, "--device", "host", "--epochs", "1000000000", "--json")
	if r.code != exitFailed && r.code != -1 { // -1: killed before it listened
		t.Errorf("exit code %d", r.code)
	}
	if r.code == exitFailed && r.stderr != "pinion: interrupted\n" || r.stdout != "" {
		t.Errorf("%q, and on standard output %q", r.stderr, r.stdout)
	}
}

// A context that ends cuts every command short, also while sample photos are
// made, of which nothing is left then.
func TestCancelled(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv("HOME", cache)
	t.Setenv("LocalAppData", cache)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, args := range []string{
		"feed --device host", "feed --device host " + makePhotos(t, 3), "bench link --device host --size 64KiB --repeats 1",
	} {
		r := pinionWith(t, ctx, strings.Fields(args)...)
		if r.code != exitFailed || r.stdout != "" || r.stderr != "pinion: interrupted\n" {
			t.Errorf("%q: exit code %d, %q, %q", args, r.code, r.stdout, r.stderr)
		}
	}
}
