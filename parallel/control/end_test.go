package control

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/internal/testkit"
)

// A rank that fails ends all others, with its reason; the first one stays.
func TestFail(t *testing.T) {
	for _, size := range []int{1, 2, 5, 64} {
		for _, culprit := range []int{0, size - 1} {
			t.Run(fmt.Sprintf("%d of %d", culprit, size), func(t *testing.T) {
				groups := group(t, size, 0)
				waits := make(chan error, size)
				for r, g := range groups {
					if r != culprit {
						go func() {
							_, err := g.Exchange(background, "x", nil)
							waits <- err
						}()
					}
				}
				groups[culprit].Fail(errors.New("out of memory"))
				name := fmt.Sprintf("host %c", 'a'+culprit%26)
				wantEnd(t, groups, culprit, name, "out of memory")
				for range size - 1 {
					wantRank(t, "an exchange", testkit.Receive(t, "an exchange", waits), culprit, "out of memory")
				}
				for _, g := range groups {
					g.Fail(errors.New("a consequence"))
					_, err := g.Exchange(background, "x", nil)
					wantRank(t, "after that", err, culprit)
				}
				wantEnd(t, groups, culprit, "out of memory")
			})
		}
	}
}

// A reason of any length is passed on, cut where it is too long.
func TestLongReason(t *testing.T) {
	groups := group(t, 2, 0)
	groups[1].Fail(errors.New(strings.Repeat("x", 2*maxData)))
	wantEnd(t, groups, 1, "xxx")
}

// What each end of a process means to the others.
func TestProcesses(t *testing.T) {
	for _, c := range []struct {
		name   string
		signal syscall.Signal
		victim int
		says   string
	}{
		{"rank 0 killed", syscall.SIGKILL, 0, "its connection ended"},
		{"rank 2 killed", syscall.SIGKILL, 2, "its connection ended"},
		{"rank 0 fails and exits", sigterm, 0, "out of memory"},
		{"rank 2 fails and exits", sigterm, 2, "out of memory"},
		{"rank 0 stopped", sigstop, 0, "no sign of life for 5s"},
		{"rank 2 stopped", sigstop, 2, "no sign of life for 5s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.signal == 0 {
				t.Skip("processes cannot be told here")
			}
			var ranks []*child
			for _, w := range worlds(t, 4) {
				ranks = append(ranks, startRank(t, w))
			}
			for r, p := range ranks {
				if line := p.line(t); line != "joined" {
					t.Fatalf("rank %d: %s", r, line)
				}
			}
			victim := ranks[c.victim]
			testkit.OK(t, victim.Process.Signal(c.signal))
			for r, p := range ranks {
				if r == c.victim {
					continue
				}
				line := p.line(t)
				for _, want := range []string{fmt.Sprintf("rank %d (host ", c.victim), fmt.Sprintf("pid %d)", victim.Process.Pid), c.says} {
					if !strings.Contains(line, want) {
						t.Errorf("rank %d: %s, want %q in it", r, line, want)
					}
				}
				var exit *exec.ExitError
				if err := testkit.Within(t, "the end of a rank", p.Wait); !errors.As(err, &exit) || exit.ExitCode() != 3 {
					t.Errorf("rank %d: %v", r, err)
				}
			}
			if c.signal == sigstop { // it hears of its end when it goes on
				testkit.OK(t, victim.Process.Signal(sigcont))
				if line := victim.line(t); !strings.Contains(line, "rank ") {
					t.Errorf("%s", line)
				}
			}
		})
	}
}

// A rank that leaves is not lost, but missed.
func TestLeave(t *testing.T) {
	groups := group(t, 4, 2*time.Second)
	waits := make(chan error, 1)
	go func() {
		_, err := groups[0].Exchange(background, "x", nil)
		waits <- err
	}()
	go func() {
		_, err := groups[2].Exchange(background, "x", nil)
		waits <- err
	}()
	testkit.Eventually(t, "two wait", func() bool { return strings.Contains(groups[0].awaited(), `ranks 0, 2 are at "x"`) })
	testkit.OK(t, groups[1].Close())
	testkit.OK(t, groups[1].Close())
	for range 2 {
		wantRank(t, "an exchange", testkit.Receive(t, "an exchange", waits), 1, "host b", "has finished and left")
	}
	_, err := groups[3].Exchange(background, "x", nil)
	wantRank(t, "a later exchange", err, 1, "left")
	_, err = groups[1].Exchange(background, "x", nil)
	testkit.WantError(t, "its own", err, ErrClosed)
	for r, g := range groups {
		if g.Err() != nil {
			t.Errorf("rank %d: %v", r, g.Err())
		}
	}
	groups[3].Fail(errors.New("late")) // of which the others hear all the same
	wantEnd(t, []*Group{groups[0], nil, groups[2], groups[3]}, 3, "late")
	if groups[1].Err() != nil {
		t.Errorf("%v on a rank that has left", groups[1].Err())
	}
}

// Rank 0 waits for the others before it leaves.
func TestLeaveTogether(t *testing.T) {
	groups := group(t, 5, 0)
	for r, err := range each(t, groups, func(_ int, g *Group) error { return g.Close() }) {
		if err != nil {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

// If they stay, it goes: they know, and are not ended by it.
func TestLeaveFirst(t *testing.T) {
	groups := group(t, 3, time.Second)
	testkit.OK(t, groups[2].Close())
	if err := groups[0].Close(); err == nil || !strings.Contains(err.Error(), "not yet rank 1:") {
		t.Errorf("%v", err)
	}
	testkit.Eventually(t, "rank 1 hears of it", func() bool {
		_, err := groups[1].Exchange(background, "x", nil)
		return err != nil
	})
	_, err := groups[1].Exchange(background, "x", nil)
	wantRank(t, "an exchange", err, 0, "left")
	if groups[1].Err() != nil {
		t.Error(groups[1].Err())
	}
}

// A rank that fails while rank 0 waits for it is told of.
func TestFailWhileLeaving(t *testing.T) {
	groups := group(t, 3, 0)
	left := make(chan error, 1)
	go func() { left <- groups[0].Close() }()
	testkit.Eventually(t, "rank 0 is leaving", func() bool {
		_, err := groups[2].Exchange(background, "x", nil)
		return err != nil
	})
	groups[1].Fail(errors.New("late"))
	wantRank(t, "rank 0", testkit.Receive(t, "rank 0", left), 1, "late")
	wantEnd(t, groups[2:], 1, "late")
}

// Whoever waits in a hang can name the ranks that the others wait for.
func TestBehind(t *testing.T) {
	groups := group(t, 5, 2*time.Second)
	want := func(text string) {
		t.Helper()
		for _, g := range groups {
			testkit.Eventually(t, fmt.Sprintf("%q, not %q", text, g.Behind()), func() bool { return g.Behind() == text })
		}
	}
	want("")
	for r, g := range groups {
		g.Progress(17, "all-reduce of 4 MiB")
		if r == 2 {
			g.Progress(16, "")
		}
	}
	want("rank 2 (host c) has begun 16 operations, others up to 17 (all-reduce of 4 MiB)")
	groups[0].Progress(16, "all-gather of 8 B")
	want("rank 0 (host a) and rank 2 (host c) have begun 16 operations (all-gather of 8 B), others up to 17 (all-reduce of 4 MiB)")
	groups[1].Progress(16, "")
	want("ranks 0-2 have begun 16 operations (all-gather of 8 B), others up to 17 (all-reduce of 4 MiB)")
	for _, g := range groups {
		g.Progress(18, "x")
	}
	want("")
}
