package shard

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
)

const (
	blockBytes = 512 // of a tar

	// Bounds of an index, so that a hostile shard cannot fill the memory.
	maxNameBytes  = 4096
	maxMembers    = 1 << 24
	maxKeyBytes   = 1 << 30
	maxExtensions = 1 << 16
)

// index says what is where in one shard. It takes 18 bytes per member, 12 per
// sample and the bytes of the keys, and has no pointers.
type index struct {
	size       int64 // of the shard
	skipped    int   // members that are in no sample
	extensions []string
	keys       []byte // of all samples, end to end
	samples    []sample
	members    []member
	extension  []uint16 // of each member
	classes    []byte   // content of the member that names them; nil: there is none, or the set took it
	texts      []string // distinct texts of labels, sorted; labels are indexes to them; nil: labels are numbers, or the set took it
}

// sample is a run of members with one key.
type sample struct {
	keyEnd uint32 // in keys; it begins where the key before it ends
	first  uint32 // member; the run ends where the next one begins
	label  int32  // -1: none; while the index is made, a text is minus its number minus 2
}

// member is the place of one file.
type member struct {
	size  int64
	block uint32 // of the content: its offset divided by 512
	check uint32 // checksum of the header, which is the block before
}

func (m member) offset() int64 { return int64(m.block) * blockBytes }

// key returns the key of sample i.
func (x *index) key(i int) []byte {
	start := uint32(0)
	if i > 0 {
		start = x.samples[i-1].keyEnd
	}
	return x.keys[start:x.samples[i].keyEnd]
}

// run returns the members of sample i: from first to before end.
func (x *index) run(i int) (first, end int) {
	end = len(x.members)
	if i+1 < len(x.samples) {
		end = int(x.samples[i+1].first)
	}
	return int(x.samples[i].first), end
}

// sampleOf returns the sample that a member is in.
func (x *index) sampleOf(m int) int {
	i, _ := slices.BinarySearchFunc(x.samples, uint32(m)+1, func(s sample, m uint32) int { return cmp.Compare(s.first, m) })
	return i - 1
}

// name returns the name of a member.
func (x *index) name(m int) string {
	return string(x.key(x.sampleOf(m))) + "." + x.extensions[x.extension[m]]
}

// find returns the member of sample i with that extension, or -1.
func (x *index) find(i int, extension string) int {
	first, end := x.run(i)
	for m := first; m < end; m++ {
		if strings.EqualFold(x.extensions[x.extension[m]], extension) {
			return m
		}
	}
	return -1
}

// ranks gives each extension its place in a list of wanted ones, len(wanted)
// if it is not there.
func (x *index) ranks(wanted []string) []int {
	list := make([]int, len(x.extensions))
	for i, e := range x.extensions {
		list[i] = len(wanted)
		if r := slices.IndexFunc(wanted, func(w string) bool { return strings.EqualFold(e, w) }); r >= 0 {
			list[i] = r
		}
	}
	return list
}

// indexBuilder makes an index of members in the order of the shard.
type indexBuilder struct {
	index
	numbers map[string]uint16  // of extensions
	newest  []*uint32          // of each extension: samples up to the newest that has it
	folded  map[string]*uint32 // the same, for all that differ in case alone
}

func newIndexBuilder(size int64) indexBuilder {
	return indexBuilder{index: index{size: size}, numbers: map[string]uint16{}, folded: map[string]*uint32{}}
}

// add adds a member, which is in no sample if the name says so. It reports
// whether it is in one.
func (b *indexBuilder) add(name string, m member) (bool, error) {
	key, extension, ok := SplitName(name)
	if !ok {
		b.skipped++
		return false, nil
	}
	number, ok := b.numbers[extension]
	if !ok {
		if len(b.extensions) == maxExtensions {
			return false, fmt.Errorf("%w: more than %d different extensions", ErrTooLarge, maxExtensions)
		}
		number = uint16(len(b.extensions))
		b.numbers[extension] = number
		b.extensions = append(b.extensions, extension)
		lower := strings.ToLower(extension)
		if b.folded[lower] == nil {
			b.folded[lower] = new(uint32)
		}
		b.newest = append(b.newest, b.folded[lower])
	}
	last := len(b.samples) - 1
	switch {
	case len(b.members) == maxMembers || len(b.keys)+len(key) > maxKeyBytes:
		return false, fmt.Errorf("%w: more than %d members or %d bytes of keys in one shard", ErrTooLarge, maxMembers, maxKeyBytes)
	case last < 0 || string(b.key(last)) != key:
		b.keys = append(b.keys, key...)
		b.samples = append(b.samples, sample{uint32(len(b.keys)), uint32(len(b.members)), -1})
	case int(*b.newest[number]) == len(b.samples):
		return false, fmt.Errorf("%w: a second member of that name in the sample", ErrDamaged)
	}
	*b.newest[number] = uint32(len(b.samples))
	b.members = append(b.members, m)
	b.extension = append(b.extension, number)
	return true, nil
}

// finish checks that no key comes again after other ones: its members would
// be two samples, each of which lacks something.
func (b *indexBuilder) finish() (*index, error) {
	x := new(index)
	// The index stays: without the room that it grew in, and what else the
	// builder holds.
	*x = b.index
	x.keys, x.members = slices.Clone(x.keys), slices.Clone(x.members)
	x.samples, x.extension = slices.Clone(x.samples), slices.Clone(x.extension)
	order := make([]uint32, len(x.samples))
	sorted := true
	for i := range order {
		order[i] = uint32(i)
		sorted = sorted && (i == 0 || bytes.Compare(x.key(i-1), x.key(i)) < 0)
	}
	if sorted {
		return x, nil
	}
	slices.SortFunc(order, func(a, b uint32) int { return bytes.Compare(x.key(int(a)), x.key(int(b))) })
	for i := 1; i < len(order); i++ {
		if a, b := int(order[i-1]), int(order[i]); bytes.Equal(x.key(a), x.key(b)) {
			first, _ := x.run(max(a, b))
			return nil, fmt.Errorf("%w: the key %q comes again at byte %d, after other ones; members of a sample must lie together, as tar --sort=name puts them",
				ErrDamaged, x.key(a), x.members[first].offset()-blockBytes)
		}
	}
	return x, nil
}
