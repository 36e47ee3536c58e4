package nccl

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/dl"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/parallel"
)

// control is what the stand-in tells tests, and lets them do.
var control struct{ made, aborts, breakRank dl.Func }

// needsFake skips the test on a real device.
func needsFake(t testing.TB) {
	t.Helper()
	if standIns.File == "" {
		t.Skip("without the stand-in for NCCL")
	}
	if !control.aborts.Ok() {
		_, err := dl.Open(dl.Library{Name: "fakenccl", Files: []string{standIns.File}, Symbols: []dl.Symbol{
			{Name: "fakencclMade", Func: &control.made}, {Name: "fakencclAborts", Func: &control.aborts},
			{Name: "fakencclBreak", Func: &control.breakRank},
		}})
		testkit.OK(t, err)
	}
}

// aborts is how many communicators were aborted, as the stand-in says.
func aborts(t testing.TB) int {
	if standIns.File == "" {
		return 0
	}
	needsFake(t)
	return int(control.aborts.Call())
}

func sum(r *rig) error {
	return r.AllReduce(r.s, dtype.F32, parallel.Sum, parallel.Part{Recv: r.p, Send: r.p, N: 16})
}

// wantFailure wants one of a call of NCCL.
func wantFailure(t testing.TB, err error, text string) {
	t.Helper()
	var failed *Error
	if !errors.As(err, &failed) || !strings.Contains(err.Error(), text) {
		t.Errorf("%v, want %q", err, text)
	}
}

// What NCCL fails to do ends the communicator, which says why from then on.
func TestFailures(t *testing.T) {
	needsFake(t)
	t.Run("init", func(t *testing.T) {
		devices := openDevices(t, 2)
		t.Setenv("FAKENCCL_FAIL", "ncclCommInitRankScalable=2")
		_, err := Local(devices...)
		wantFailure(t, err, " of 2: ncclCommInitRankScalable: unhandled system error (2): injected")
	})
	t.Run("id", func(t *testing.T) {
		devices := openDevices(t, 1)
		t.Setenv("FAKENCCL_FAIL", "ncclGetUniqueId=2")
		_, err := Local(devices...)
		testkit.WantError(t, "Local", err, device.ErrNotSupported, "rank 0: ", "ncclGetUniqueId: unhandled system error (2)")
	})
	for _, call := range []string{"ncclAllReduce", "ncclGroupEnd"} {
		t.Run(call, func(t *testing.T) {
			comms := open(t, 1)
			before := aborts(t)
			testkit.OK(t, withRigs(comms, func(r *rig) error {
				t.Setenv("FAKENCCL_FAIL", call+"=4")
				p := parallel.Part{Recv: r.p, Send: r.p, N: 16}
				err := r.AllReduce(r.s, dtype.F32, parallel.Sum, p, p)
				testkit.WantError(t, "the operation", err, parallel.ErrArgument, "nccl: all-reduce: ncclAllReduce: invalid argument (4): injected")
				t.Setenv("FAKENCCL_FAIL", "")
				testkit.WantError(t, "the next", sum(r), parallel.ErrAborted, "(4)")
				return r.Close()
			}))
			if n := aborts(t) - before; n != 2 {
				t.Errorf("aborted %d of NCCL's two", n)
			}
		})
	}
	t.Run("split", func(t *testing.T) {
		comms := open(t, 1)
		t.Setenv("FAKENCCL_FAIL", "ncclCommSplit=2")
		_, err := comms[0].Split(ctx, 0, 0)
		wantFailure(t, err, "nccl: split: ncclCommSplit: unhandled system error (2)")
		testkit.OK(t, comms[0].Close())
	})
	t.Run("close", func(t *testing.T) {
		comms := open(t, 1)
		t.Setenv("FAKENCCL_FAIL", "ncclCommFinalize=2")
		wantFailure(t, comms[0].Close(), "nccl: close: ncclCommFinalize: unhandled system error (2)")
	})
}

// A connection that breaks becomes an error of the next call.
func TestAsyncError(t *testing.T) {
	needsFake(t)
	comms := open(t, 2)
	testkit.OK(t, withRigs(comms, func(r *rig) error { return errors.Join(sum(r), r.s.Synchronize()) }))
	const remoteError = 6
	control.breakRank.Call(1, remoteError)
	testkit.OK(t, withRigs(comms[1:], func(r *rig) error {
		err := sum(r)
		var failed *Error
		if !errors.As(err, &failed) || failed.Code != remoteError {
			t.Errorf("the next call: %v", err)
		}
		return nil
	}))
	// Nobody calls this one.
	control.breakRank.Call(0, remoteError)
	testkit.Eventually(t, "rank 0 ends", func() bool { return comms[0].(*comm).life.Err() != nil })
	testkit.WantError(t, "rank 0", comms[0].Barrier(ctx), parallel.ErrAborted, "remote process exited")
	testkit.OK(t, each(comms, parallel.Comm.Close))
}

// Open is given up when its context ends.
func TestOpenContext(t *testing.T) {
	needsFake(t)
	testkit.NoLeaks(t)
	devices := openDevices(t, 2)
	other := testkit.Must(json.Marshal(newMember(devices[1], 1)))(t)
	made, before := control.made.Call(), aborts(t)
	waiting, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		_, err := Open(waiting, devices[0], 0, 2, func(_ context.Context, mine []byte) ([][]byte, error) { return [][]byte{mine, other}, nil })
		done <- err
	}()
	testkit.Eventually(t, "it waits for rank 1", func() bool { return control.made.Call() > made })
	cancel()
	testkit.WantError(t, "Open", testkit.Receive(t, "Open", done), context.Canceled, "nccl: rank 0 of 2")
	if n := aborts(t) - before; n != 1 {
		t.Errorf("aborted %d times", n)
	}
}

// A rank that waits for others in a call, or in Close, is freed by Abort.
func TestAbortOfWaiting(t *testing.T) {
	needsFake(t)
	reason := errors.New("rank 0 was seen to fall")
	t.Setenv("FAKENCCL_CONNECT", "1")
	for what, wait := range map[string]func(*rig) error{
		"nccl: all-reduce: ": sum, // with a communicator that blocks
		"nccl: split: ":      func(r *rig) error { _, err := r.Split(ctx, 0, 0); return err },
		"nccl: close: ": func(r *rig) error {
			exchange := parallel.Transfer{Peer: 0, Ptr: r.p, Bytes: 8} // which connects with nobody here
			if err := r.Exchange(r.s, exchange); err != nil {
				return err
			}
			return r.Close()
		},
	} {
		comms := open(t, 2)
		before := aborts(t)
		testkit.OK(t, withRigs(comms[1:], func(r *rig) error {
			done := make(chan error, 1)
			go func() { done <- wait(r) }()
			testkit.Eventually(t, "a call", func() bool { // is in progress
				c := r.Comm.(*comm)
				if c.mu.TryLock() {
					c.mu.Unlock()
					return false
				}
				return true
			})
			r.Abort(reason)
			err := testkit.Receive(t, what, done)
			testkit.WantError(t, what, err, parallel.ErrAborted, what, reason.Error())
			return r.s.Synchronize()
		}))
		comms[0].Abort(reason)
		testkit.OK(t, each(comms, parallel.Comm.Close))
		if n := aborts(t) - before; n != 4 {
			t.Errorf("%s: aborted %d times, of 2 ranks with two each", what, n)
		}
	}
}

// A split is given up, too, when another rank falls in the midst of it.
func TestSplitContext(t *testing.T) {
	needsFake(t)
	comms := open(t, 2)
	waiting, cancel := context.WithCancel(ctx)
	made := control.made.Call()
	done := make(chan error, 1)
	go func() {
		_, err := comms[0].Split(waiting, 0, 0)
		done <- err
	}()
	testkit.OK(t, comms[1].(*comm).splitRoot(0, 1, nil, func() {})) // and no more
	testkit.Eventually(t, "both have a part", func() bool { return control.made.Call() == made+2 })
	cancel()
	testkit.WantError(t, "Split", testkit.Receive(t, "Split", done), context.Canceled, "nccl: split: ")
	comms[1].Abort(context.Canceled)
	testkit.OK(t, each(comms, parallel.Comm.Close))
}

// A library that is not there, or too old, is said to be.
func TestLoad(t *testing.T) {
	needsFake(t)
	t.Cleanup(func() {
		_, _, err := load()
		testkit.OK(t, err)
	})
	t.Run("off", func(t *testing.T) {
		t.Setenv("PINION_LIB_NCCL", "off")
		_, _, err := load()
		testkit.WantError(t, "load", err, dl.ErrNotFound, "NCCL is not installed: ", "nvidia-nccl-cu12", "PINION_LIB_NCCL")
	})
	t.Run("old", func(t *testing.T) {
		t.Setenv("FAKENCCL_VERSION", "22105")
		_, _, err := load()
		if err == nil || !strings.HasSuffix(err.Error(), " is NCCL 2.21.5; 2.23.0 or newer is needed") {
			t.Error(err)
		}
	})
	file, version, err := load()
	if file != standIns.File || version < minVersion || err != nil {
		t.Errorf("%s, %d, %v", file, version, err)
	}
}
