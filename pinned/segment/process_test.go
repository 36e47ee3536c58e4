//go:build linux || darwin

package segment

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestSegmentChild is what the other processes of these tests run: it gets a
// segment, says so, and closes it when its standard input ends.
func TestSegmentChild(t *testing.T) {
	how, path := os.Getenv("PINION_SEGMENT_CHILD"), os.Getenv("PINION_SEGMENT_PATH")
	var s *Segment
	var err error
	switch how {
	case "":
		t.Skip("run by other tests")
	case "create":
		s, err = Create(mib, Options{Name: "child", Path: path})
	case "open":
		s, err = OpenPath(path, OpenOptions{})
	case "inherit":
		s, err = Open(os.NewFile(3, "inherited"), OpenOptions{})
	case "churn":
		fmt.Println("ready")
		for {
			if s, err = Create(mib, Options{Path: path}); errors.Is(err, ErrOwned) {
				s, err = OpenPath(path, OpenOptions{})
			}
			if err != nil && !errors.Is(err, ErrOwned) && !errors.Is(err, os.ErrExist) && !errors.Is(err, os.ErrNotExist) {
				fmt.Println(err)
				return
			}
			if err == nil {
				if _, err := s.Owners(); err != nil {
					fmt.Println(err)
				}
				if err := s.Close(); err != nil {
					fmt.Println(err)
				}
			}
		}
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	s.Bytes()[0]++
	fmt.Println("ready")
	io.Copy(io.Discard, os.Stdin)
	if err := s.Close(); err != nil {
		fmt.Println(err)
	}
}

type segmentChild struct {
	*exec.Cmd
	in  io.Closer
	out *bufio.Scanner
}

// spawn starts a child and waits until it has its segment.
func spawn(t *testing.T, how, path string, files ...*os.File) *segmentChild {
	t.Helper()
	c := &segmentChild{Cmd: exec.Command(os.Args[0], "-test.run=^TestSegmentChild$")}
	c.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", "PINION_SEGMENT_CHILD="+how, "PINION_SEGMENT_PATH="+path)
	c.ExtraFiles = files
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.in, c.out = in, bufio.NewScanner(out)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.kill)
	if !c.out.Scan() || c.out.Text() != "ready" {
		t.Fatalf("%s: %s", how, c.out.Text())
	}
	return c
}

func (c *segmentChild) kill() {
	c.Process.Kill()
	c.Wait()
}

// end lets the child close its segment, and wants no complaint.
func (c *segmentChild) end(t *testing.T) {
	t.Helper()
	c.in.Close()
	for c.out.Scan() {
		if line := c.out.Text(); line != "PASS" {
			t.Error(line)
		}
	}
	c.Wait()
}

func pids(t *testing.T, s *Segment) []int {
	t.Helper()
	owners, err := s.Owners()
	if err != nil {
		t.Fatal(err)
	}
	var list []int
	for _, o := range owners {
		list = append(list, o.PID)
		if o.Foreign {
			t.Errorf("foreign: %+v", o)
		}
	}
	return list
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// An owner that is killed is taken off the list, and its slot used again.
func TestOwnerKilled(t *testing.T) {
	s := mustCreate(t, mib, Options{Path: filepath.Join(t.TempDir(), "segment")})
	me := os.Getpid()
	a := spawn(t, "open", s.Path())
	b := spawn(t, "inherit", "", s.File())
	if got, want := pids(t, s), []int{me, a.Process.Pid, b.Process.Pid}; !slices.Equal(got, want) {
		t.Errorf("owners %v, want %v", got, want)
	}
	if n := s.Bytes()[0]; n != 2 {
		t.Errorf("%d children have written", n)
	}
	if err := a.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	a.out.Scan()
	a.kill()
	if got, want := pids(t, s), []int{me, b.Process.Pid}; !slices.Equal(got, want) {
		t.Errorf("owners %v, want %v", got, want)
	}
	c := spawn(t, "open", s.Path())
	if got, want := pids(t, s), []int{me, c.Process.Pid, b.Process.Pid}; !slices.Equal(got, want) {
		t.Errorf("owners %v, want %v: the slot of a dead owner first", got, want)
	}
	c.end(t)
	b.end(t)
	if got := pids(t, s); !slices.Equal(got, []int{me}) {
		t.Errorf("owners %v, want %d", got, me)
	}
}

// A path that its creator could not remove goes with the last owner.
func TestCreatorKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "segment")
	creator := spawn(t, "create", path)
	s, err := OpenPath(path, OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	owners, err := s.Owners()
	if err != nil || len(owners) != 2 || !owners[0].Creator || owners[0].PID != creator.Process.Pid || owners[1].Creator {
		t.Errorf("%+v, %v", owners, err)
	}
	if s.Name() != "child" || s.Path() != path {
		t.Errorf("name %q, path %q", s.Name(), s.Path())
	}
	creator.kill()
	if n := s.Bytes()[0]; n != 1 {
		t.Errorf("holds %d after the death of its creator", n)
	}
	other := spawn(t, "inherit", "", s.File())
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if !exists(path) {
		t.Error("removed by an owner that is not the last")
	}
	other.end(t) // which was not told the path
	if exists(path) {
		t.Error("not removed by the last owner")
	}
}

// A path whose owners have all been killed is free again, and not before.
func TestAllKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "segment")
	creator := spawn(t, "create", path)
	other := spawn(t, "open", path)
	creator.kill()
	for what, err := range map[string]error{
		"create": second(Create(mib, Options{Path: path})),
		"remove": Remove(path),
	} {
		if want := fmt.Sprintf("1: process %d", other.Process.Pid); !errors.Is(err, ErrOwned) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v, want %q", what, err, want)
		}
	}
	other.kill()
	s := mustCreate(t, 2*mib, Options{Path: path})
	if s.Len() != 2*mib || s.Bytes()[0] != 0 {
		t.Errorf("%d bytes, the first is %d", s.Len(), s.Bytes()[0])
	}
	if err := s.Close(); err != nil || exists(path) {
		t.Errorf("closed: %v, still there %t", err, exists(path))
	}

	spawn(t, "create", path).kill()
	if !exists(path) {
		t.Fatal("removed by nobody")
	}
	if err := Remove(path); err != nil || exists(path) {
		t.Errorf("removed: %v, still there %t", err, exists(path))
	}
	if err := Remove(path); err != nil {
		t.Errorf("nothing to remove: %v", err)
	}
}

// Processes that come and go, killed at any point, leave nothing that the
// next one does not clear up.
func TestChurn(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "segment")
	for range 5 {
		var children []*segmentChild
		for range 3 {
			children = append(children, spawn(t, "churn", path))
		}
		for range 5 {
			if s, err := Create(mib, Options{Path: path}); err == nil {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			} else if !errors.Is(err, ErrOwned) && !errors.Is(err, os.ErrExist) {
				t.Error(err)
			}
		}
		for _, c := range children {
			if err := c.Process.Kill(); err != nil {
				t.Error(err)
			}
		}
		for _, c := range children {
			if c.out.Scan() {
				t.Error(c.out.Text())
			}
			c.Wait()
		}
		s, err := Create(mib, Options{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		if got := pids(t, s); !slices.Equal(got, []int{os.Getpid()}) {
			t.Errorf("owners %v", got)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) != 0 {
			t.Errorf("left behind: %v, %v", entries, err)
		}
	}
}
