package shard

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// View is one member of every sample of a set that has such a member: the
// picture, say. A shard that cannot be read is one sample of it. It uses the set and has
// nothing to close.
type View struct {
	set     *Set
	members [][]uint32 // of each shard
	starts  []int      // number of the first sample of each shard, and of all at the end
}

// View picks from every sample the member with the first of the extensions
// that it has. Case does not matter. Samples that have none are left out:
// there are [Set.Len] minus [View.Len] of them. It fails with [ErrEmpty] when
// no sample has one; the error shows what there is.
func (s *Set) View(extensions ...string) (*View, error) {
	v := &View{set: s, members: make([][]uint32, len(s.shards)), starts: []int{0}}
	faults := 0
	for n, d := range s.shards {
		x := d.index
		ranks := x.ranks(extensions)
		for i := range x.samples {
			best, found := len(extensions), 0
			first, end := x.run(i)
			for m := first; m < end; m++ {
				if r := ranks[x.extension[m]]; r < best {
					best, found = r, m
				}
			}
			if best < len(extensions) {
				v.members[n] = append(v.members[n], uint32(found))
			}
		}
		if v.members[n] = slices.Clone(v.members[n]); d.fault != nil {
			v.members[n] = []uint32{0} // its sample, which is left out by no extension
			faults++
		}
		v.starts = append(v.starts, v.starts[n]+len(v.members[n]))
	}
	if v.Len() == faults {
		first := s.starts[slices.IndexFunc(s.shards, func(d shard) bool { return d.fault == nil && len(d.index.samples) > 0 })]
		return nil, fmt.Errorf("%s: %w: none of %d samples has a member with extension %s; the first has %s",
			s.Name(first), ErrEmpty, s.Len()-faults, strings.Join(extensions, ", "), s.someExtensions(first))
	}
	return v, nil
}

// Len returns the number of samples, at least 1.
func (v *View) Len() int { return v.starts[len(v.members)] }

// Shards returns the number of samples of each shard: the sizes for
// sampler.NewBlocks, which visits samples of a few shards at a time.
func (v *View) Shards() []int {
	var list []int
	for _, m := range v.members {
		list = append(list, len(m))
	}
	return list
}

// at returns the shard and the member of sample i.
func (v *View) at(i int) (*shard, int) {
	n, _ := slices.BinarySearch(v.starts, i+1)
	return &v.set.shards[n-1], int(v.members[n-1][i-v.starts[n-1]])
}

// Name names the member of sample i: "train-000.tar/n01/0017.jpg".
func (v *View) Name(i int) string {
	d, m := v.at(i)
	return d.memberName(m)
}

// Label returns the label of sample i, or -1 where there is none.
func (v *View) Label(i int) int32 {
	d, m := v.at(i)
	return d.index.samples[d.index.sampleOf(m)].label
}

// Size returns the bytes of the member of sample i, -1 for a shard that cannot be
// read. It reads no file.
func (v *View) Size(i int) int64 {
	d, m := v.at(i)
	if d.fault != nil {
		return -1
	}
	return d.index.members[m].size
}

// Read returns the content of the member of sample i, as [Set.Read] does.
func (v *View) Read(ctx context.Context, i int, buf []byte) ([]byte, error) {
	if i < 0 || i >= v.Len() {
		return nil, fmt.Errorf("%w: sample %d of %d", ErrArgument, i, v.Len())
	}
	d, m := v.at(i)
	return v.set.read(ctx, d, m, buf)
}
