package train_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/parallel/local"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/plan"
	"github.com/pinion-gpu/pinion/step/train"
)

func micro(n int) (train.Step, error) {
	net, err := build(kind{batch: n, hidden: 32, rate: 0.01})
	if err != nil {
		return train.Step{}, err
	}
	return net.Step, nil
}

// What is found is the largest size that fits, as trying all of them says.
func TestFit(t *testing.T) {
	exec := openExecutor(t)
	ctx := context.Background()
	batch, shares := 240, []int64{16, 12, 10, 9, 8}
	if onDevice {
		batch, shares = 120, []int64{16, 8}
	}
	whole := testkit.Must(train.Open(testkit.Must(micro(batch))(t), exec, train.Options{}))(t)
	most, fixed := whole.PeakBytes(), int64(0)
	testkit.OK(t, whole.Close())
	if onDevice { // the workspace of products is most of it, whatever the batch
		parts := testkit.Must(train.Open(testkit.Must(micro(batch/4))(t), exec, train.Options{Accumulate: 4}))(t)
		fixed = parts.PeakBytes() - (most-parts.PeakBytes())/2
		testkit.OK(t, parts.Close())
	}
	sizes := map[int]bool{}
	for _, share := range shares {
		o := train.Options{Compile: step.Options{Budget: fixed + (most-fixed)*share/16}}
		largest, bytes := 0, int64(0)
		for n := batch; n > 0 && largest == 0; n-- {
			if batch%n != 0 {
				continue
			}
			o.Accumulate = batch / n
			r, err := train.Open(testkit.Must(micro(n))(t), exec, o)
			if errors.Is(err, plan.ErrBudget) {
				continue
			}
			testkit.OK(t, err)
			largest, bytes = n, r.PeakBytes()
			testkit.OK(t, r.Close())
		}
		got, err := train.Fit(ctx, micro, batch, exec, o)
		if largest == 0 {
			testkit.WantError(t, "too little", err, plan.ErrBudget)
			continue
		}
		testkit.OK(t, err)
		if got.Micro != largest || got.Accumulate != batch/largest || got.Bytes != bytes || got.Bytes > o.Compile.Budget || got.Runs != 1 || got.Plans > 8 {
			t.Errorf("within %d: %d x %d, %d bytes, %d plans, %d runs; want %d, %d bytes",
				o.Compile.Budget, got.Accumulate, got.Micro, got.Bytes, got.Plans, got.Runs, largest, bytes)
		}
		sizes[got.Micro] = true
	}
	if len(sizes) < 2 || !sizes[batch] {
		t.Errorf("sizes are %v", sizes)
	}
}

func TestFitImpossible(t *testing.T) {
	exec := openExecutor(t)
	ctx := context.Background()
	_, err := train.Fit(ctx, micro, 16, exec, train.Options{Compile: step.Options{Budget: 2000}})
	testkit.WantError(t, "2,000 bytes", err, plan.ErrBudget, "a batch of 16", "1.95 KiB", "micro-batches of one", "the least that was found is", ", for ")
	e := (*plan.ImpossibleError)(nil)
	if !errors.As(err, &e) {
		t.Fatal(err)
	}
	// What is said to be the least is enough.
	got := testkit.Must(train.Fit(ctx, micro, 16, exec, train.Options{Compile: step.Options{Budget: e.Found}}))(t)
	if got.Bytes > e.Found || got.Micro*got.Accumulate != 16 {
		t.Errorf("%+v within %d", got, e.Found)
	}
	for what, run := range map[string]func() error{
		"no budget": func() error { _, err := train.Fit(ctx, micro, 16, exec, train.Options{}); return err },
		"no batch": func() error {
			_, err := train.Fit(ctx, micro, 0, exec, train.Options{Compile: step.Options{Budget: 1}})
			return err
		},
		"negative budget": func() error {
			_, err := train.Fit(ctx, micro, 1, exec, train.Options{Compile: step.Options{Budget: -1}})
			return err
		},
	} {
		testkit.WantError(t, what, run(), train.ErrArgument)
	}
	gone := errors.New("gone")
	_, err = train.Fit(ctx, func(int) (train.Step, error) { return train.Step{}, gone }, 4, exec, train.Options{Compile: step.Options{Budget: 1 << 20}})
	testkit.WantError(t, "no graph", err, gone, "for 4 samples")
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, err = train.Fit(ended, micro, 4, exec, train.Options{Compile: step.Options{Budget: 1 << 20}})
	testkit.WantError(t, "a context that ended", err, context.Canceled)
}

// A device with less memory than the budget gets a smaller micro-batch, or an error.
func TestFitOutOfMemory(t *testing.T) {
	ctx := context.Background()
	roomy := train.Options{Compile: step.Options{Budget: 1 << 30}}
	got := testkit.Must(train.Fit(ctx, micro, 2400, small(t, "640KiB"), roomy))(t)
	if got.Micro == 2400 || got.Micro*got.Accumulate != 2400 || got.Runs < 2 || got.Bytes > 640<<10 {
		t.Errorf("%d x %d, %d bytes, %d runs", got.Accumulate, got.Micro, got.Bytes, got.Runs)
	}
	t.Logf("%d x %d in %d bytes, after %d runs", got.Accumulate, got.Micro, got.Bytes, got.Runs)
	_, err := train.Fit(ctx, micro, 12, small(t, "16KiB"), roomy)
	testkit.WantError(t, "16 KiB", err, device.ErrOutOfMemory, "which the device has not", "graph")
}

// Whatever fits, what is found is the largest size that can be planned and run.
func TestSearch(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		batch := 1 + rng.IntN(60)
		planned, run := rng.IntN(batch+2), rng.IntN(batch+2)
		whole := rng.IntN(4) == 0 // fits although smaller ones do not
		largest := 0
		for n := 1; n <= min(planned, run); n++ {
			if batch%n == 0 {
				largest = n
			}
		}
		if whole && run >= batch {
			largest = batch
		}
		seen := map[int]bool{}
		got, err := train.Search(t.Context(), batch, func(micro int) error {
			if seen[micro] {
				t.Errorf("%d was planned twice", micro)
			}
			seen[micro] = true
			if micro > planned && (micro < batch || !whole) {
				return fmt.Errorf("too large: %w", plan.ErrBudget)
			}
			return nil
		}, func(micro int) error {
			if micro > run {
				return fmt.Errorf("full: %w", device.ErrOutOfMemory)
			}
			return nil
		})
		what := fmt.Sprintf("a batch of %d, plans to %d, runs to %d", batch, planned, run)
		if largest == 0 {
			if !errors.Is(err, plan.ErrBudget) && !errors.Is(err, device.ErrOutOfMemory) {
				t.Errorf("%s: %v", what, err)
			}
			continue
		}
		if err != nil || got.Micro != largest || got.Micro*got.Accumulate != batch || got.Plans != len(seen) || got.Runs < 1 {
			t.Errorf("%s: %+v, %v; want %d", what, got, err, largest)
		}
	}
	exec := openExecutor(t)
	comm := testkit.Must(local.New(small(t, "1MiB").Device()))(t)[0]
	_, err := train.Fit(t.Context(), micro, 6, exec, train.Options{Compile: step.Options{Budget: 1, Ranks: comm}})
	testkit.WantError(t, "ranks", err, train.ErrArgument, "one size for all")
	bad := errors.New("bad")
	fine := func(int) error { return nil }
	_, err = train.Search(t.Context(), 0, fine, fine)
	testkit.WantError(t, "no batch", err, train.ErrArgument)
	_, err = train.Search(t.Context(), 6, func(int) error { return bad }, fine)
	testkit.WantError(t, "no plan", err, bad)
	_, err = train.Search(t.Context(), 6, fine, func(int) error { return bad })
	testkit.WantError(t, "no run", err, bad)
	ctx, cancel := context.WithCancel(t.Context())
	_, err = train.Search(ctx, 6, func(int) error { cancel(); return nil }, fine)
	testkit.WantError(t, "the end", err, context.Canceled)
}
