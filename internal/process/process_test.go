//go:build linux || darwin

package process_test

import (
	"fmt"
	"log"
	"os"
	"os/exec"
	"testing"

	"github.com/pinion-gpu/pinion/internal/process"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

func Example() {
	id, err := process.Self()
	if err != nil {
		log.Fatal(err)
	}
	earlier := id
	earlier.Start-- // had the number before
	fmt.Println(id.Alive(), earlier.Alive())
	// Output: true false
}

func self(t *testing.T) process.ID {
	t.Helper()
	id, err := process.Self()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestSelf(t *testing.T) {
	id := self(t)
	if int(id.PID) != os.Getpid() || id.Start == 0 || id.Foreign() || !id.Alive() {
		t.Errorf("%+v of process %d: foreign %t, alive %t", id, os.Getpid(), id.Foreign(), id.Alive())
	}
	if again := self(t); again != id {
		t.Errorf("%+v, then %+v", id, again)
	}
}

func TestAlive(t *testing.T) {
	id := self(t)
	for name, c := range map[string]struct {
		change func(*process.ID)
		want   bool
	}{
		"no number":             {func(id *process.ID) { id.PID = 0 }, false},
		"not a number":          {func(id *process.ID) { id.PID = 1 << 31 }, false},
		"the number used again": {func(id *process.ID) { id.Start++ }, false},
		"another namespace":     {func(id *process.ID) { id.Namespace++ }, true},
		"number and namespace":  {func(id *process.ID) { id.PID = 1<<31 - 1; id.Namespace++ }, true},
		"a number not in use":   {func(id *process.ID) { id.PID = 1<<31 - 1 }, false},
	} {
		other := id
		c.change(&other)
		if got := other.Alive(); got != c.want {
			t.Errorf("%s: %+v alive %t", name, other, got)
		}
	}
}

// A process is over when it is killed, before its parent collects it.
func TestKilled(t *testing.T) {
	if os.Getenv("PINION_PROCESS_CHILD") != "" {
		id := self(t)
		fmt.Println(id.PID, id.Start, id.Namespace)
		os.Stdin.Read(make([]byte, 1)) // until it is killed, or the parent is
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command(exe, "-test.run=^TestKilled$")
	child.Env = append(os.Environ(), "PINION_PROCESS_CHILD=1")
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var id process.ID
	_, err = fmt.Fscan(out, &id.PID, &id.Start, &id.Namespace)
	if err != nil || int(id.PID) != child.Process.Pid || !id.Alive() {
		t.Errorf("%+v of process %d: alive %t, %v", id, child.Process.Pid, id.Alive(), err)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	// Nobody collects it meanwhile, so it stays a zombie.
	testkit.Eventually(t, "a zombie is not alive", func() bool { return !id.Alive() })
	child.Wait()
	if id.Alive() {
		t.Error("alive when it was collected")
	}
}
