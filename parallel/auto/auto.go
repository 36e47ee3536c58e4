// Package auto makes a process one of the ranks that a launcher started together, whichever
// launcher and device they have:
//
//	ranks, err := auto.Open(ctx, dev, auto.Options{})
//	defer ranks.Close()
//	err = ranks.Agree(ctx, "model", digest)
//	for … {
//		err := ranks.Do("step 17", func() error { … ranks.Comm … })
//	}
//
// A rank that dies, hangs or fails ends what the others wait for, and each says which rank
// it was and why.
package auto

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pinion-gpu/pinion/device"
	_ "github.com/pinion-gpu/pinion/device/host"
	"github.com/pinion-gpu/pinion/parallel"
	"github.com/pinion-gpu/pinion/parallel/control"
	"github.com/pinion-gpu/pinion/parallel/copies"
	"github.com/pinion-gpu/pinion/parallel/launch"
	"github.com/pinion-gpu/pinion/parallel/mpi"
	"github.com/pinion-gpu/pinion/parallel/nccl"
)

// Options say how ranks meet, and for how long one waits for others.
type Options struct {
	// World is this rank. Default: nil, what the launcher says in the environment.
	World *launch.World

	// Join is how long Open waits for all ranks. Default: 5 minutes.
	Join time.Duration

	// Lost is after how long without a sign of life a rank counts as lost. Default: 10
	// seconds.
	Lost time.Duration

	// Limit is how long a [Ranks.Do] may take, before the ranks that are behind are said
	// to hang. Default: 10 minutes.
	Limit time.Duration

	// NoCopies has all sums done by NCCL. Default: large ones go by copy engines, which leave
	// the multiprocessors to what computes beside them, where GPUs reach each other's memory
	// (package copies).
	NoCopies bool
}

// Ranks are the ranks of a run, as one of them sees it.
type Ranks struct {
	// World is this rank.
	World launch.World

	// Comm connects the ranks; nil where there is only one.
	Comm parallel.Comm

	group *control.Group // nil where there is one rank
	guide parallel.Comm  // by which ranks with GPUs met; nil: the launcher said where
	host  device.Device  // of that
	limit time.Duration
	begun atomic.Int64 // operations

	watching sync.WaitGroup
}

// Open meets the other ranks. Ranks on hosts without a GPU are connected by MPI, and so
// started by mpirun or srun; those with GPUs by NCCL and by copies, and started by any launcher. It fails
// on all ranks where one does not come, or does not fit.
func Open(ctx context.Context, dev device.Device, o Options) (*Ranks, error) {
	if o.World == nil {
		w, err := launch.FromEnv()
		if err != nil {
			return nil, err
		}
		o.World = &w
	}
	if o.World.Size == 1 {
		return &Ranks{World: *o.World}, nil
	}
	if _, ok := device.As[device.Caller](dev); !ok {
		return newRanks(*o.World, o).start(func(r *Ranks) error { return r.byNCCL(ctx, dev, o) })
	}
	c, err := mpi.Open(dev)
	if err != nil {
		return nil, fmt.Errorf("rank %d of %d has no GPU, and so needs MPI, which mpirun or srun starts: %w", o.World.Rank, o.World.Size, err)
	}
	return Over(ctx, c, o)
}

// Over is [Open] for a communicator that the program has, such as one of package local; it
// becomes the result's, also if Over fails. Options.World is by default a run on this
// machine.
func Over(ctx context.Context, c parallel.Comm, o Options) (*Ranks, error) {
	if o.World == nil {
		o.World = &launch.World{Rank: c.Rank(), Size: c.Size(), LocalRank: c.Rank(), LocalSize: c.Size()}
	}
	r := newRanks(*o.World, o)
	r.Comm = c
	return r.start(func(r *Ranks) error {
		if c.Size() != r.World.Size || c.Rank() != r.World.Rank {
			return fmt.Errorf("parallel: %w: the communicator has this process as rank %d of %d, and the environment, by %s, as rank %d of %d",
				parallel.ErrArgument, c.Rank(), c.Size(), r.World.Launcher, r.World.Rank, r.World.Size)
		}
		return r.join(ctx, c, o)
	})
}

func newRanks(w launch.World, o Options) *Ranks {
	return &Ranks{World: w, limit: cmp.Or(max(o.Limit, 0), 10*time.Minute)}
}

// start connects the rank, and then watches over it.
func (r *Ranks) start(connect func(*Ranks) error) (*Ranks, error) {
	err := connect(r)
	if err == nil {
		r.watching.Go(r.watch)
		return r, nil
	}
	if r.group != nil {
		r.group.Fail(err)
		_ = r.group.Close()
	}
	for _, c := range []parallel.Comm{r.Comm, r.guide} {
		if c != nil {
			c.Abort(err)
			_ = c.Close()
		}
	}
	if r.host != nil {
		_ = r.host.Close()
	}
	return nil, fmt.Errorf("rank %d of %d: %w", r.World.Rank, r.World.Size, err)
}

// byNCCL meets the other ranks where the launcher says, or by MPI where it does not, and
// connects their GPUs.
func (r *Ranks) byNCCL(ctx context.Context, dev device.Device, o Options) (err error) {
	if r.World.Master == "" {
		if r.host, err = device.Open("host"); err != nil {
			return err
		}
		if r.guide, err = mpi.Open(r.host); err != nil {
			return fmt.Errorf("%w; or PINION_MASTER says where rank 0 is met", err)
		}
	}
	if err := r.join(ctx, r.guide, o); err != nil {
		return err
	}
	ctx, end := r.whileRuns(ctx)
	defer end()
	c, err := nccl.Open(ctx, dev, r.World.Rank, r.World.Size, func(ctx context.Context, mine []byte) ([][]byte, error) {
		return r.group.Exchange(ctx, "NCCL", mine)
	})
	if err != nil {
		return err
	}
	r.Comm = c
	if o.NoCopies {
		return nil
	}
	defer context.AfterFunc(ctx, func() { c.Abort(context.Cause(ctx)) })()
	if byCopies, err := copies.Open(c); err == nil {
		r.Comm = byCopies
	} else if !errors.Is(err, device.ErrNotSupported) {
		return err
	}
	return nil
}

// whileRuns returns a context that ends with ctx, with the run, whose error is its cause,
// and with end.
func (r *Ranks) whileRuns(ctx context.Context) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-r.group.Done():
			cancel(r.group.Err())
		case <-ctx.Done():
		}
	})
	return ctx, func() { cancel(nil); watching.Wait() }
}

// join meets the other ranks where the launcher says, or where rank 0 says by c.
func (r *Ranks) join(ctx context.Context, c parallel.Comm, o Options) (err error) {
	join := control.Options{World: r.World, Timeout: o.Join, Lost: o.Lost}
	if c != nil {
		join.World.Master = ""
		if r.World.Rank == 0 {
			if join.Listener, err = control.Listen(ctx); err != nil {
				return err
			}
			join.World.Master = join.Listener.Addr()
		}
		texts, err := parallel.Texts(c, join.World.Master)
		if err != nil {
			return err
		}
		join.World.Master = texts[0]
	}
	r.group, err = control.Join(ctx, join)
	return err
}

// watch ends what this rank waits for when the run has failed.
func (r *Ranks) watch() {
	<-r.group.Done()
	if err := r.group.Err(); err != nil {
		r.Comm.Abort(err)
		if r.guide != nil {
			r.guide.Abort(err)
		}
	}
}

// Agree fails on all ranks if they do not have the same value, and says who has which.
func (r *Ranks) Agree(ctx context.Context, what, value string) error {
	if r.group == nil {
		return nil
	}
	return r.group.Agree(ctx, what, value)
}

// Exchange gives each rank what all have, in order of rank.
func (r *Ranks) Exchange(ctx context.Context, what string, mine []byte) ([][]byte, error) {
	if r.group == nil {
		return [][]byte{mine}, nil
	}
	return r.group.Exchange(ctx, what, mine)
}

// Do calls fn, in which ranks do something together, such as a step; what says what, to
// people. An error of fn ends the run, and so does fn when it takes longer than
// Options.Limit. If another rank ended it, the error is that rank's.
func (r *Ranks) Do(what string, fn func() error) error {
	if r.group == nil {
		return fn()
	}
	r.Begins(what)
	limit := time.AfterFunc(r.limit, func() {
		reason := fmt.Errorf("%s is not done after %v", what, r.limit)
		if behind := r.group.Behind(); behind != "" {
			reason = fmt.Errorf("%w: %s", reason, behind)
		}
		r.group.Fail(reason)
	})
	err := fn()
	limit.Stop()
	if err == nil {
		return r.group.Err()
	}
	r.Fail(err) // nothing happens if another rank did
	var own *control.RankError
	if first := r.group.Err(); errors.As(first, &own) && own.Rank != r.World.Rank {
		return first
	}
	return err
}

// Begins notes what this rank is at: of ranks that hang, those are blamed that have noted
// the fewest.
func (r *Ranks) Begins(what string) {
	if r.group != nil {
		r.group.Progress(r.begun.Add(1), what)
	}
}

// errInterrupted is what others hear of a rank whose context has been canceled.
var errInterrupted = errors.New("interrupted")

// Fail ends the run, because this rank cannot go on.
func (r *Ranks) Fail(err error) {
	if r.group == nil {
		return
	}
	if errors.Is(err, context.Canceled) {
		err = errInterrupted
	}
	r.group.Fail(err)
}

// Close leaves the run: all ranks call it. If the run has failed, it waits for nobody.
func (r *Ranks) Close() error {
	if r.group == nil {
		return nil
	}
	err := r.Comm.Close()
	if r.guide != nil {
		err = errors.Join(err, r.guide.Close(), r.host.Close())
	}
	err = errors.Join(err, r.group.Close())
	r.watching.Wait()
	return err
}
