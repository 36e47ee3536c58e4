//go:build unix

package procbench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

var allPaths = []string{Pageable, PageableStaged, Private, Serialised, SerialisedStaged, Shared}

func ExampleRun() {
	dev, err := device.Open("host:64MiB")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer dev.Close()
	report, err := Run(context.Background(), dev, Options{Args: []string{"child"}, Size: 64 << 10, Repeats: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(report.Row(Pageable, "h2d").Together.Median > 0)
	// Output: true
}

// Every path has its rows, with figures that can be, unless it was skipped.
// (Whether a test's process may page-lock is up to the system.)
func TestRun(t *testing.T) {
	dev := devicetest.Open(t)
	for _, c := range []struct {
		procs, repeats int
		size           int64
	}{{1, 1, MinSize}, {2, 2, 100_001}, {3, 3, 64 << 10}} {
		t.Run(fmt.Sprintf("%d processes", c.procs), func(t *testing.T) {
			o := Options{Args: []string{"child"}, Procs: c.procs, Size: c.size, Repeats: c.repeats}
			steps := 0
			o.Progress = func(step, of int, what string) {
				if step != steps || step >= of || what == "" {
					t.Errorf("step %d of %d, %q, after %d", step, of, what, steps)
				}
				steps++
			}
			r, err := Run(t.Context(), dev, o)
			if err != nil {
				t.Fatal(err)
			}
			if r.Size != c.size || r.Procs != c.procs || r.Repeats != c.repeats {
				t.Errorf("report of %d bytes, %d processes, %d repeats", r.Size, r.Procs, r.Repeats)
			}
			check(t, r, allPaths)
			for _, s := range r.Skipped {
				t.Logf("skipped %s: %v", s.Path, s.Why)
			}
		})
	}
}

// check wants two rows for each path, or a reason.
func check(t *testing.T, r *Report, want []string) {
	t.Helper()
	var got []string
	for _, s := range r.Skipped {
		got = append(got, s.Path)
		if !refused(s.Why) || r.Row(s.Path, "h2d") != nil {
			t.Errorf("%s was skipped: %v", s.Path, s.Why)
		}
	}
	for _, row := range r.Rows {
		if row.Direction == "h2d" {
			got = append(got, row.Path)
		} else if r.Row(row.Path, "h2d") == nil {
			t.Errorf("%s has one direction", row.Path)
		}
		if len(row.Processes) != r.Procs {
			t.Errorf("%s: %d processes of %d", row.Path, len(row.Processes), r.Procs)
		}
		all := []Times{row.First, row.Alone, row.Together}
		for _, p := range row.Processes {
			all = append(all, p.Alone, p.Together)
			if p.AloneOfPrivate < row.AloneOfPrivate || p.TogetherOfPrivate < row.TogetherOfPrivate {
				t.Errorf("%s: a process is behind the one furthest behind: %+v", row.Path, row)
			}
		}
		for _, times := range all {
			if times.Least <= 0 || times.Least > times.Median || times.Median > times.Most || times.Most > time.Hour {
				t.Errorf("%s: %+v", row.Path, times)
			}
		}
		if !(row.Total > 0) || math.IsInf(row.Total, 0) || row.Overlap < 0 || row.Overlap > 1 {
			t.Errorf("%s: %g bytes a second in all, overlap %g", row.Path, row.Total, row.Overlap)
		}
		if measured := r.Row(Private, "h2d") != nil; (row.AloneOfPrivate > 0) != measured || (row.TogetherOfPrivate > 0) != measured {
			t.Errorf("%s: %g and %g of private pinned, which was measured: %t", row.Path, row.AloneOfPrivate, row.TogetherOfPrivate, measured)
		}
		if row.Path == Private && (row.AloneOfPrivate != 1 || row.TogetherOfPrivate != 1) {
			t.Errorf("private pinned is %g and %g of itself", row.AloneOfPrivate, row.TogetherOfPrivate)
		}
	}
	slices.Sort(got)
	if want := slices.Sorted(slices.Values(want)); !slices.Equal(got, want) {
		t.Errorf("rows and skipped paths %q, want %q", got, want)
	}
	if open := r.Time(OpenDevice); open == nil || open.Least <= 0 {
		t.Errorf("opening the device: %+v", open)
	}
	for what, path := range map[string]string{PinPrivate: Private, PinShared: Shared, MapShared: Shared, SendPrivate: Serialised} {
		if r.Row(path, "h2d") != nil && r.Time(what) == nil {
			t.Errorf("%s was measured, but not %s", path, what)
		}
	}
}

func hostDevice(t *testing.T) device.Device {
	t.Helper()
	dev, err := device.Open("host:64MiB")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	return dev
}

// Processes that can pin nothing have the rest of the paths.
func TestPinsNothing(t *testing.T) {
	dev := hostDevice(t)
	r, err := Run(t.Context(), dev, Options{Args: []string{"pins nothing"}, Size: MinSize, Repeats: 1})
	if err != nil {
		t.Fatal(err)
	}
	check(t, r, allPaths)
	for _, path := range allPaths {
		want := path == Pageable || path == Serialised && !slices.ContainsFunc(r.Skipped, nothingToSend)
		if (r.Row(path, "h2d") != nil) != want {
			t.Errorf("%s measured: %t, skipped %v", path, !want, r.Skipped)
		}
	}

	// And where this process cannot, nothing is there to serialise.
	r, err = Run(t.Context(), struct{ device.Device }{dev}, Options{Args: []string{"child"}, Size: MinSize, Repeats: 1})
	if err != nil {
		t.Fatal(err)
	}
	check(t, r, allPaths)
	if !slices.ContainsFunc(r.Skipped, nothingToSend) || r.Row(Serialised, "h2d") != nil {
		t.Errorf("skipped %v", r.Skipped)
	}
}

func nothingToSend(s Skipped) bool {
	return s.Path == Serialised && strings.Contains(s.Why.Error(), "nothing to serialise")
}

// Whatever goes wrong in a process: the run ends with an error that says
// which, how, and what it said last; and nothing is left of it.
func TestTrouble(t *testing.T) {
	for how, want := range map[string][]string{
		"dies":         {`(PID `, `ended when asked to "copy": signal: killed`, "going down"},
		"leaves":       {"process 1", "exit status 3", "one | two"},
		"hangs":        {`did not answer "open" within 300ms and was killed`},
		"babbles":      {"process 1", `no answer to "open"`, "a message of 1819043176 bytes"},
		"garbles":      {"process 1", "pageable", errBytes.Error()},
		"closes badly": {"process 1", "did not close in order: exit status 1", "it will not close"},
	} {
		t.Run(how, func(t *testing.T) {
			dev := hostDevice(t)
			before := descriptors(t)
			o := Options{Args: []string{how}, Size: MinSize, Repeats: 1}
			if how == "hangs" {
				o.Timeout = 300 * time.Millisecond
			}
			r, err := Run(t.Context(), dev, o)
			if r != nil || err == nil {
				t.Fatalf("%+v, %v", r, err)
			}
			for _, part := range want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q is missing in: %v", part, err)
				}
			}
			noChildren(t)
			if after := descriptors(t); after != before {
				t.Errorf("%d descriptors, %d before", after, before)
			}
		})
	}
}

// A context that ends at any step ends the run there, and all processes.
func TestCancel(t *testing.T) {
	dev := hostDevice(t)
	steps := 0
	o := Options{Args: []string{"child"}, Size: MinSize, Repeats: 1, Progress: func(int, int, string) { steps++ }}
	if _, err := Run(t.Context(), dev, o); err != nil {
		t.Fatal(err)
	}
	before := descriptors(t)
	for at := 1; at <= steps; at += 5 {
		ctx, cancel := context.WithCancel(t.Context())
		step := 0
		o.Progress = func(int, int, string) {
			if step++; step == at {
				cancel()
			}
		}
		r, err := Run(ctx, dev, o)
		cancel()
		if r != nil || err != context.Canceled || step != at {
			t.Errorf("cancelled at step %d of %d: went on to %d, %v", at, steps, step, err)
		}
		noChildren(t)
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors, %d before", after, before)
	}

	// While a process hangs, too.
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := Run(ctx, dev, Options{Args: []string{"hangs"}}); err != context.DeadlineExceeded {
		t.Errorf("cancelled while a process hangs: %v", err)
	}
	noChildren(t)
}

// Processes die with a parent that was killed.
func TestParentKilled(t *testing.T) {
	dir := t.TempDir()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	parent := exec.Command(exe, "parent")
	parent.Env = append(os.Environ(), "PINION_PROCBENCH_TRACE="+dir)
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	var traces []string
	wait := func(what string, done func() bool) {
		for start := time.Now(); !done(); time.Sleep(5 * time.Millisecond) {
			if time.Since(start) > testkit.Hang {
				parent.Process.Kill()
				t.Fatalf("waited in vain for %s", what)
			}
		}
	}
	wait("steady copies", func() bool {
		_, err := os.Stat(filepath.Join(dir, "steady"))
		return err == nil
	})
	if traces, err = filepath.Glob(filepath.Join(dir, "[0-9]*")); err != nil {
		t.Fatal(err)
	}
	alive := func() (n int) {
		for _, name := range traces {
			f, err := os.Open(name)
			if err != nil {
				t.Fatal(err)
			}
			if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
				n++
			}
			f.Close()
		}
		return n
	}
	if n := alive(); n != 2 {
		t.Errorf("%d processes are alive beside their parent, want 2", n)
	}
	parent.Process.Kill()
	parent.Wait()
	wait("the end of the processes", func() bool { return alive() == 0 })
}

func TestOptionsOutOfRange(t *testing.T) {
	dev := hostDevice(t)
	for _, o := range []Options{
		{Procs: -1}, {Procs: MaxProcs + 1}, {Size: -1}, {Size: MinSize - 1}, {Repeats: -1}, {Timeout: -1},
	} {
		o.Progress = func(int, int, string) { t.Errorf("%+v: began", o) }
		if r, err := Run(t.Context(), dev, o); r != nil || !errors.Is(err, device.ErrArgument) {
			t.Errorf("%v, want %q", err, device.ErrArgument)
		}
	}
	r, err := Run(t.Context(), dev, Options{Size: math.MaxInt64, Procs: MaxProcs})
	if r != nil || err == nil || !strings.Contains(err.Error(), "--size") {
		t.Errorf("more memory than there is: %v", err)
	}
	r, err = Run(t.Context(), dev, Options{Args: []string{"child"}, Size: 65 << 20, Procs: 1})
	if r != nil || !errors.Is(err, device.ErrOutOfMemory) || !strings.Contains(err.Error(), "--size") {
		t.Errorf("more device memory than there is: %v", err)
	}
	noChildren(t)
}

// noChildren wants no child of this process left, dead or alive.
func noChildren(t *testing.T) {
	t.Helper()
	var status syscall.WaitStatus
	if pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil); err != syscall.ECHILD {
		t.Errorf("a process is left: %d, %v", pid, err)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}
