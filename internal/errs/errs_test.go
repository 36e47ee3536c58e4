package errs_test

import (
	"errors"
	"testing"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/shard"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/imaging"
	"github.com/pinion-gpu/pinion/imaging/nvjpeg"
	"github.com/pinion-gpu/pinion/internal/errs"
	"github.com/pinion-gpu/pinion/sampler"
	"github.com/pinion-gpu/pinion/vram"
	"github.com/pinion-gpu/pinion/vram/trace"
)

// TestOneValue: an error is the same value in every package that exports it.
func TestOneValue(t *testing.T) {
	for want, list := range map[error][]error{
		errs.ErrArgument: {device.ErrArgument, imaging.ErrArgument, dataset.ErrArgument, shard.ErrArgument, sampler.ErrArgument, trace.ErrArgument},
		errs.ErrClosed:   {device.ErrClosed, imaging.ErrClosed, nvjpeg.ErrClosed, vram.ErrClosed},
		errs.ErrFormat:   {imaging.ErrFormat, dataset.ErrFormat, shard.ErrFormat},
		errs.ErrTooLarge: {imaging.ErrTooLarge, dataset.ErrTooLarge, shard.ErrTooLarge, trace.ErrTooLarge},
		errs.ErrDamaged:  {imaging.ErrDamaged, dataset.ErrDamaged, shard.ErrDamaged},
	} {
		for i, err := range list {
			if !errors.Is(err, want) {
				t.Errorf("%q: number %d is another value", want, i)
			}
		}
	}
}
