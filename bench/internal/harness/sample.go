package harness

import (
	"context"
	"errors"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/measure"
)

// Measurable is a sample that makes a row of type R of itself, once it has Runs.
// A [measure.Sample] makes a [measure.Row]; a program whose rows say more embeds
// one.
type Measurable[R any] interface {
	Result() R
	Base() *measure.Sample
}

// settle is how long a driver is given to clear the device memory that the
// sample before freed: 768 MiB held up the first copy of the next by 0.4 ms.
const settle = 20 * time.Millisecond

// Add measures samples in turn and adds their rows to d, and what was skipped.
func Add[R any, S Measurable[R]](ctx context.Context, d *Document[R], samples []S) error {
	var list []*measure.Sample
	for _, s := range samples {
		list = append(list, s.Base())
	}
	skipped, err := measure.Plan{Repeats: d.Repeats, Settle: settle, Impossible: Impossible}.Run(ctx, list)
	for _, s := range skipped {
		d.NotAvailable = append(d.NotAvailable, NotAvailable{s.Name, s.By, s.Err.Error()})
	}
	if err != nil {
		return err
	}
	for _, s := range samples {
		if s.Base().Runs != nil {
			d.Rows = append(d.Rows, s.Result())
		}
	}
	return nil
}

// Impossible reports whether err says that the device or the machine cannot do
// something.
func Impossible(err error) bool {
	for _, lack := range []error{device.ErrNotSupported, device.ErrPinLimit, device.ErrOutOfMemory, errors.ErrUnsupported} {
		if errors.Is(err, lack) {
			return true
		}
	}
	return false
}
