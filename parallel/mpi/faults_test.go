//go:build linux

package mpi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/parallel"
)

func init() {
	programs["killed"] = withComm(runKilled)
	programs["exit"] = withComm(runExit)
	programs["aborts"] = withComm(runAborts)
	programs["splits"] = withComm(runSplits)
	programs["closing"] = withComm(runClosing)
	programs["mismatch"] = withComm(runMismatch)
}

var (
	ctx      = context.Background()
	errChaos = errors.New("it was time")
)

// A rank that is killed ends all others, which wait for it.
func TestKilled(t *testing.T) {
	each(t, func(t *testing.T, m mpirun) { ends(t, m, "killed") }, append(slurms, openMPI, mpich)...)
}

// So does one that leaves without Close.
func TestExit(t *testing.T) {
	each(t, func(t *testing.T, m mpirun) { ends(t, m, "exit") })
}

// ends runs a program whose ranks say who they are and end with one of them.
func ends(t *testing.T, m mpirun, name string) {
	out, err := m.run(t, 4, name)
	if err == nil || strings.Contains(out, "lives on") {
		t.Errorf("%v\n%s", err, out)
	}
	pids := regexp.MustCompile(`(?m)^pid (\d+)$`).FindAllStringSubmatch(out, -1)
	if len(pids) != 4 {
		t.Errorf("%d ranks began\n%s", len(pids), out)
	}
	for _, pid := range pids {
		n, _ := strconv.Atoi(pid[1])
		testkit.Eventually(t, "the end of "+pid[0], func() bool { return errors.Is(syscall.Kill(n, 0), syscall.ESRCH) })
	}
}

func waits(c parallel.Comm, fall func()) error {
	fmt.Printf("pid %d\n", os.Getpid())
	if err := c.Barrier(ctx); err != nil {
		return err
	}
	if c.Rank() == 2 {
		fall()
	}
	err := c.Barrier(ctx)
	fmt.Println("lives on:", err)
	return err
}

func runKilled(c parallel.Comm) error {
	return waits(c, func() {
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	})
}

// After a rank that leaves with status 0, mpiexec of MPICH ends the others, too, but has status
// 0 itself now and then.
func runExit(c parallel.Comm) error { return waits(c, func() { os.Exit(3) }) }

// Aborts at any time end whatever a rank waits for, MPI does not write into its memory
// behind that, and another communicator of the same ranks goes on.
func TestAborts(t *testing.T) {
	each(t, func(t *testing.T, m mpirun) {
		if out, err := m.run(t, 4, "aborts"); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

func runAborts(c parallel.Comm) error {
	steady, err := c.Split(ctx, 0, c.Rank())
	if err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(uint64(c.Rank()), 11))
	s, err := c.Device().NewStream()
	if err != nil {
		return err
	}
	const rounds = 40
	p, err := c.Device().Alloc(most)
	if err != nil {
		return err
	}
	var all errgroup.Group
	all.Go(func() error { return sums(steady, 300) })
	for round := range rounds {
		twin, err := c.Split(ctx, 0, c.Rank())
		if err != nil {
			return err
		}
		stop := time.AfterFunc(time.Duration(random.IntN(6_000))*time.Microsecond, func() { twin.Abort(errChaos) })
		err = errors.Join(something(twin, s, p, round, random.IntN(6)), s.Synchronize())
		stop.Stop()
		twin.Abort(errChaos)
		if err != nil && !errors.Is(err, errChaos) {
			return fmt.Errorf("round %d: %w", round, err)
		}
		// The memory is this rank's again.
		if err := errors.Join(s.Memset(p, byte(round), most), s.Synchronize(), twin.Close(), c.Barrier(ctx)); err != nil {
			return err
		}
		got := make([]byte, most)
		if err := errors.Join(s.CopyD2H(got, p), s.Synchronize()); err != nil {
			return err
		}
		if !bytes.Equal(got, bytes.Repeat([]byte{byte(round)}, most)) {
			return fmt.Errorf("round %d: memory changed behind Abort", round)
		}
	}
	return errors.Join(all.Wait(), steady.Close(), s.Close(), c.Device().Free(p))
}

const most = 6 << 20 // bytes that something works on

// something queues a number of operations, the same on all ranks as far as they come.
func something(c parallel.Comm, s device.Stream, p device.Ptr, seed, number int) (err error) {
	random := rand.New(rand.NewPCG(uint64(seed), 12))
	for range number {
		n := int64(1+random.IntN(3))<<random.IntN(19) + int64(random.IntN(2))
		switch kind := random.IntN(6); kind {
		case 0:
			err = c.AllReduce(s, dtype.BF16, parallel.Avg, parallel.Part{Recv: p, Send: p, N: n})
		case 1:
			n /= int64(c.Size())
			part := parallel.Part{Recv: p, Send: p.Add(most / 2), N: n / 2}
			err = c.ReduceScatter(s, dtype.F32, parallel.Sum, part, part)
		case 2:
			err = c.AllGather(s, parallel.Part{Recv: p, Send: p.Add(n * int64(c.Rank())), N: n})
		case 3:
			err = c.Broadcast(s, p, n, random.IntN(c.Size()))
		case 4:
			next, before := (c.Rank()+1)%c.Size(), (c.Rank()+c.Size()-1)%c.Size()
			err = c.Exchange(s, parallel.Send(p, n, next), parallel.Recv(p.Add(n), n, before))
		case 5:
			var part parallel.Comm
			if part, err = c.Split(ctx, c.Rank()%2, 0); err == nil {
				err = part.Close()
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sums makes all-reduces, and checks each.
func sums(c parallel.Comm, times int) error {
	s, err := c.Device().NewStream()
	if err != nil {
		return err
	}
	const n = 1000
	p, err := c.Device().Alloc(n)
	if err != nil {
		return err
	}
	got := make([]byte, n)
	for i := range times {
		value := byte(i % 60) // Open MPI's sums of bytes may saturate
		want := value * byte(c.Size())
		if err := errors.Join(s.Memset(p, value, n), c.AllReduce(s, dtype.U8, parallel.Sum, parallel.Part{Recv: p, Send: p, N: n}), s.CopyD2H(got, p), s.Synchronize()); err != nil {
			return fmt.Errorf("all-reduce %d beside aborts: %w", i, err)
		}
		if got[0] != want || got[n-1] != want {
			return fmt.Errorf("all-reduce %d: %d, want %d", i, got[0], want)
		}
	}
	return errors.Join(s.Close(), c.Device().Free(p))
}

// Groups that share ranks split at the same time, in an order that each rank has for
// itself.
func TestSplits(t *testing.T) {
	each(t, func(t *testing.T, m mpirun) {
		if out, err := m.run(t, 4, "splits"); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

func runSplits(c parallel.Comm) error {
	var groups []parallel.Comm
	for range 6 {
		g, err := Open(c.Device())
		if err != nil {
			return err
		}
		groups = append(groups, g)
	}
	random := rand.New(rand.NewPCG(uint64(c.Rank()), 13))
	for range 10 {
		var all errgroup.Group
		for _, k := range random.Perm(len(groups)) {
			pause := time.Duration(random.IntN(300)) * time.Microsecond
			all.Go(func() error {
				time.Sleep(pause)
				part, err := groups[k].Split(ctx, c.Rank()%2, -c.Rank())
				if err != nil {
					return err
				}
				if part.Size() != 2 || part.Rank() != 1-c.Rank()/2 {
					return fmt.Errorf("rank %d of %d", part.Rank(), part.Size())
				}
				return errors.Join(part.Barrier(ctx), part.Close())
			})
		}
		if err := all.Wait(); err != nil {
			return err
		}
	}
	for _, g := range groups {
		if err := g.Close(); err != nil {
			return err
		}
	}
	return nil
}

// The last Close waits for all ranks, and Abort ends that.
func TestCloseAborted(t *testing.T) {
	each(t, func(t *testing.T, m mpirun) {
		out, err := m.run(t, 2, "closing")
		if err == nil || !strings.Contains(out, "closing: parallel: communicator aborted: it was time") {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

func runClosing(c parallel.Comm) error {
	if c.Rank() == 0 {
		select {} // until mpirun ends it, since the other leaves with MPI not ended
	}
	closing := make(chan error)
	go func() { closing <- c.Close() }()
	time.Sleep(50 * time.Millisecond)
	c.Abort(errChaos)
	return <-closing
}

// Transfers of different sizes are an error of the one that receives, and what is left of
// them is not taken for the next.
func TestMismatch(t *testing.T) {
	each(t, func(t *testing.T, m mpirun) {
		if out, err := m.run(t, 2, "mismatch"); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

func runMismatch(c parallel.Comm) error {
	s, err := c.Device().NewStream()
	if err != nil {
		return err
	}
	p, err := c.Device().Alloc(1000)
	if err != nil {
		return err
	}
	for _, received := range []int64{100, 300} {
		if c.Rank() == 0 {
			if err := errors.Join(c.Exchange(s, parallel.Send(p, 200, 1)), s.Synchronize()); err != nil {
				return err
			}
			continue
		}
		if err := errors.Join(c.Exchange(s, parallel.Recv(p, received, 0)), s.Synchronize()); !errors.Is(err, parallel.ErrMismatch) {
			return fmt.Errorf("%d bytes where 200 are sent: %v", received, err)
		}
	}
	return errors.Join(c.Barrier(ctx), s.Close(), c.Device().Free(p))
}
