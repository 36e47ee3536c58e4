package tests

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/gomlx"
	"github.com/pinion-gpu/pinion/step/plan"
)

// tiny is a model whose batch is to be divided.
var tiny = llama{vocabulary: 60, layers: 1, width: 16, heads: 2, forward: 24, length: 24}

func (l llama) withBatch(n int) llama {
	l.batch = n
	return l
}

// Fit finds the largest micro-batch that trains within the budget, and steps of so many are
// those of the whole batch, to rounding.
func TestFit(t *testing.T) {
	const batch = 12
	ctx := context.Background()
	trainTiny := func(b *gomlx.Backend, micro, accumulate int) error {
		_, err := tiny.withBatch(micro).trainOn(b, accumulate, 1)
		return err
	}
	free, _ := tiny.withBatch(batch).plan(t, "", 0)
	one, _ := tiny.withBatch(1).plan(t, "", 0)
	o := gomlx.Options{Device: testDevice()}
	found := map[int]bool{}
	for _, budget := range []int64{2 * free.Bytes, free.Bytes, one.Bytes + (free.Bytes-one.Bytes)/2, one.Bytes + (free.Bytes-one.Bytes)/4} {
		o.Budget = budget
		got, err := gomlx.Fit(ctx, o, batch, trainTiny)
		if err != nil {
			t.Fatalf("%d bytes: %+v", budget, err)
		}
		if got.Micro*got.Accumulate != batch || got.Bytes > budget || got.Bytes == 0 || got.Runs != 1 {
			t.Errorf("within %d bytes: %+v", budget, got)
		}
		t.Logf("within %d bytes: %+v", budget, got)
		found[got.Micro] = true
		whole, err := tiny.withBatch(batch).trained(o.Device, 0, 1)
		if err != nil {
			t.Fatal(err)
		}
		parts, err := tiny.withBatch(got.Micro).trained(o.Device, budget, got.Accumulate)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range whole {
			sum := 0.0
			for _, loss := range parts[i*got.Accumulate:][:got.Accumulate] {
				sum += loss / float64(got.Accumulate)
			}
			if math.Abs(sum-want) > 1e-3*want {
				t.Errorf("within %d bytes, step %d has a loss of %g, and %g in one batch", budget, i, sum, want)
			}
		}
		// The next larger one does not fit.
		for n := got.Micro + 1; n <= batch; n++ {
			if batch%n != 0 {
				continue
			}
			if _, err := tiny.withBatch(n).trained(o.Device, budget, batch/n); !errors.Is(err, plan.ErrBudget) {
				t.Errorf("%d are found to fit %d bytes, and so do %d: %v", got.Micro, budget, n, err)
			}
			break
		}
	}
	// On a GPU, the workspace of products may be most of what any size takes.
	if !found[batch] || len(found) < 2 && testDevice() == "host" {
		t.Errorf("the sizes are %v", found)
	}

	o.Budget = 4 << 10
	var impossible *plan.ImpossibleError
	if _, err := gomlx.Fit(ctx, o, batch, trainTiny); !errors.As(err, &impossible) {
		t.Errorf("4 KiB: %v", err)
	}
	o.Budget = 0
	if _, err := gomlx.Fit(ctx, o, batch, trainTiny); !errors.Is(err, gomlx.ErrArgument) {
		t.Errorf("no budget: %v", err)
	}
	// A device with less memory than the budget has a smaller one, or none.
	o = gomlx.Options{Device: "host:8MiB", Budget: 1 << 30}
	got, err := gomlx.Fit(ctx, o, 256, trainTiny)
	if err != nil || got.Micro == 256 || got.Runs < 2 {
		t.Errorf("on 8 MiB: %+v, %v", got, err)
	}
	o.Device = "host:1MiB"
	if _, err := gomlx.Fit(ctx, o, 8, trainTiny); !errors.Is(err, device.ErrOutOfMemory) {
		t.Errorf("on 1 MiB: %v", err)
	}
}

// trained returns the losses of two steps on a backend of its own.
func (l llama) trained(device string, budget int64, accumulate int) ([]float64, error) {
	b, err := gomlx.Open(gomlx.Options{Device: device, Budget: budget})
	if err != nil {
		return nil, err
	}
	defer b.Finalize()
	return l.trainOn(b, accumulate, 2)
}
