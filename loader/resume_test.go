package loader_test

import (
	"io"
	"math"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/loader"
)

// A state that is far behind the end is at the end.
func TestResumeBehindTheEnd(t *testing.T) {
	dev := devicetest.Open(t)
	for _, un := range []bool{false, true} {
		o := loader.Options{Batch: 2, Unordered: un}
		ld, err := loader.New(dev, table(7, dtype.U8, 3), o)
		testkit.OK(t, err)
		s := ld.State()
		testkit.OK(t, ld.Close())
		for _, epoch := range []int{math.MaxInt, math.MaxInt / 4, 1 << 61, 3} {
			s.Epoch, s.Batch = epoch, 3
			o.Resume = &s
			ld, err := loader.NewOn([]device.Device{dev, dev, dev}, table(7, dtype.U8, 3), o)
			if err != nil {
				t.Logf("%d: %v", epoch, err)
				continue
			}
			if b, err := next(t, ld); err != io.EOF {
				t.Errorf("epoch %d: %v, %v", epoch, b, err)
			}
			within(t, "Close", ld.Close)
		}
	}
}

// A late epoch is as near as an early one.
func TestResumeFar(t *testing.T) {
	dev := devicetest.Open(t)
	o := loader.Options{Batch: 2, Unordered: true, Epochs: 1 << 50}
	ld, err := loader.New(dev, table(7, dtype.U8, 3), o)
	testkit.OK(t, err)
	s := ld.State()
	testkit.OK(t, ld.Close())
	s.Epoch = 1 << 40
	o.Resume = &s
	ld, err = loader.New(dev, table(7, dtype.U8, 3), o)
	testkit.OK(t, err)
	b, err := next(t, ld)
	testkit.OK(t, err)
	testkit.OK(t, b.Release())
	within(t, "Close", ld.Close)
}
