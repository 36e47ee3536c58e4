package tier_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/tier"
)

// Forward and back over layers of four times the budget: every step finds its own
// layer, in order, and what a step writes is there for the next.
func TestStream(t *testing.T) {
	f := open(t, tier.Options{DeviceBytes: 16 * mib, HostBytes: 66 * mib})
	const layers, n = 62, mib
	log := f.array("log", mib) // what the steps saw
	var weights []*tier.Array
	for i := range layers {
		w := f.array(fmt.Sprintf("layer %d", i), n)
		testkit.OK(t, w.WriteAt(ctx, bytes.Repeat([]byte{byte(i)}, n), 0))
		weights = append(weights, w)
	}
	var steps []tier.Step
	add := func(i int, access func(*tier.Array) tier.Access) {
		at := int64(len(steps))
		steps = append(steps, tier.Step{
			Name: weights[i].Name(), Use: []tier.Access{access(weights[i]), tier.Write(log)},
			Run: func(s device.Stream, l *tier.Lease) error {
				return s.CopyD2D(l.Ptr(log).Add(at), l.Ptr(weights[i]).Add(n-1), 1)
			},
		})
	}
	for i := range layers {
		add(i, tier.Read)
	}
	for i := layers - 1; i >= 0; i-- {
		add(i, tier.Read)
	}
	stream, err := f.store.NewStream(steps...)
	testkit.OK(t, err)
	const rounds = 4
	r, err := stream.Run(ctx, f.stream, rounds)
	testkit.OK(t, err)
	got := f.read(log)
	for i := range 2 * layers {
		want := byte(min(i, 2*layers-1-i))
		if got[i] != want {
			t.Fatalf("step %d saw layer %d, want %d", i, got[i], want)
		}
	}
	s := f.store.Stats()
	t.Logf("%+v\n%+v", r, s)
	if r.Rounds != rounds || r.Bytes != rounds*2*layers*2*mib || r.Compute <= 0 || r.Compute > r.Time {
		t.Errorf("%+v", r)
	}
	// Of 62 layers, 13 or so stay: there and back, each turn finds them.
	if most := int64(rounds * 2 * (layers - 10) * mib); r.Filled > most {
		t.Errorf("%d bytes were brought in, want at most %d", r.Filled, most)
	}
	if s.Levels[1].Used > (layers+1)*mib+mib {
		t.Errorf("host memory: %+v", s.Levels)
	}
	if floor := stream.Floor(r, 16*mib, 1e9); floor < time.Duration(rounds*(2*2*layers-16)*mib)-time.Millisecond {
		t.Errorf("floor %v", floor)
	}
	testkit.OK(t, stream.Close())
}

func TestStreamFails(t *testing.T) {
	f := open(t, tier.Options{DeviceBytes: 16 * mib, HostBytes: 16 * mib})
	a := f.array("a", mib)
	run := func(device.Stream, *tier.Lease) error { return nil }
	for _, steps := range [][]tier.Step{nil, {{Run: run}}, {{Use: []tier.Access{tier.Read(a)}}}, {{Use: []tier.Access{{}}, Run: run}}} {
		_, err := f.store.NewStream(steps...)
		testkit.WantError(t, "steps", err, device.ErrArgument)
	}
	broken := errors.New("broken")
	s, err := f.store.NewStream(tier.Step{Name: "fails", Use: []tier.Access{tier.Read(a)},
		Run: func(device.Stream, *tier.Lease) error { return broken }})
	testkit.OK(t, err)
	_, err = s.Run(ctx, f.stream, 3)
	testkit.WantError(t, "a step", err, broken, "step 0 fails")
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, err = s.Run(ended, f.stream, 1)
	testkit.WantError(t, "ended", err, context.Canceled)
	testkit.OK(t, s.Close())
	testkit.OK(t, a.Free())
}

func TestReportShares(t *testing.T) {
	r := tier.StreamReport{Rounds: 2, Bytes: 8e9, Filled: 6e9, Time: 2 * time.Second, Compute: 1500 * time.Millisecond}
	if r.Rate() != 4e9 || r.Hidden(6e9) != 0.5 || (tier.StreamReport{Time: time.Second}).Hidden(1) != 1 {
		t.Error(r.Rate(), r.Hidden(6e9))
	}
}

// What steps overwrite is not brought in, not even ahead.
func TestStreamOverwrites(t *testing.T) {
	f := open(t, tier.Options{DeviceBytes: 8 * mib, HostBytes: 34 * mib})
	var steps []tier.Step
	for i := range 32 {
		a := f.array("", mib)
		steps = append(steps, tier.Step{Use: []tier.Access{tier.Overwrite(a)},
			Run: func(s device.Stream, l *tier.Lease) error { return s.Memset(l.Ptr(a), byte(i), mib) }})
	}
	s, err := f.store.NewStream(steps...)
	testkit.OK(t, err)
	r, err := s.Run(ctx, f.stream, 3)
	testkit.OK(t, err)
	if r.Filled != 0 || r.Written == 0 {
		t.Errorf("%+v", r)
	}
	testkit.OK(t, s.Close())
}

// A report of no rounds has no rate, and can be printed as JSON.
func TestReportOfNothing(t *testing.T) {
	if rate := (tier.StreamReport{}).Rate(); rate != 0 {
		t.Errorf("%v bytes a second, want 0", rate)
	}
}
