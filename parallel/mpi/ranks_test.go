package mpi

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	_ "github.com/pinion-gpu/pinion/device/host"
	"github.com/pinion-gpu/pinion/parallel"
	"github.com/pinion-gpu/pinion/parallel/conformance"
)

// program names what this binary does as a rank, when a launcher of a test starts it.
const program = "PINION_MPI_PROGRAM"

var programs = map[string]func() error{
	"conformance": withComm(runConformance),
}

func TestMain(m *testing.M) {
	name := os.Getenv(program)
	if name == "" {
		os.Exit(m.Run())
	}
	if err := programs[name](); err != nil {
		fmt.Fprintln(os.Stderr, name+":", err)
		os.Exit(1)
	}
}

// withComm gives a program the world, and closes it.
func withComm(run func(parallel.Comm) error) func() error {
	return func() error {
		dev, err := device.Open("host")
		if err != nil {
			return err
		}
		c, err := Open(dev)
		if err != nil {
			return err
		}
		if err := run(c); err != nil {
			return err
		}
		if err := c.Close(); err != nil {
			return err
		}
		return dev.Close()
	}
}

// A launcher is mpirun, or srun.
type mpirun struct {
	name    string
	command []string
	env     []string
}

// launchers are the ones that are installed here.
var mpiruns = []mpirun{
	{"openmpi", []string{"mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--mca", "btl", "self,vader", "--mca", "btl_tcp_if_include", "lo"}, nil},
	{"mpich", []string{"mpirun.mpich"}, nil},
}

// each runs fn with each mpirun that is installed.
func each(t *testing.T, fn func(t *testing.T, m mpirun)) {
	for _, m := range mpiruns {
		t.Run(m.name, func(t *testing.T) {
			if _, err := exec.LookPath(m.command[0]); err != nil {
				t.Skipf("not run: %s is not installed", m.command[0])
			}
			fn(t, m)
		})
	}
}

// run runs a program on ranks, and returns what they print.
func (m mpirun) run(t testing.TB, ranks int, name string, env ...string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, m.command[0], append(m.command[1:len(m.command):len(m.command)], "-n", fmt.Sprint(ranks), self)...)
	cmd.Env = append(append(os.Environ(), program+"="+name), append(m.env, env...)...)
	cmd.WaitDelay = 5 * time.Second
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	return out.String(), err
}

func runConformance(c parallel.Comm) error {
	for _, k := range conformance.Cases {
		start := time.Now()
		if err := k.Run(c); err != nil {
			return err
		}
		if c.Rank() == 0 {
			fmt.Printf("%s: %v\n", k.Name, time.Since(start))
		}
	}
	return nil
}

func TestConformance(t *testing.T) {
	each(t, func(t *testing.T, m mpirun) {
		for _, n := range []int{1, 4} {
			out, err := m.run(t, n, "conformance")
			if err != nil {
				t.Errorf("%d ranks: %v\n%s", n, err, out)
			}
			t.Log(out)
		}
	})
}
