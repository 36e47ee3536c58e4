package tune

import "github.com/pinion-gpu/pinion/sampler"

// onward is an order that begins behind what trials have visited.
type onward struct {
	sampler.Sampler
	from int
}

// At implements [sampler.Sampler].
func (o onward) At(epoch, k int) int {
	n := o.Len()
	if k < 0 || k >= n {
		return -1
	}
	return o.Sampler.At(epoch, (o.from+k)%n)
}

// onward is the order of the next trial, where nothing shuffles it.
func (f *feed) onward() (sampler.Sampler, error) {
	whole := f.o.Loader.Sampler
	if whole == nil {
		var err error
		if whole, err = sampler.NewSequential(f.ds.Len()); err != nil {
			return nil, err
		}
	}
	n := max(whole.Len(), 1)
	return onward{whole, f.visited % n * max(f.o.Loader.World, 1) % n}, nil
}
