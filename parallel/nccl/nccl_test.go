package nccl

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/parallel"
	"github.com/pinion-gpu/pinion/parallel/conformance"
)

func TestConformance(t *testing.T) {
	for _, size := range sizes(t) {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			for _, k := range conformance.Cases {
				t.Run(k.Name, func(t *testing.T) {
					comms := open(t, size)
					testkit.OK(t, each(comms, k.Run))
					testkit.OK(t, each(comms, parallel.Comm.Close))
				})
			}
		})
	}
}

// A rank that never comes does not keep the others, whose calls may be waiting for it; the
// group that theirs is split from lives on.
func TestAbort(t *testing.T) {
	testAbort(t)
	t.Run("connecting", func(t *testing.T) {
		needsFake(t)
		t.Setenv("FAKENCCL_CONNECT", "1")
		testAbort(t)
	})
}

func testAbort(t *testing.T) {
	for _, size := range sizes(t) {
		comms := open(t, size)
		before := aborts(t)
		reason := errors.New("rank 0 was seen to fall")
		testkit.OK(t, withRigs(comms, func(r *rig) error {
			c, err := r.Split(ctx, 0, r.Rank())
			if err != nil {
				return err
			}
			called := make(chan error, 1)
			go func() {
				if r.Rank() == 0 {
					called <- nil
					return
				}
				part := parallel.Part{Recv: r.p, Send: r.p, N: rigBytes}
				err := c.AllReduce(r.s, dtype.U8, parallel.Sum, part)
				if err == nil {
					err = c.Broadcast(r.s, r.p, rigBytes, 0)
				}
				called <- err
			}()
			c.Abort(reason)
			c.Abort(errors.New("another reason"))
			if err := <-called; err != nil && !(errors.Is(err, parallel.ErrAborted) && errors.Is(err, reason)) {
				return err
			}
			if err := r.s.Synchronize(); err != nil {
				return err
			}
			for what, err := range map[string]error{
				"an operation": c.AllReduce(r.s, dtype.F32, parallel.Sum, parallel.Part{Recv: r.p, Send: r.p, N: 16}),
				"a barrier":    c.Barrier(ctx),
			} {
				if !errors.Is(err, parallel.ErrAborted) || !errors.Is(err, reason) {
					return fmt.Errorf("%s behind Abort: %w", what, err)
				}
			}
			return errors.Join(c.Close(), c.Close(), r.Barrier(ctx))
		}))
		testkit.OK(t, each(comms, parallel.Comm.Close))
		if n := aborts(t) - before; standIns.File != "" && n != 2*size {
			t.Errorf("%d communicators of NCCL's were aborted, of %d ranks with two each", n, size)
		}
	}
}

// A barrier that not all ranks come to ends with its context, though NCCL waits.
func TestBarrierContext(t *testing.T) {
	comms := openMost(t)
	testkit.OK(t, each(comms, func(c parallel.Comm) error { return c.Barrier(ctx) }))
	waiting, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- comms[1].Barrier(waiting) }()
	cancel()
	testkit.WantError(t, "the barrier", testkit.Receive(t, "the barrier", done), context.Canceled, "nccl: barrier: ")
	for _, c := range comms {
		c.Abort(context.Canceled)
	}
	testkit.OK(t, each(comms, parallel.Comm.Close))
}

// A rank whose operations wait for another that never comes ends, also where to free what
// NCCL has waits for all that the GPU has to do.
func TestAbortOfQueued(t *testing.T) {
	comms := openMost(t)
	reason := errors.New("rank 0 was seen to fall")
	testkit.OK(t, withRigs(comms, func(r *rig) error {
		part := parallel.Part{Recv: r.p, Send: r.p, N: 16}
		// Together first, so that the next one waits for nobody to be connected.
		if err := errors.Join(r.AllReduce(r.s, dtype.F32, parallel.Sum, part), r.s.Synchronize()); err != nil || r.Rank() == 0 {
			return err
		}
		if err := r.AllReduce(r.s, dtype.F32, parallel.Sum, part); err != nil {
			return err
		}
		r.Abort(reason)
		closed := make(chan error, 1)
		go func() { closed <- r.Close() }()
		return errors.Join(testkit.Receive(t, "Close", closed), r.s.Synchronize())
	}))
	comms[0].Abort(reason)
	testkit.OK(t, each(comms, parallel.Comm.Close))
}

// An abort ends the groups that were split off, too, with what they wait for; a Close does not.
func TestAbortOfParts(t *testing.T) {
	reason := errors.New("rank 0 was seen to fall")
	comms := openMost(t)
	testkit.OK(t, withRigs(comms, func(r *rig) error {
		c, err := r.Split(ctx, 0, r.Rank())
		if err != nil {
			return err
		}
		part := parallel.Part{Recv: r.p, Send: r.p, N: 16}
		err = errors.Join(c.AllReduce(r.s, dtype.F32, parallel.Sum, part), r.s.Synchronize(), r.Barrier(ctx))
		if err == nil && r.Rank() > 0 {
			err = c.AllReduce(r.s, dtype.F32, parallel.Sum, part) // waits for rank 0
		}
		r.Abort(reason)
		closed := make(chan error, 1)
		go func() { closed <- r.Close() }()
		err = errors.Join(err, testkit.Receive(t, "Close", closed), r.s.Synchronize())
		if failed := c.Barrier(ctx); !errors.Is(failed, reason) {
			err = errors.Join(err, fmt.Errorf("the part lives on: %w", failed))
		}
		return errors.Join(err, c.Close())
	}))
	comms = openMost(t)
	testkit.OK(t, withRigs(comms, func(r *rig) error {
		c, err := r.Split(ctx, 0, r.Rank())
		if err != nil {
			return err
		}
		return errors.Join(r.Close(), c.Barrier(ctx), c.Close())
	}))
}

// A group beside computation has the results of its own operations, and ends with that which
// it is of.
func TestBeside(t *testing.T) {
	reason := errors.New("rank 0 was seen to fall")
	for _, size := range sizes(t) {
		comms := open(t, size)
		testkit.OK(t, withRigs(comms, func(r *rig) error {
			c, err := parallel.Beside(ctx, r.Comm)
			if err != nil {
				return err
			}
			if c == r.Comm || c.Rank() != r.Rank() || c.Size() != size {
				return fmt.Errorf("rank %d of %d is %d of %d there", r.Rank(), size, c.Rank(), c.Size())
			}
			one, got := make([]byte, 4), make([]byte, 4)
			binary.LittleEndian.PutUint32(one, math.Float32bits(1))
			err = errors.Join(r.s.CopyH2D(r.p, one), r.s.Synchronize(), c.AllReduce(r.s, dtype.F32, parallel.Sum, parallel.Part{Recv: r.p, Send: r.p, N: 1}),
				r.s.CopyD2H(got, r.p), r.s.Synchronize(), r.Barrier(ctx))
			if v := math.Float32frombits(binary.LittleEndian.Uint32(got)); err == nil && v != float32(size) {
				err = fmt.Errorf("the sum is %v", v)
			}
			r.Abort(reason)
			err = errors.Join(err, r.Close()) // the end of c is told while it is waited for
			if failed := c.Barrier(ctx); !errors.Is(failed, reason) {
				err = errors.Join(err, fmt.Errorf("it lives on: %w", failed))
			}
			return errors.Join(err, c.Close())
		}))
	}
}

// What is captured runs with each launch, beside what is not.
func TestCapture(t *testing.T) {
	for _, size := range sizes(t) {
		comms := open(t, size)
		testkit.OK(t, withRigs(comms, func(r *rig) error {
			dev, ok := device.As[device.Capturer](r.Device())
			if !ok || !dev.CanCapture() {
				return errors.New("nothing can be captured")
			}
			one := make([]byte, rigBytes)
			for i := 0; i < rigBytes; i += 4 {
				binary.LittleEndian.PutUint32(one[i:], math.Float32bits(1))
			}
			sum := func() error {
				half := int64(rigBytes / 8)
				return r.AllReduce(r.s, dtype.F32, parallel.Sum,
					parallel.Part{Recv: r.p, Send: r.p, N: half}, parallel.Part{Recv: r.p.Add(4 * half), Send: r.p.Add(4 * half), N: half})
			}
			if err := errors.Join(r.s.CopyH2D(r.p, one), r.s.Synchronize(), r.Barrier(ctx)); err != nil {
				return err
			}
			g, err := dev.Capture(r.s, sum)
			if err != nil {
				return err
			}
			got := make([]byte, rigBytes)
			if err := errors.Join(g.Launch(r.s), sum(), g.Launch(r.s), r.s.CopyD2H(got, r.p), r.s.Synchronize(), g.Close()); err != nil {
				return err
			}
			want := float32(size * size * size)
			for i := 0; i < rigBytes; i += 4 {
				if v := math.Float32frombits(binary.LittleEndian.Uint32(got[i:])); v != want {
					return fmt.Errorf("element %d is %v, want %v", i/4, v, want)
				}
			}
			return nil
		}))
		testkit.OK(t, each(comms, parallel.Comm.Close))
	}
}

// What was aborted is freed when the last graph with an operation of it is closed, by its
// owner or with the device. Who closes it before waits for nobody.
func TestAbortOfCaptured(t *testing.T) {
	if standIns.File != "" {
		defer func(before time.Duration) { closePatience = before }(closePatience)
		closePatience = 50 * time.Millisecond
	}
	for _, what := range []string{"graph", "device"} {
		t.Run(what, func(t *testing.T) {
			comms := openMost(t)
			graphs := make([]device.Graph, len(comms))
			testkit.OK(t, withRigs(comms, func(r *rig) error {
				dev, _ := device.As[device.Capturer](r.Device())
				g, err := dev.Capture(r.s, func() error {
					return r.AllReduce(r.s, dtype.F32, parallel.Sum, parallel.Part{Recv: r.p, Send: r.p, N: 16})
				})
				if err != nil {
					return err
				}
				graphs[r.Rank()] = g
				return errors.Join(g.Launch(r.s), r.s.Synchronize(), r.Barrier(ctx))
			}))
			var waiting atomic.Int32 // of ranks in one process, NCCL has the last one wait for all
			testkit.OK(t, each(comms, func(c parallel.Comm) error {
				c.Abort(errors.New("a rank fell"))
				err := c.Close()
				if errors.Is(err, errGraphs) {
					waiting.Add(1)
					return nil
				}
				return err
			}))
			if waiting.Load() == 0 {
				t.Error("closed with its graphs")
			}
			testkit.OK(t, each(comms, func(c parallel.Comm) error {
				if what == "graph" {
					return graphs[c.Rank()].Close()
				}
				return c.Device().Close()
			}))
			for _, c := range comms {
				testkit.Receive(t, "the end", c.(*comm).gone)
			}
		})
	}
}

// Wrong memory and streams are refused before NCCL has them, and do no harm.
func TestRefused(t *testing.T) {
	all := sizes(t)
	comms := open(t, all[len(all)-1])
	testkit.OK(t, withRigs(comms, func(r *rig) error {
		nowhere := device.Ptr(4096)
		for what, err := range map[string]error{
			"all-reduce":     r.AllReduce(r.s, dtype.F32, parallel.Sum, parallel.Part{Recv: r.p, Send: nowhere, N: 4}),
			"reduce-scatter": r.ReduceScatter(r.s, dtype.F32, parallel.Sum, parallel.Part{Recv: nowhere, Send: r.p, N: 4}),
			"all-gather":     r.AllGather(r.s, parallel.Part{Recv: r.p, Send: r.p, N: rigBytes + 1}),
			"broadcast":      r.Broadcast(r.s, r.p.Add(rigBytes-1), 2, 0),
			"exchange":       r.Exchange(r.s, parallel.Send(nowhere, 1, 0)),
		} {
			testkit.WantError(t, what, err, device.ErrPointer, "nccl: "+what)
		}
		if r.Size() > 1 { // each rank's share is there, all of them are not
			err := r.ReduceScatter(r.s, dtype.U8, parallel.Sum, parallel.Part{Recv: r.p, Send: r.p, N: rigBytes})
			testkit.WantError(t, "the shares of all ranks", err, device.ErrPointer)
		}
		part, err := r.Split(ctx, -5, 0)
		if part != nil || err != nil {
			return fmt.Errorf("no color: %v, %w", part, err)
		}
		_, err = r.Split(ctx, 1<<40, 0)
		testkit.WantError(t, "a color of 64 bits", err, parallel.ErrArgument, "1099511627776")
		host := testkit.Must(device.Open("host"))(t)
		defer host.Close()
		s := testkit.Must(host.NewStream())(t)
		err = r.AllReduce(s, dtype.F32, parallel.Sum, parallel.Part{Recv: r.p, Send: r.p, N: 4})
		testkit.WantError(t, "another device's stream", err, parallel.ErrArgument, "nccl: all-reduce")
		return r.Barrier(ctx)
	}))
	testkit.OK(t, each(comms, parallel.Comm.Close))
}

func TestOpen(t *testing.T) {
	dev := openDevices(t, 1)[0]
	c, err := Open(ctx, dev, 0, 1, nil)
	testkit.OK(t, err)
	testkit.OK(t, errors.Join(c.Barrier(ctx), c.Close()))

	failed := errors.New("a cable fell out")
	_, err = Open(ctx, dev, 1, 2, func(context.Context, []byte) ([][]byte, error) { return nil, failed })
	testkit.WantError(t, "an exchange that fails", err, failed, "nccl: rank 1 of 2")
	_, err = Open(ctx, dev, 0, 2, func(_ context.Context, mine []byte) ([][]byte, error) { return [][]byte{mine}, nil })
	testkit.WantError(t, "an exchange of too few", err, parallel.ErrArgument, "between 1 ranks for 2")
	_, err = Open(ctx, dev, 0, 2, func(_ context.Context, mine []byte) ([][]byte, error) { return [][]byte{mine, mine}, nil })
	testkit.WantError(t, "a GPU twice", err, parallel.ErrArgument, "ranks 0 and 1 have the same GPU, cuda:0 of host ")
	_, err = Open(ctx, dev, 0, 2, func(_ context.Context, mine []byte) ([][]byte, error) { return [][]byte{mine, []byte("{")}, nil })
	testkit.WantError(t, "no message", err, parallel.ErrArgument, "what rank 1 sent")
	_, err = Open(ctx, dev, 0, 2, nil)
	testkit.WantError(t, "no exchange", err, parallel.ErrArgument, "2 ranks without an exchange")
	for _, rank := range []int{-1, 2} {
		_, err = Open(ctx, dev, rank, 2, nil)
		testkit.WantError(t, "a wrong rank", err, parallel.ErrArgument, fmt.Sprintf("rank %d of 2", rank))
	}
	_, err = Local()
	testkit.WantError(t, "no ranks", err, parallel.ErrArgument)
	_, err = Local(dev, dev)
	testkit.WantError(t, "a GPU twice", err, parallel.ErrArgument, "ranks 0 and 1 have the same GPU")
	host := testkit.Must(device.Open("host"))(t)
	defer host.Close()
	_, err = Local(dev, host)
	testkit.WantError(t, "the host", err, device.ErrNotSupported, "rank 1", "host", "not a CUDA device")
}

func TestAgree(t *testing.T) {
	id := bytes.Repeat([]byte{1}, idBytes)
	err := agree([]member{{Version: 22707, GPU: "a", ID: id}, {Version: 22304, GPU: "b"}})
	testkit.WantError(t, "versions", err, parallel.ErrArgument, "rank 0 has NCCL 2.27.7, rank 1 has 2.23.4")
	err = agree([]member{{Version: 22707, GPU: "a", ID: id[1:]}})
	testkit.WantError(t, "an id that is cut", err, parallel.ErrArgument, "127 bytes")
	err = agree([]member{{Version: 22707, GPU: "a", ID: id}, {Problem: "NCCL is not installed"}})
	testkit.WantError(t, "a rank without", err, device.ErrNotSupported, "rank 1: ", "not installed")
	testkit.OK(t, agree([]member{{Version: 22707, GPU: "a", ID: id}, {Version: 22707, GPU: "b"}}))
}
