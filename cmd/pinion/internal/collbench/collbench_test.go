package collbench

import (
	"bytes"
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	_ "github.com/pinion-gpu/pinion/device/host"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/sysmem"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/parallel"
	"github.com/pinion-gpu/pinion/parallel/auto"
	"github.com/pinion-gpu/pinion/parallel/local"
)

// open opens a host device that goes with the test.
func open(t *testing.T, name string) device.Device {
	testkit.NoLeaks(t)
	dev := testkit.Must(device.Open(name))(t)
	t.Cleanup(func() { testkit.OK(t, dev.Close()) })
	return dev
}

func small() Options {
	return Options{Operations: Operations(), Min: 8, Max: 200, Factor: 4, Repeats: 2, Warmup: 1, Type: dtype.F32, Exact: true}
}

// Three ranks measure everything, of all sizes, once.
func TestLocal(t *testing.T) {
	o := small()
	var steps []string
	o.Progress = func(step, of int, what string) {
		if step != len(steps) || of != 6*4 {
			t.Errorf("step %d of %d: %s", step, of, what)
		}
		steps = append(steps, what)
	}
	r := testkit.Must(Local(context.Background(), open(t, "host"), 3, o))(t)
	if r.World.Size != 3 || r.World.Rank != 0 || r.World.Launcher != "" || r.Hosts != 1 || r.SizeReason != "" || r.Max != 200 {
		t.Errorf("%+v", r)
	}
	sizes := map[string][]int64{}
	for _, x := range r.Rows {
		sizes[x.Operation] = append(sizes[x.Operation], x.Bytes)
		if x.Wrong != "" {
			t.Errorf("%s of %d bytes: %s", x.Operation, x.Bytes, x.Wrong)
		}
		apart, inPlace := true, x.Operation == AllReduce || x.Operation == ReduceScatter || x.Operation == AllGather
		if x.Operation == Broadcast {
			apart, inPlace = false, true
		}
		if (x.Apart != nil) != apart || (x.InPlace != nil) != inPlace {
			t.Errorf("%s: out of place %v, in place %v", x.Operation, x.Apart, x.InPlace)
		}
		for _, p := range []*Timing{x.Apart, x.InPlace} {
			if p == nil {
				continue
			}
			bus := float64(x.Bytes) / p.Mean * BusFactor(x.Operation, 3)
			if p.Mean <= 0 || p.Single <= 0 || math.Abs(p.Bus/bus-1) > 1e-9 {
				t.Errorf("%s of %d bytes: %+v", x.Operation, x.Bytes, p)
			}
		}
	}
	whole, shared := []int64{8, 32, 128, 200}, []int64{12, 36, 132, 204}
	for _, name := range Operations() {
		want := whole
		if shares(name) {
			want = shared
		}
		if !slices.Equal(sizes[name], want) {
			t.Errorf("%s: sizes %v, want %v", name, sizes[name], want)
		}
	}
	if len(steps) != 24 || steps[0] != "all-reduce of 8 B" {
		t.Errorf("%q", steps)
	}
}

// Every type, and every way to combine, gives what is expected.
func TestTypes(t *testing.T) {
	dev := open(t, "host")
	for typ := dtype.U8; typ.Valid(); typ++ {
		for op := parallel.Sum; op <= parallel.Avg; op++ {
			if !parallel.Reduces(typ, op) || op != parallel.Sum && typ != dtype.BF16 && typ != dtype.I64 {
				continue
			}
			o := small()
			o.Operations, o.Type, o.Op = []string{AllReduce, ReduceScatter}, typ, op
			o.Min, o.Max, o.Factor, o.Repeats, o.Warmup = 8, 40_000, 1000, 1, 0
			r := testkit.Must(Local(context.Background(), dev, 3, o))(t)
			for _, x := range r.Rows {
				if x.Wrong != "" {
					t.Errorf("%v of %v: %s", op, typ, x.Wrong)
				}
			}
		}
	}
}

// The factors, as nccl-tests has them.
func TestBusFactor(t *testing.T) {
	for _, c := range []struct {
		operation string
		ranks     int
		want      float64
	}{
		{AllReduce, 2, 1}, {AllReduce, 4, 1.5}, {AllReduce, 8, 1.75},
		{ReduceScatter, 4, 0.75}, {AllGather, 8, 0.875}, {AllToAll, 2, 0.5},
		{Broadcast, 8, 1}, {SendReceive, 8, 1},
	} {
		if got := BusFactor(c.operation, c.ranks); got != c.want {
			t.Errorf("%s of %d ranks: %g, want %g", c.operation, c.ranks, got, c.want)
		}
	}
}

func TestSizes(t *testing.T) {
	const most = math.MaxInt64
	for _, c := range []struct {
		least, most int64
		factor      int
		want        []int64
	}{
		{8, 8, 2, []int64{8}}, {8, 32, 2, []int64{8, 16, 32}}, {8, 100, 4, []int64{8, 32, 100}},
		{most / 3, most, 4, []int64{most / 3, most}},
	} {
		if got := Sizes(c.least, c.most, c.factor); !slices.Equal(got, c.want) {
			t.Errorf("%d to %d by %d: %v, want %v", c.least, c.most, c.factor, got, c.want)
		}
	}
}

// What is wrong is seen: elements of others, at other places, off by more than rounding.
func TestWrong(t *testing.T) {
	p := elements(dtype.F32, parallel.Sum, 0, 4)
	for rank := 1; rank < 4; rank++ {
		if differs(dtype.F32, elements(dtype.F32, parallel.Sum, rank, 4), p) < 0 || differs(0, bytesOf(rank), bytesOf(0)) < 0 {
			t.Errorf("rank %d sends what rank 0 does", rank)
		}
	}
	for _, at := range []int64{4, 1024, 1 << 20} {
		if differs(dtype.F32, p.from(at), p) < 0 || differs(0, bytesOf(0).from(at), bytesOf(0)) < 0 {
			t.Errorf("%d bytes later there is the same", at)
		}
	}
	if !bytes.Equal(p.from(4*patternElements), p) {
		t.Error("the pattern does not begin anew")
	}
	near, far := slices.Clone(p), slices.Clone(p)
	near[8]++
	far[9]++
	if at := differs(dtype.F32, near, p); at != -1 {
		t.Errorf("a rounding counts as wrong at byte %d", at)
	}
	if at := differs(dtype.F32, far, p); at != 8 {
		t.Errorf("differs at byte %d, want 8", at)
	}
	if at := differs(dtype.I32, near, p); at != 8 {
		t.Errorf("whole numbers differ at byte %d, want 8", at)
	}
}

// Of several ranks, the one that fails is named, once; and nothing stays behind.
func TestFails(t *testing.T) {
	o := small()
	o.Min, o.Max = 64<<20, 64<<20
	_, err := Local(context.Background(), open(t, "host:16MiB"), 2, o)
	testkit.WantError(t, "too large", err, sysmem.ErrMemory, "2 buffers of 64 MiB", "may have 8 MiB")
	if n := strings.Count(err.Error(), "buffers"); n != 1 {
		t.Errorf("%v: said %d times", err, n)
	}
	_, err = Local(context.Background(), open(t, "host"), 0, o)
	testkit.WantError(t, "no ranks", err, device.ErrArgument)
}

// Ranks that were told different things say which.
func TestDisagree(t *testing.T) {
	dev := open(t, "host")
	comms := testkit.Must(local.New(dev, dev))(t)
	failed := make([]error, len(comms))
	var all sync.WaitGroup
	for rank, c := range comms {
		all.Go(func() {
			r, err := auto.Over(context.Background(), c, auto.Options{})
			if err == nil {
				o := small()
				o.Repeats += rank
				_, err = Run(context.Background(), r, o)
				_ = r.Close()
			}
			failed[rank] = err
		})
	}
	all.Wait()
	for rank, err := range failed {
		if err == nil || !strings.Contains(err.Error(), "the calls") || !strings.Contains(err.Error(), "3, and 1 to warm up") {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
}

// Where the largest size is a default, it becomes smaller.
func TestSmaller(t *testing.T) {
	o := small()
	o.Operations, o.Max, o.Exact = []string{Broadcast}, 64<<20, false
	r := testkit.Must(Local(context.Background(), open(t, "host:16MiB"), 2, o))(t)
	if r.Max != 1<<20 || r.Rows[len(r.Rows)-1].Bytes != 1<<20 || !strings.Contains(r.SizeReason, "2 buffers of 64 MiB") {
		t.Errorf("%d bytes, because %s", r.Max, r.SizeReason)
	}
}

// A context that ends, at once or in the middle, ends all ranks.
func TestInterrupted(t *testing.T) {
	dev := open(t, "host")
	for _, at := range []int{-1, 0, 3} {
		ctx, cancel := context.WithCancel(context.Background())
		o := small()
		if at < 0 {
			cancel()
		}
		o.Operations, o.Repeats = []string{AllReduce}, 1000
		o.Progress = func(step, _ int, _ string) {
			if step == at {
				cancel()
			}
		}
		err := testkit.Within(t, "an interrupted run", func() error {
			_, err := Local(ctx, dev, 3, o)
			return err
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("interrupted at step %d: %v", at, err)
		}
		cancel()
	}
}
