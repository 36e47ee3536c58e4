package control

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/parallel/launch"
)

var background = context.Background()

// TestMain makes a rank of this binary where a test has started it as one.
func TestMain(m *testing.M) {
	if os.Getenv("PINION_TEST_RANK") != "" {
		os.Exit(childMain())
	}
	os.Exit(m.Run())
}

// childMain joins, says so, and says why the run has ended. A signal makes it fail.
func childMain() int {
	w, err := launch.FromEnv()
	if err == nil {
		var g *Group
		if g, err = Join(background, Options{World: w, Lost: 5 * time.Second}); err == nil {
			told := make(chan os.Signal, 1)
			signal.Notify(told, syscall.SIGTERM)
			fmt.Println("joined")
			select {
			case <-g.Done():
			case <-told:
				g.Fail(errors.New("out of memory"))
				os.Exit(3)
			}
			err = g.Err()
			_ = g.Close()
		}
	}
	fmt.Println(err)
	return 3
}

// child is a rank in a process of its own.
type child struct {
	*exec.Cmd
	out *bufio.Scanner
}

func startRank(t *testing.T, w launch.World) *child {
	t.Helper()
	c := exec.Command(testkit.Must(os.Executable())(t))
	c.Env = append(os.Environ(), "PINION_TEST_RANK=1", "PINION_RANK="+strconv.Itoa(w.Rank), "PINION_WORLD_SIZE="+strconv.Itoa(w.Size),
		"PINION_MASTER="+w.Master, "PINION_JOB="+w.Job)
	out, err := c.StdoutPipe()
	testkit.OK(t, err)
	testkit.OK(t, c.Start())
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	return &child{c, bufio.NewScanner(out)}
}

// line is the next line that the process prints.
func (c *child) line(t *testing.T) string {
	t.Helper()
	line := make(chan string, 1)
	go func() {
		c.out.Scan()
		line <- c.out.Text()
	}()
	return testkit.Receive(t, "a line of rank "+strconv.Itoa(c.Process.Pid), line)
}

// worlds are the ranks of a run on this host.
func worlds(t *testing.T, size int) []launch.World {
	t.Helper()
	list := make([]launch.World, size)
	master := "127.0.0.1:" + freePort(t, "127.0.0.1")
	for r := range list {
		list[r] = launch.World{Rank: r, Size: size, LocalRank: r, LocalSize: size, Master: master, Job: t.Name()}
	}
	return list
}

func freePort(t *testing.T, host string) string {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Skip(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	testkit.OK(t, err)
	return port
}

// attempt joins with all options at once.
func attempt(t *testing.T, options []Options) ([]*Group, []error) {
	t.Helper()
	groups, failures := make([]*Group, len(options)), make([]error, len(options))
	testkit.OK(t, testkit.Within(t, "joining", func() error {
		var all sync.WaitGroup
		for i, o := range options {
			all.Go(func() { groups[i], failures[i] = Join(background, o) })
		}
		all.Wait()
		return nil
	}))
	t.Cleanup(func() { closeAll(t, groups) })
	return groups, failures
}

func closeAll(t *testing.T, groups []*Group) {
	t.Helper()
	testkit.OK(t, testkit.Within(t, "closing", func() error {
		var all sync.WaitGroup
		for _, g := range groups {
			if g != nil {
				all.Go(func() { _ = g.Close() })
			}
		}
		all.Wait()
		return nil
	}))
}

// optionsOf are those of a run of that size.
func optionsOf(t *testing.T, size int, lost time.Duration) []Options {
	t.Helper()
	var options []Options
	for _, w := range worlds(t, size) {
		options = append(options, Options{World: w, Lost: lost, Name: fmt.Sprintf("host %c", 'a'+w.Rank%26)})
	}
	return options
}

// group is a run of goroutines. Its ranks do not count as lost unless lost is given.
func group(t *testing.T, size int, lost time.Duration) []*Group {
	t.Helper()
	testkit.NoLeaks(t)
	if lost == 0 {
		lost = 10 * testkit.Hang
	}
	groups, failures := attempt(t, optionsOf(t, size, lost))
	for r, err := range failures {
		if err != nil {
			t.Fatalf("rank %d: %v", r, err)
		}
	}
	return groups
}

// each calls fn for all ranks at once, and returns their errors.
func each(t *testing.T, groups []*Group, fn func(r int, g *Group) error) []error {
	t.Helper()
	failures := make([]error, len(groups))
	testkit.OK(t, testkit.Within(t, "all ranks", func() error {
		var all sync.WaitGroup
		for r, g := range groups {
			if g != nil {
				all.Go(func() { failures[r] = fn(r, g) })
			}
		}
		all.Wait()
		return nil
	}))
	return failures
}

// wantRank reports an error that does not name a rank and say all of says.
func wantRank(t *testing.T, what string, err error, rank int, says ...string) {
	t.Helper()
	var e *RankError
	if !errors.As(err, &e) || e.Rank != rank {
		t.Errorf("%s: %v, want an error of rank %d", what, err, rank)
		return
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("%s: %v, want %q in it", what, err, s)
		}
	}
}

// wantEnd waits for the end of the run on some ranks, by one of them.
func wantEnd(t *testing.T, groups []*Group, rank int, says ...string) {
	t.Helper()
	for r, g := range groups {
		if g != nil {
			testkit.Receive(t, fmt.Sprintf("rank %d", r), g.Done())
			wantRank(t, fmt.Sprintf("rank %d", r), g.Err(), rank, says...)
		}
	}
}
