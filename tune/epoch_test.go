package tune

import (
	"fmt"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/loader"
	"github.com/pinion-gpu/pinion/sampler"
)

// uneven is a dataset of which only sample 0 is as long as its spec says.
type uneven struct{ *made }

func (u uneven) Length(i int) int {
	if i == 0 {
		return u.spec.Shape[0]
	}
	return 100
}

// stagedSpace has one setting, which is staged where batches are large enough.
func stagedSpace(batch int) Space {
	return Space{Workers: []int{1}, Batch: []int{batch}, Prefetch: []int{1}, Pin: []bool{false}, Copiers: []int{2}, ChunkBytes: []int64{512 << 10}}
}

// An epoch may have fewer samples than the dataset, those of one rank or of a
// sampler, or more: memory is predicted by the batches that there are, and what
// is too small to be staged is tried without copiers.
func TestFeedEpochs(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir()) // no model of the link
	images := &made{n: 100, spec: dataset.Spec{Shape: []int{64 << 10}, DType: dtype.U8}}
	of := func(n int) sampler.Sampler {
		s, err := sampler.NewRandomWithReplacement(100, n, 1)
		ok(t, err)
		return s
	}
	for _, c := range []struct {
		o       loader.Options
		largest int // batch
	}{
		{loader.Options{}, 64},
		{loader.Options{World: 2}, 50},
		{loader.Options{World: 3}, 34},
		{loader.Options{World: 10, Rank: 9}, 10},
		{loader.Options{World: 1000}, 1},
		{loader.Options{Sampler: of(5)}, 5},
		{loader.Options{Sampler: of(61), World: 2}, 31},
		{loader.Options{Sampler: of(1000)}, 64},
	} {
		what := fmt.Sprintf("%+v", c)
		dev := devicetest.OpenDiscrete(t, 64<<20)
		r, err := Feed(t.Context(), dev, images, Options{Budget: 50 * time.Millisecond, Space: stagedSpace(64), Loader: c.o})
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		o := c.o
		o.Batch, o.Prefetch, o.Pin, o.Epochs = 64, 1, loader.PinNever, 1000
		ld, err := loader.New(dev, images, o)
		ok(t, err)
		s := ld.Stats()
		ok(t, ld.Close())
		staged := 64<<10*c.largest > 1<<20
		if s.Shape[0] != c.largest || r.Best.staged() != staged || (r.PinnedBytes > 0) != staged || r.DeviceBytes < s.DeviceBytes || r.DeviceBytes > s.DeviceBytes+128 {
			t.Errorf("%s: %v, %+v; batches of %d at most take %d bytes of the device", what, r.Best, r.Memory, s.Shape[0], s.DeviceBytes)
		}
	}
	dev := devicetest.OpenDiscrete(t, 64<<20)
	o := Options{Budget: 50 * time.Millisecond, Space: stagedSpace(64), Loader: loader.Options{World: 2, DropLast: true}}
	if _, err := Feed(t.Context(), dev, images, o); err == nil || err.Error() != "tune: none of 1 settings: does not fit: 50 samples make no batch of 64" {
		t.Errorf("DropLast: %v", err)
	}
}

// Where samples differ in length most batches may be smaller than those that are
// staged: that no ring was pinned does not say that none can be.
func TestFeedShortBatches(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir()) // no model of the link
	rows := uneven{&made{n: 10000, spec: dataset.Spec{Shape: []int{64 << 10}, DType: dtype.U8, Ragged: true}}}
	order, err := sampler.NewRandomWithReplacement(9999, 10000, 1)
	ok(t, err)
	dev := devicetest.OpenDiscrete(t, 64<<20)
	o := Options{Budget: 50 * time.Millisecond, Space: stagedSpace(32), Loader: loader.Options{Sampler: behindFirst{order}}}
	r, err := Feed(t.Context(), dev, rows, o)
	ok(t, err)
	if !r.Best.staged() {
		t.Errorf("%v", r.Best)
	}
}

// behindFirst never visits sample 0.
type behindFirst struct{ sampler.Sampler }

func (b behindFirst) At(epoch, k int) int { return 1 + b.Sampler.At(epoch, k) }
