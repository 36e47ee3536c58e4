//go:build unix

package main

import (
	"context"
	"encoding/json"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/cmd/pinion/pinion-train/internal/session"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// mpirun is the command on so many ranks, on the host.
func mpirun(t *testing.T, ranks int, args ...string) *exec.Cmd {
	t.Helper()
	launcher, err := exec.LookPath("mpirun.openmpi")
	if err != nil {
		t.Skip("not run: mpirun.openmpi is not installed")
	}
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Hang)
	t.Cleanup(cancel)
	self := testkit.Must(os.Executable())(t)
	cmd := exec.CommandContext(ctx, launcher, "--allow-run-as-root", "--oversubscribe", "--mca", "btl", "self,vader", "-n", strconv.Itoa(ranks), self)
	cmd.Env = append(os.Environ(), asRank+"="+strings.Join(append(args, "--device", "host"), "\n"))
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// trainedBy is what ranks print.
func trainedBy(t *testing.T, ranks int, args ...string) (doc output) {
	t.Helper()
	cmd := mpirun(t, ranks, append(args, "--json")...)
	var errors strings.Builder
	cmd.Stderr = &errors
	text, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s%s", err, text, errors.String())
	}
	testkit.OK(t, json.Unmarshal(text, &doc))
	return doc
}

func sameLosses(t *testing.T, what string, got, want []float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d losses, want %d", what, len(got), len(want))
	}
	for i := range want {
		if math.Abs(got[i]-want[i]) > 1e-4 {
			t.Errorf("%s: step %d has a loss of %v, want %v", what, i+1, got[i], want[i])
		}
	}
}

// Four ranks train as one process does with four times the batch, and a checkpoint of theirs
// goes on with two, and with one.
func TestRanks(t *testing.T) {
	text, folder := book(t, 400), filepath.Join(t.TempDir(), "run")
	model := []string{text, "--layers", "1", "--width", "16", "--heads", "2", "--context", "16"}
	args := func(more ...string) []string { return append(model[:len(model):len(model)], more...) }
	want := trained(t, args("--batch", "8", "--steps", "9")...)
	first := trainedBy(t, 4, args("--batch", "2", "--steps", "3", "--checkpoint", folder)...)
	if first.Ranks != 4 || first.Batch != 2 || want.Ranks != 1 {
		t.Errorf("%d ranks with a batch of %d, and %d", first.Ranks, first.Batch, want.Ranks)
	}
	sameLosses(t, "4 ranks", first.Losses, want.Losses[:3])
	second := trainedBy(t, 2, args("--resume", folder, "--checkpoint", folder, "--steps", "3")...)
	sameLosses(t, "2 ranks", second.Losses, want.Losses[3:6])
	sameLosses(t, "1 process", trained(t, args("--resume", folder, "--steps", "3")...).Losses, want.Losses[6:])
	accumulated := trainedBy(t, 2, args("--batch", "2", "--accumulate", "2", "--steps", "3")...)
	sameLosses(t, "2 ranks with 2 batches each", accumulated.Losses[:1], want.Losses[:1])
}

// Ranks that share what Adam keeps train as one process, too, each with less memory. Their
// checkpoints are those of any number of ranks, shared or not.
func TestRanksShare(t *testing.T) {
	text, folder := book(t, 400), filepath.Join(t.TempDir(), "run")
	model := []string{text, "--layers", "1", "--width", "16", "--heads", "2", "--context", "16"}
	args := func(more ...string) []string { return append(model[:len(model):len(model)], more...) }
	want := trained(t, args("--batch", "8", "--steps", "12")...)
	first := trainedBy(t, 4, args("--share", "--batch", "2", "--steps", "3", "--checkpoint", folder)...)
	sameLosses(t, "4 ranks", first.Losses, want.Losses[:3])
	if a, b := first.Memory.Optimizer, want.Memory.Optimizer; !first.Share || a*4 < b || float64(a) > float64(b)*0.3 {
		t.Errorf("Adam keeps %d bytes on each of 4 ranks, and %d on one", a, b)
	}
	second := trainedBy(t, 2, args("--share", "--resume", folder, "--checkpoint", folder, "--steps", "3")...)
	sameLosses(t, "2 ranks", second.Losses, want.Losses[3:6])
	third := trained(t, args("--share", "--resume", folder, "--checkpoint", folder, "--steps", "3")...)
	sameLosses(t, "1 process", third.Losses, want.Losses[6:9])
	whole := trainedBy(t, 2, args("--resume", folder, "--steps", "3")...)
	sameLosses(t, "2 ranks that share nothing", whole.Losses, want.Losses[9:])
	again := trainedBy(t, 4, args("--share", "--amp", "fp16", "--resume", folder, "--steps", "3")...)
	if again.Losses[0] >= want.Losses[0] {
		t.Errorf("in 16 bits the losses are %v, and %v before", again.Losses, want.Losses)
	}
}

// Ranks that average gradients in 16 bits train nearly as those that average them in their
// own type, and say so.
func TestRanksAverage(t *testing.T) {
	args := []string{book(t, 400), "--layers", "1", "--width", "16", "--heads", "2", "--context", "16", "--batch", "4", "--steps", "6"}
	want := trainedBy(t, 2, args...)
	for _, more := range [][]string{{}, {"--share"}} {
		got := trainedBy(t, 2, append(append(args[:len(args):len(args)], "--average", "bf16"), more...)...)
		if got.Average != "bf16" || want.Average != "" || slices.Equal(got.Losses, want.Losses) {
			t.Errorf("%q: averaged in %q, losses are %v, and in %q, %v", more, got.Average, got.Losses, want.Average, want.Losses)
		}
		for i, loss := range got.Losses {
			if math.Abs(loss-want.Losses[i]) > 0.01 {
				t.Errorf("%q: step %d has a loss of %v, want nearly %v", more, i+1, loss, want.Losses[i])
			}
		}
	}
	if out, err := mpirun(t, 2, append(args, "--average", "bf16")...).CombinedOutput(); err != nil || !strings.Contains(string(out), "Ranks average gradients in bf16\n") {
		t.Errorf("%v\n%s", err, out)
	}
	if got := trained(t, append(args, "--average", "bf16")...); got.Average != "" {
		t.Errorf("one process averages in %s", got.Average)
	}
}

// A launcher that starts the same command again goes on behind the last checkpoint, also
// after a rank was killed, and with fewer ranks.
func TestRanksRestart(t *testing.T) {
	text, folder := book(t, 400), filepath.Join(t.TempDir(), "run")
	model := []string{text, "--layers", "1", "--width", "16", "--heads", "2", "--context", "16"}
	args := append(model, "--batch", "2", "--checkpoint", folder, "--checkpoint-every", "2", "--restart")
	cmd := mpirun(t, 4, append(args, "--steps", "100000")...)
	testkit.OK(t, cmd.Start())
	testkit.Eventually(t, "a checkpoint", func() bool { there, _ := session.HasCheckpoint(folder); return there })
	ranks := children(t, cmd.Process.Pid)
	testkit.OK(t, syscall.Kill(ranks[len(ranks)-1], syscall.SIGKILL))
	if cmd.Wait() == nil {
		t.Error("a rank was killed, and nothing said so")
	}
	from := testkit.Must(session.OpenCheckpoint(folder))(t)
	done := from.Steps()
	testkit.OK(t, from.Close())
	want := trained(t, text, "--resume", folder, "--steps", "3")
	second := trainedBy(t, 2, append(args, "--steps", strconv.Itoa(done+3))...)
	if second.FirstStep != done+1 || second.Steps != 3 || second.Batch != 4 || done%2 != 0 {
		t.Errorf("%d steps from %d on, with a batch of %d, behind %d", second.Steps, second.FirstStep, second.Batch, done)
	}
	sameLosses(t, "2 ranks", second.Losses, want.Losses)
}

// The first rank alone writes files, and serves the dashboard.
func TestRanksFiles(t *testing.T) {
	folder := t.TempDir()
	taken := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	free := taken.Addr().String()
	testkit.OK(t, taken.Close())
	cmd := mpirun(t, 3, book(t, 400), "--layers", "1", "--width", "16", "--heads", "2", "--context", "16", "--batch", "2", "--steps", "2",
		"--plot", filepath.Join(folder, "loss.svg"), "--trace", filepath.Join(folder, "trace.json"), "--checkpoint", folder, "--http", free)
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Count(string(out), "Dashboard: http://"+free) != 1 || strings.Count(string(out), "Timeline of ") != 1 {
		t.Errorf("%v\n%s", err, out)
	}
	if list := testkit.Must(filepath.Glob(filepath.Join(folder, "*")))(t); len(list) != 3 {
		t.Errorf("%q", list)
	}
}

// What is wrong is said with the rank, by all, and once by each.
func TestRanksRefuse(t *testing.T) {
	text, folder := book(t, 400), t.TempDir()
	for what, c := range map[string]struct {
		args []string
		want string
	}{
		"too little text": {[]string{text, "--batch", "1000"}, "rows"},
		"no text":         {[]string{filepath.Join(folder, "none.txt")}, "none.txt"},
		"no checkpoint":   {[]string{text, "--resume", folder}, "checkpoint"},
		"no such flag":    {[]string{text, "--bogus"}, "no flag --bogus"},
		"no picture":      {[]string{text, "--plot", filepath.Join(folder, "no", "x.svg")}, "no does not exist"},
	} {
		out, err := mpirun(t, 2, c.args...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "pinion: rank ") || !strings.Contains(string(out), c.want) || strings.Contains(string(out), "aborted: ") {
			t.Errorf("%s: %v\n%s", what, err, out)
		}
	}
}

// Ranks with other flags end, and say which.
func TestRanksDisagree(t *testing.T) {
	args := []string{book(t, 400), "--layers", "1", "--width", "16", "--heads", "2", "--context", "16", "--batch", "2", "--steps", "2"}
	for flags, want := range map[string]string{
		"--steps 3":                   "--steps: rank 0 has 2, rank 1 has 3",
		"--share":                     "--share: rank 0 has false, rank 1 has true",
		"--average bf16":              "--average: rank 0 has auto, rank 1 has bf16",
		"--checkpoint " + t.TempDir(): "--checkpoint: rank 0 has false, rank 1 has true",
		"--lr 0.5":                    "the learning rate: rank 0 has 0.001, rank 1 has 0.5",
	} {
		cmd := mpirun(t, 2, args...)
		cmd.Env = append(cmd.Env, asRank1+"=\n"+strings.ReplaceAll(flags, " ", "\n"))
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v\n%s", flags, err, out)
		}
	}
}

// A rank that is killed ends the others, and mpirun.
func TestRankKilled(t *testing.T) {
	text := book(t, 400)
	status := filepath.Join(t.TempDir(), "run")
	cmd := mpirun(t, 3, text, "--layers", "1", "--width", "16", "--heads", "2", "--context", "16", "--steps", "1000000", "--checkpoint", status, "--checkpoint-every", "1")
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	testkit.OK(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	testkit.Eventually(t, "a checkpoint", func() bool {
		select {
		case err := <-ended:
			t.Fatalf("mpirun ended: %v\n%s", err, out.String())
		default:
		}
		_, err := os.Stat(filepath.Join(status, "checkpoint.safetensors"))
		return err == nil
	})
	ranks := children(t, cmd.Process.Pid)
	if len(ranks) != 3 {
		t.Fatalf("%d ranks", len(ranks))
	}
	testkit.OK(t, syscall.Kill(ranks[1], syscall.SIGKILL))
	if err := testkit.Receive(t, "mpirun", ended); err == nil {
		t.Errorf("mpirun succeeded\n%s", out.String())
	}
	testkit.Eventually(t, "all ranks end", func() bool {
		for _, pid := range ranks {
			if syscall.Kill(pid, 0) == nil {
				return false
			}
		}
		return true
	})
}

// children are the processes that a process has started.
func children(t *testing.T, pid int) (list []int) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "task", strconv.Itoa(pid), "children"))
	if err != nil {
		t.Skip("not run: the system does not say which processes a process has started")
	}
	for _, field := range strings.Fields(string(text)) {
		n, err := strconv.Atoi(field)
		testkit.OK(t, err)
		list = append(list, n)
	}
	return list
}
