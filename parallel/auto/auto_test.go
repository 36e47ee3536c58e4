package auto

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	_ "github.com/pinion-gpu/pinion/device/host"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/parallel"
	"github.com/pinion-gpu/pinion/parallel/control"
	"github.com/pinion-gpu/pinion/parallel/launch"
	"github.com/pinion-gpu/pinion/parallel/local"
)

var ctx = context.Background()

// together runs fn as each of n ranks, and returns their errors.
func together(t *testing.T, n int, o Options, fn func(*Ranks) error) []error {
	testkit.NoLeaks(t)
	var devices []device.Device
	for range n {
		dev := testkit.Must(device.Open("host"))(t)
		t.Cleanup(func() { testkit.OK(t, dev.Close()) })
		devices = append(devices, dev)
	}
	errs := make([]error, n)
	var all sync.WaitGroup
	for rank, c := range testkit.Must(local.New(devices...))(t) {
		all.Go(func() {
			r, err := Over(ctx, c, o)
			if errs[rank] = err; err == nil {
				errs[rank] = fn(r)
				_ = r.Close()
			}
		})
	}
	all.Wait()
	return errs
}

// sum adds up a number of each rank.
func sum(c parallel.Comm) (err error) {
	s, err := c.Device().NewStream()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	p, err := c.Device().Alloc(64)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Device().Free(p)) }()
	return errors.Join(c.AllReduce(s, dtype.F32, parallel.Sum, parallel.Part{Recv: p, Send: p, N: 16}), s.Synchronize())
}

func TestTogether(t *testing.T) {
	for rank, err := range together(t, 3, Options{}, func(r *Ranks) error {
		for i := range 20 {
			if err := r.Do(fmt.Sprintf("step %d", i), func() error { return sum(r.Comm) }); err != nil {
				return err
			}
		}
		got, err := r.Exchange(ctx, "ranks", fmt.Append(nil, r.World.Rank))
		if err == nil && fmt.Sprintf("%s", got) != "[0 1 2]" {
			err = fmt.Errorf("%s", got)
		}
		return errors.Join(err, r.Agree(ctx, "model", "the same"))
	}) {
		if err != nil {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
}

// A rank that fails ends what the others wait for: each says which rank it was, and why.
func TestFails(t *testing.T) {
	broken := errors.New("the data are broken")
	errs := together(t, 3, Options{}, func(r *Ranks) error {
		return r.Do("step 1", func() error {
			if r.World.Rank == 1 {
				return broken
			}
			return sum(r.Comm)
		})
	})
	for rank, err := range errs {
		if rank == 1 {
			testkit.WantError(t, "the rank itself", err, broken)
			continue
		}
		var of *control.RankError
		if !errors.As(err, &of) || of.Rank != 1 || of.Reason != broken.Error() {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
}

// A rank that fails while others connect their GPUs ends that.
func TestFailsWhileOthersConnect(t *testing.T) {
	for rank, err := range together(t, 2, Options{}, func(r *Ranks) error {
		if r.World.Rank == 1 {
			r.Fail(errors.New("no such GPU"))
			return nil
		}
		ctx, end := r.whileRuns(ctx)
		defer end()
		<-ctx.Done()
		return context.Cause(ctx)
	}) {
		var of *control.RankError
		if rank == 0 && (!errors.As(err, &of) || of.Rank != 1 || of.Reason != "no such GPU") {
			t.Error(err)
		}
	}
}

// Of a rank whose context ends, others hear that it was interrupted.
func TestInterrupted(t *testing.T) {
	for rank, err := range together(t, 2, Options{}, func(r *Ranks) error {
		return r.Do("step 1", func() error {
			if r.World.Rank == 0 {
				return fmt.Errorf("step 1: %w", context.Canceled)
			}
			return sum(r.Comm)
		})
	}) {
		var of *control.RankError
		if rank == 0 {
			testkit.WantError(t, "the rank itself", err, context.Canceled)
		} else if !errors.As(err, &of) || of.Rank != 0 || of.Reason != "interrupted" {
			t.Error(err)
		}
	}
}

// A rank that does not come is the one that is blamed.
func TestHangs(t *testing.T) {
	release := make(chan struct{})
	var waited sync.WaitGroup
	waited.Add(2)
	go func() { waited.Wait(); close(release) }()
	errs := together(t, 3, Options{Limit: 300 * time.Millisecond, Lost: time.Minute}, func(r *Ranks) error {
		err := r.Do("step 1", func() error {
			if r.World.Rank == 2 {
				<-release
				return errors.New("too late")
			}
			r.Begins("the reduction of step 1")
			err := sum(r.Comm)
			waited.Done()
			return err
		})
		return err
	})
	for rank, err := range errs[:2] {
		if err == nil || !strings.Contains(err.Error(), "step 1 is not done after 300ms") {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
}

func TestAlone(t *testing.T) {
	for _, name := range []string{"RANK", "WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"} {
		t.Setenv(name, "")
	}
	r := testkit.Must(Open(ctx, nil, Options{}))(t)
	if r.Comm != nil || r.World.Size != 1 {
		t.Errorf("%+v", r.World)
	}
	testkit.OK(t, r.Agree(ctx, "model", "x"))
	testkit.OK(t, r.Do("step 1", func() error { return nil }))
	testkit.OK(t, r.Close())
}

// Ranks whose launcher started no MPI say so, each by itself.
func TestNoMPI(t *testing.T) {
	for _, name := range []string{"OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMIX_RANK"} {
		t.Setenv(name, "")
	}
	dev := testkit.Must(device.Open("host"))(t)
	defer dev.Close()
	_, err := Open(ctx, dev, Options{World: &launch.World{Rank: 1, Size: 2, Master: "127.0.0.1:1"}})
	if err == nil || !strings.Contains(err.Error(), "rank 1 of 2") || !strings.Contains(err.Error(), "mpirun") {
		t.Error(err)
	}
}
