package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/internal/testkit"
)

func TestBenchCollectives(t *testing.T) {
	args := []string{"bench", "collectives", "--ranks", "3", "--to", "200B", "--repeats", "2", "--warmup", "0"}
	r := pinion(t, args...)
	for _, want := range []string{"host  host memory", "3 ranks, goroutines of this process", "all-reduce, sum of f32; BUS is 1.33 of ALG", "200 B", "204 B", "IN PLACE", "all-to-all; BUS is 0.67 of ALG"} {
		if r.code != exitDone || !strings.Contains(r.stdout, want) {
			t.Errorf("exit code %d, %q is missing in\n%s%s", r.code, want, r.stdout, r.stderr)
		}
	}
	if strings.Contains(r.stdout, "WRONG") || r.stderr != "" {
		t.Errorf("%s%s", r.stdout, r.stderr)
	}
	dir := t.TempDir()
	html := filepath.Join(dir, "collectives.html")
	args = append(args, "--only", "broadcast,all-gather", "--type", "f64", "--report", html)
	doc := document(t, []string{"commit", "device", "hosts", "reduction", "warmup_calls"}, append(args, "--json")...)
	if doc["ranks"] != 3. || doc["dtype"] != "f64" || doc["launcher"] != nil || doc["size_bytes"] != 200. || doc["report_file"] != html {
		t.Errorf("%v", doc)
	}
	if rows := doc["rows"].([]any); len(rows) != 4+4 || rows[0].(map[string]any)["ok"] != true {
		t.Errorf("%v", rows)
	}
	if text := testkit.ReadFile(t, html); !strings.Contains(text, "</html>") {
		t.Errorf("a page of %d bytes", len(text))
	}
	onlyFile(t, dir, "collectives.html")
}

func TestBenchCollectivesUsage(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		args string
		code int
		say  []string
	}{
		{"--from 1MiB --to 1KiB", 2, []string{"--from is 1MiB", "--to, 1KiB"}},
		{"--from 6", 2, []string{"--from is 6B", "multiple of the 4 bytes", "f32"}},
		{"--to 12 --type f64", 2, []string{"--to is 12B", "8 bytes"}},
		{"--from 0", 2, []string{"--from"}},
		{"--type f23", 2, []string{"--type", "f23", "f32"}},
		{"--type bool", 2, []string{"--type", "bool"}},
		{"--op mean", 2, []string{"--op", "sum, prod, min, max or avg"}},
		{"--op avg --type i32", 2, []string{"--op", "avg", "i32"}},
		{"--only allreduce", 2, []string{"--only", "did you mean all-reduce?"}},
		{"--ranks 1", 2, []string{"--ranks", "from 2 to 256"}},
		{"--factor 1", 2, []string{"--factor", "at least 2"}},
		{"--repeats 0", 2, []string{"--repeats", "at least 1"}},
		{"--warmup -1", 2, []string{"--warmup", "at least 0"}},
		{"--report=", 2, []string{"--report"}},
		{"more", 2, []string{"more"}},
		{"--report " + filepath.Join(dir, "no", "x.html"), 1, []string{"no"}},
		{"--report " + dir, 1, []string{"it is a folder, not a file"}},
		{"--device host:1MiB --to 1MiB", 1, []string{"2 buffers of 1 MiB", "512 KiB"}},
	} {
		checkMessage(t, c.args, pinion(t, append([]string{"bench", "collectives"}, strings.Fields(c.args)...)...), c.code, c.say)
		onlyFile(t, dir, "")
	}
	t.Setenv("OMPI_COMM_WORLD_RANK", "1")
	t.Setenv("OMPI_COMM_WORLD_SIZE", "4")
	t.Setenv("OMPI_COMM_WORLD_LOCAL_RANK", "1")
	t.Setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "4")
	checkMessage(t, "--ranks of a launcher", pinion(t, "bench", "collectives", "--ranks", "4"), 2, []string{"--ranks", "openmpi started 4 ranks"})
}

// An interrupt ends all ranks, and leaves nothing.
func TestBenchCollectivesInterrupt(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows does not interrupt single processes")
	}
	dir := t.TempDir()
	for _, size := range []string{"8B", "4MiB"} {
		r := process(t, func(p *os.Process) {
			time.Sleep(300 * time.Millisecond) // most likely in the middle; right anywhere behind the start
			ok(t, p.Signal(os.Interrupt))
		}, "bench", "collectives", "--from", size, "--to", size, "--repeats", "1000000", "--json", "--report", filepath.Join(dir, "x.html"))
		if r.code != exitFailed && r.code != -1 { // -1: killed before it listened
			t.Errorf("exit code %d", r.code)
		}
		if r.code == exitFailed && r.stderr != "pinion: interrupted\n" || r.stdout != "" {
			t.Errorf("%q, and on standard output %q", r.stderr, r.stdout)
		}
		onlyFile(t, dir, "")
	}
}

// mpirun runs the command as ranks of Open MPI.
func mpirun(t *testing.T, ranks int, args ...string) result {
	t.Helper()
	if _, err := exec.LookPath("mpirun.openmpi"); err != nil {
		t.Skip("not run: mpirun.openmpi is not installed")
	}
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	defer cancel()
	cmd := exec.CommandContext(ctx, "mpirun.openmpi", append([]string{"--allow-run-as-root", "--oversubscribe",
		"--mca", "btl", "self,vader", "--mca", "btl_tcp_if_include", "lo", "-n", fmt.Sprint(ranks), os.Args[0]}, args...)...)
	cmd.Env = append(os.Environ(), "PINION_TEST_MAIN=1")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // which ends the ranks, too
	cmd.WaitDelay = 5 * time.Second
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if ctx.Err() != nil {
		t.Fatalf("%q is stuck\n%s%s", args, stdout.String(), stderr.String())
	}
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// Processes that mpirun starts are the ranks, of which one prints.
func TestBenchCollectivesMPI(t *testing.T) {
	dir := t.TempDir()
	html := filepath.Join(dir, "collectives.html")
	r := mpirun(t, 3, "bench", "collectives", "--device", "host", "--to", "4KiB", "--factor", "16", "--repeats", "2", "--json", "--report", html)
	if r.code != exitDone {
		t.Fatalf("exit code %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	doc := parse(t, r.stdout, []string{"commit"})
	if doc["ranks"] != 3. || doc["launcher"] != "openmpi" || doc["hosts"] != 1. || doc["report_file"] != html {
		t.Errorf("%v", doc)
	}
	rows := doc["rows"].([]any)
	for _, x := range rows {
		if row := x.(map[string]any); row["ok"] != true {
			t.Errorf("%v", row)
		}
	}
	if len(rows) != 6*4 {
		t.Errorf("%d rows", len(rows))
	}
	onlyFile(t, dir, "collectives.html")
}

// What only rank 0 sees ends the others, who say whose it was.
func TestBenchCollectivesMPIFails(t *testing.T) {
	r := mpirun(t, 2, "bench", "collectives", "--device", "host", "--to", "64B", "--report", filepath.Join(t.TempDir(), "no", "x.html"))
	if r.code == exitDone || r.stdout != "" || !strings.Contains(r.stderr, "pinion: rank 0: ") || !strings.Contains(r.stderr, "no does not exist") {
		t.Errorf("exit code %d\n%s%s", r.code, r.stdout, r.stderr)
	}
}
