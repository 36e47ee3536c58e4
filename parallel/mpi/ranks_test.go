//go:build linux

package mpi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	_ "github.com/pinion-gpu/pinion/device/host"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/parallel"
	"github.com/pinion-gpu/pinion/parallel/conformance"
)

// program names what this binary does as a rank, when a launcher of a test starts it.
const program = "PINION_MPI_PROGRAM"

var programs = map[string]func() error{
	"conformance": withComm(runConformance),
	"large":       withComm(runLarge),
	"reopen":      reopen,
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

// mpirun is a command that starts ranks.
type mpirun struct {
	name    string
	command []string
	needs   []string // programs
}

var (
	openMPI = mpirun{"openmpi", []string{"mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none",
		"--mca", "btl", "self,vader", "--mca", "btl_tcp_if_include", "lo"}, []string{"mpirun.openmpi"}}
	mpich   = mpirun{"mpich", []string{"mpirun.mpich"}, []string{"mpirun.mpich"}}
	daemons = []string{"srun", "munged", "slurmctld", "slurmd"}
	slurms  = []mpirun{
		{"slurm-openmpi", []string{"testdata/slurm.sh", "srun", "--kill-on-bad-exit", "--mpi=pmix"}, append(daemons, "mpirun.openmpi")},
		{"slurm-mpich", []string{"testdata/slurm.sh", "srun", "--kill-on-bad-exit", "--mpi=pmi2"}, append(daemons, "mpirun.mpich")},
	}
)

// each runs fn with each of the commands that can be had here.
func each(t *testing.T, fn func(t *testing.T, m mpirun), list ...mpirun) {
	if len(list) == 0 {
		list = []mpirun{openMPI, mpich}
	}
	t.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin")
	for _, m := range list {
		t.Run(m.name, func(t *testing.T) {
			for _, p := range m.needs {
				if _, err := exec.LookPath(p); err != nil {
					t.Skipf("not run: %s is not installed", p)
				}
			}
			if m.needs[0] == "srun" && os.Getuid() != 0 {
				t.Skip("not run: slurmd needs root")
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
	cmd.Env = append(append(os.Environ(), program+"="+name), env...)
	cmd.WaitDelay = 15 * time.Second // slurm.sh ends four processes, and shows logs
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	return out.String(), err
}

func runConformance(c parallel.Comm) error {
	for _, k := range conformance.Cases {
		if err := k.Run(c); err != nil {
			return err
		}
	}
	return nil
}

func TestConformance(t *testing.T) {
	each(t, func(t *testing.T, m mpirun) {
		for _, n := range []int{1, 4} {
			if out, err := m.run(t, n, "conformance"); err != nil {
				t.Errorf("%d ranks: %v\n%s", n, err, out)
			}
		}
	})
}

// The same, started by Slurm, whose daemons the test starts.
func TestSlurm(t *testing.T) {
	each(t, func(t *testing.T, m mpirun) {
		if out, err := m.run(t, 4, "conformance"); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}, slurms...)
}

// Operations of several pieces give what package conformance asks of small ones.
func TestLarge(t *testing.T) {
	each(t, func(t *testing.T, m mpirun) {
		if out, err := m.run(t, 3, "large"); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

func runLarge(c parallel.Comm) error {
	const n = 5<<20 + 3 // elements of each rank
	ranks, own := int64(c.Size()), int64(c.Rank())
	s, err := c.Device().NewStream()
	if err != nil {
		return err
	}
	p, err := c.Device().Alloc(ranks * n)
	if err != nil {
		return err
	}
	// Byte i of rank k.
	value := func(k, i int64) byte { return byte(i%7 + i>>20 + k) }
	fill := func(k, from, to int64) []byte {
		b := make([]byte, to-from)
		for i := range b {
			b[i] = value(k, from+int64(i))
		}
		return b
	}
	sum := func(from, to int64) []byte {
		b := make([]byte, to-from)
		for i := range b {
			for k := range ranks {
				b[i] += value(k, from+int64(i))
			}
		}
		return b
	}
	var everything []byte
	for k := range ranks {
		everything = append(everything, fill(k, 0, n)...)
	}
	share := p.Add(own * n)
	for _, x := range []struct {
		what       string
		send, want []byte
		to, from   device.Ptr
		queue      func() error
	}{
		{"all-reduce", fill(own, 0, n), sum(0, n), p, p, func() error {
			return c.AllReduce(s, dtype.U8, parallel.Sum, parallel.Part{Recv: p, Send: p, N: n})
		}},
		{"reduce-scatter", fill(own, 0, ranks*n), sum(own*n, (own+1)*n), p, share, func() error {
			return c.ReduceScatter(s, dtype.U8, parallel.Sum, parallel.Part{Recv: share, Send: p, N: n})
		}},
		{"all-gather", fill(own, 0, n), everything, share, p, func() error {
			return c.AllGather(s, parallel.Part{Recv: p, Send: share, N: n})
		}},
		{"broadcast", fill(own, 0, n), fill(1, 0, n), p, p, func() error { return c.Broadcast(s, p, n, 1) }},
		{"exchange", fill(own, 0, n), fill((own+1)%ranks, 0, n), p, p.Add(n), func() error {
			return c.Exchange(s, parallel.Send(p, n, int(own+ranks-1)%c.Size()), parallel.Recv(p.Add(n), n, int(own+1)%c.Size()))
		}},
	} {
		got := make([]byte, len(x.want))
		if err := errors.Join(s.CopyH2D(x.to, x.send), x.queue(), s.CopyD2H(got, x.from), s.Synchronize()); err != nil {
			return fmt.Errorf("%s: %w", x.what, err)
		}
		if !bytes.Equal(got, x.want) {
			return fmt.Errorf("%s: others", x.what)
		}
	}
	return errors.Join(s.Close(), c.Device().Free(p))
}

// MPI ends with the last communicator, not before, and does not start again.
func TestReopen(t *testing.T) {
	each(t, func(t *testing.T, m mpirun) {
		if out, err := m.run(t, 2, "reopen"); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

func reopen() error {
	dev, err := device.Open("host")
	if err != nil {
		return err
	}
	first, err := Open(dev)
	if err != nil {
		return err
	}
	second, err := Open(dev)
	if err != nil {
		return err
	}
	if err := errors.Join(first.Close(), second.Barrier(ctx)); err != nil {
		return err
	}
	third, err := Open(dev)
	if err != nil {
		return err
	}
	if err := errors.Join(second.Close(), third.Barrier(ctx), third.Close()); err != nil {
		return err
	}
	if _, err := Open(dev); !errors.Is(err, ErrUnavailable) {
		return fmt.Errorf("Open behind the last Close: %v", err)
	}
	return dev.Close()
}

// With the library of the other MPI, each rank would be alone.
func TestWrongLibrary(t *testing.T) {
	both := openMPI
	both.needs = append(both.needs, mpich.needs...)
	each(t, func(t *testing.T, m mpirun) {
		out, err := m.run(t, 2, "conformance", "PINION_LIB_MPI=libmpich.so.12")
		if want := "mpirun of Open MPI started 2 ranks, but MPICH"; err == nil || !strings.Contains(out, want) {
			t.Errorf("%v, want %q\n%s", err, want, out)
		}
	}, both)
}

func TestAvailable(t *testing.T) {
	testkit.WantError(t, "no launcher", Available(), ErrUnavailable, "no MPI launcher started this process", "mpirun -n 4")
	t.Setenv("SLURM_STEP_ID", "0")
	testkit.WantError(t, "a step", Available(), ErrUnavailable, "srun needs --mpi=pmix")
	dev, err := device.Open("host")
	testkit.OK(t, err)
	defer dev.Close()
	_, err = Open(dev)
	testkit.WantError(t, "Open", err, ErrUnavailable)
	t.Setenv("PMI_RANK", "0")
	t.Setenv("PINION_LIB_MPI", "off")
	testkit.WantError(t, "no library", Available(), ErrUnavailable, "libmpich.so.12", "libmpi.so.40")
}
