package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/float16"
	"github.com/pinion-gpu/pinion/loader"
)

// tolerance is how many steps of a byte an image's pixels may differ from those
// of the dataset.
type tolerance struct{ mean, most float64 }

// exact is for pixels that were bytes until they became d.
func exact(d dtype.DType) tolerance {
	if d == dtype.F16 {
		return tolerance{0.1, 0.3} // the spacing of values near 2.6 is 0.11 steps
	}
	return tolerance{0.001, 0.01}
}

// ImageNet's, the loader's default.
var (
	mean = [3]float64{0.485, 0.456, 0.406}
	std  = [3]float64{0.229, 0.224, 0.225}
)

// checkImages compares the first batch of images on each device, samples of
// HxWx3 bytes, with the dataset.
func (f *feed) checkImages(ctx context.Context, t tolerance) error {
	r, err := f.ds.NewReader()
	if err != nil {
		return err
	}
	want := make([]byte, f.ds.Spec().Bytes())
	err = f.with(1, func(l *loader.Loader) error {
		for _, dev := range f.devices() {
			b, err := l.Next(ctx)
			if err != nil {
				return err
			}
			if b.Device != dev {
				return fmt.Errorf("the first batch of %s is on %s", dev.Info().ID, b.Device.Info().ID)
			}
			got, err := content(b)
			if err != nil {
				return err
			}
			size := len(got) / b.Shape[0]
			for k, i := range b.Indexes {
				if err := r.Read(ctx, dataset.Visit{Index: i}, want); err != nil {
					return err
				}
				if err := sameImage(got[k*size:][:size], want, b.DType, t); err != nil {
					return fmt.Errorf("%s: %w", f.ds.Name(i), err)
				}
			}
			if err := b.Release(); err != nil {
				return err
			}
		}
		return nil
	})
	return errors.Join(err, r.Close())
}

// content copies a batch back to the host.
func content(b *loader.Batch) ([]byte, error) {
	got := make([]byte, b.Bytes)
	return got, b.Read(context.Background(), got)
}

// sameImage compares an image on the device, CHW, normalised unless it is
// bytes, with its bytes in HWC order.
func sameImage(got, want []byte, d dtype.DType, t tolerance) error {
	pixels := len(want) / 3
	if len(got) != len(want)*d.Size() {
		return fmt.Errorf("an image of %d bytes of %v, want %d values", len(got), d, len(want))
	}
	sum, most := 0.0, 0.0
	for i, w := range want {
		pixel, channel := i/3, i%3
		v := value(got[(channel*pixels+pixel)*d.Size():], d)
		if d != dtype.U8 {
			v = 255 * (v*std[channel] + mean[channel])
		}
		off := math.Abs(v - float64(w))
		sum += off
		if !(off <= most) { // also for what is no number
			most = off
		}
	}
	if average := sum / float64(len(want)); !(average <= t.mean && most <= t.most) {
		return fmt.Errorf("pixels are off by %.3g steps of a byte in the mean and by %.3g at most, want %g and %g", average, most, t.mean, t.most)
	}
	return nil
}

func value(b []byte, d dtype.DType) float64 {
	switch d {
	case dtype.F32:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
	case dtype.F16:
		return float64(float16.FromF16(binary.LittleEndian.Uint16(b)))
	}
	return float64(b[0])
}

// checkRows compares an epoch of untransformed samples with data, in which they
// lie back to back. Each must come exactly once.
func (f *feed) checkRows(ctx context.Context, data []byte) error {
	size := f.ds.Spec().Bytes()
	seen := make([]bool, f.ds.Len())
	return f.with(1, func(l *loader.Loader) error {
		n, err := epoch(ctx, l, func(b *loader.Batch) error {
			got, err := content(b)
			if err != nil {
				return err
			}
			for k, i := range b.Indexes {
				if seen[i] {
					return fmt.Errorf("sample %d comes twice", i)
				}
				seen[i] = true
				if !bytes.Equal(got[k*size:][:size], data[i*size:][:size]) {
					return fmt.Errorf("sample %d arrived as another", i)
				}
			}
			return nil
		})
		if err == nil && n != len(seen) {
			err = fmt.Errorf("%d samples of %d", n, len(seen))
		}
		return err
	})
}
