package train

import (
	"container/list"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/pinion-gpu/pinion/step/graph"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/step"
)

// BucketOptions say which sizes there are executables for.
type BucketOptions struct {
	// Sizes has for each axis whose length changes the lengths that there are executables
	// for, ascending.
	Sizes [][]int

	// Most is how many executables are kept. Default: 8
	Most int

	// Bytes is the most device memory that executables hold between runs: their blocks and
	// constants, by their plans. One that holds more is kept alone. Default: 0, no limit.
	Bytes int64
}

// Buckets are executables for inputs of different lengths, since each is for one: lengths
// are rounded up to the next that there is one for, and inputs are filled up ([Pad]). What
// the graph computes of what was filled in, it has to leave out itself, by a mask ([Mask]).
// Executables are compiled when they are asked for first, and closed when others take
// their place: those that were used least recently go. It is safe for concurrent use.
type Buckets struct {
	build func(sizes []int) (*step.Executable, error)
	o     BucketOptions

	mu     sync.Mutex
	at     map[string]*list.Element
	used   list.List // of *bucket; most recently used in front
	stats  BucketStats
	closed bool
}

// BucketStats count what became of inputs.
type BucketStats struct {
	Hits, Misses, Evictions int
	Executables             int   // there now
	Bytes                   int64 // that they hold
	Wanted, Computed        int64 // elements of inputs, as they were and with what was filled in
}

// String writes the counts in a line.
func (s BucketStats) String() string {
	padding := 0.0
	if s.Computed > 0 {
		padding = 100 * (1 - float64(s.Wanted)/float64(s.Computed))
	}
	return fmt.Sprintf("%s of %s; %s, %s, %s; %.1f %% padding", units.Count(s.Executables, "executable"), units.Bytes(s.Bytes),
		units.Count(s.Hits, "hit"), units.Count(s.Misses, "miss"), units.Count(s.Evictions, "eviction"), padding)
}

type bucket struct {
	key     string
	x       *step.Executable
	err     error
	bytes   int64
	ready   chan struct{} // closed when x or err is there
	users   int
	evicted bool
}

// NewBuckets makes buckets without executables. build compiles the one for some lengths.
// It fails with [ErrArgument].
func NewBuckets(build func(sizes []int) (*step.Executable, error), o BucketOptions) (*Buckets, error) {
	if o.Most == 0 {
		o.Most = 8
	}
	ok := len(o.Sizes) > 0 && o.Most > 0 && o.Bytes >= 0 && build != nil
	for _, sizes := range o.Sizes {
		ok = ok && len(sizes) > 0 && sizes[0] > 0 && slices.IsSorted(sizes) && len(slices.Compact(slices.Clone(sizes))) == len(sizes)
	}
	if !ok {
		return nil, fmt.Errorf("train: %w: buckets of sizes %v, at most %d with %d bytes: sizes ascend for each axis, and nothing is negative", ErrArgument, o.Sizes, o.Most, o.Bytes)
	}
	return &Buckets{build: build, o: o, at: map[string]*list.Element{}}, nil
}

// Round returns the lengths of the bucket for some lengths. It fails with [ErrArgument] if
// there is none that large.
func (b *Buckets) Round(lengths ...int) ([]int, error) {
	if len(lengths) != len(b.o.Sizes) {
		return nil, fmt.Errorf("train: %w: %d lengths for buckets of %d axes", ErrArgument, len(lengths), len(b.o.Sizes))
	}
	var out []int
	for i, n := range lengths {
		sizes := b.o.Sizes[i]
		k, _ := slices.BinarySearch(sizes, n)
		if n < 0 || k == len(sizes) {
			return nil, fmt.Errorf("train: %w: a length of %d along axis %d; the largest bucket has %d", ErrArgument, n, i, sizes[len(sizes)-1])
		}
		out = append(out, sizes[k])
	}
	return out, nil
}

// Use calls use with the executable for some lengths, and the lengths that it has. The
// executable stays open until use returns.
func (b *Buckets) Use(lengths []int, use func(x *step.Executable, sizes []int) error) (err error) {
	sizes, err := b.Round(lengths...)
	if err != nil {
		return err
	}
	e, isNew, err := b.take(lengths, sizes)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.release(e)) }()
	if isNew {
		if err := b.make(e, sizes); err != nil {
			return err
		}
	}
	<-e.ready
	if e.err != nil {
		return fmt.Errorf("train: the executable for lengths %v: %w", sizes, e.err)
	}
	return use(e.x, sizes)
}

// take finds the entry for some sizes, or makes one that the caller has to build.
func (b *Buckets) take(lengths, sizes []int) (e *bucket, build bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, false, fmt.Errorf("train: buckets: %w", ErrClosed)
	}
	wanted, computed := int64(1), int64(1)
	for i := range sizes {
		wanted *= int64(lengths[i])
		computed *= int64(sizes[i])
	}
	b.stats.Wanted += wanted
	b.stats.Computed += computed
	key := fmt.Sprint(sizes)
	if el, ok := b.at[key]; ok {
		b.stats.Hits++
		b.used.MoveToFront(el)
		e = el.Value.(*bucket)
		e.users++
		return e, false, nil
	}
	b.stats.Misses++
	e = &bucket{key: key, ready: make(chan struct{}), users: 1}
	b.at[key] = b.used.PushFront(e)
	return e, true, nil
}

// make builds an executable, and lets go of others for it.
func (b *Buckets) make(e *bucket, sizes []int) (err error) {
	x, buildErr := (*step.Executable)(nil), errors.New("a panic")
	defer func() { err = closeAll(b.built(e, x, buildErr)) }()
	x, buildErr = b.build(slices.Clone(sizes))
	if buildErr == nil && x == nil {
		buildErr = fmt.Errorf("%w: there is none", ErrArgument)
	}
	return nil
}

// built enters what was built, or takes the entry out. It returns those that have to go.
func (b *Buckets) built(e *bucket, x *step.Executable, err error) (gone []*bucket) {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer close(e.ready)
	if e.err = err; err != nil {
		if !e.evicted {
			b.remove(e)
		}
		return nil
	}
	e.x = x
	p := x.Plan()
	e.bytes = p.Bytes - p.Resident
	for _, n := range x.Graph().Nodes() {
		if n.Op == graph.Constant {
			e.bytes += aligned(n.Shapes[0])
		}
	}
	if e.evicted { // closed meanwhile
		return nil
	}
	b.stats.Executables++
	b.stats.Bytes += e.bytes
	for el := b.used.Back(); el != nil && (b.used.Len() > b.o.Most || b.o.Bytes > 0 && b.stats.Bytes > b.o.Bytes); {
		old, before := el.Value.(*bucket), el.Prev()
		if old != e && old.x != nil {
			b.remove(old)
			b.stats.Evictions++
			if old.users == 0 {
				gone = append(gone, old)
			}
		}
		el = before
	}
	return gone
}

// remove takes an entry out. Its last user closes it.
func (b *Buckets) remove(e *bucket) {
	b.used.Remove(b.at[e.key])
	delete(b.at, e.key)
	e.evicted = true
	if e.x != nil {
		b.stats.Executables--
		b.stats.Bytes -= e.bytes
	}
}

func (b *Buckets) release(e *bucket) error {
	b.mu.Lock()
	e.users--
	last := e.users == 0 && e.evicted
	b.mu.Unlock()
	if last {
		return closeAll([]*bucket{e})
	}
	return nil
}

func closeAll(list []*bucket) (err error) {
	for _, e := range list {
		if e.x != nil {
			err = errors.Join(err, e.x.Close())
		}
	}
	return err
}

// Stats returns the counts since the buckets were made.
func (b *Buckets) Stats() BucketStats {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stats
}

// Close closes all executables, those in use when they are no longer. A second Close does
// nothing.
func (b *Buckets) Close() error {
	b.mu.Lock()
	b.closed = true
	var gone []*bucket
	for el := b.used.Front(); el != nil; {
		e, next := el.Value.(*bucket), el.Next()
		b.remove(e)
		if e.users == 0 {
			gone = append(gone, e)
		}
		el = next
	}
	b.mu.Unlock()
	return closeAll(gone)
}

// Mask is a bool for each element of a bucket, in row-major order: whether it is one of
// the input, and was not filled in.
func Mask(lengths, sizes []int) ([]byte, error) {
	ones := make([]byte, graph.MakeShape(dtype.Bool, lengths...).Size())
	for i := range ones {
		ones[i] = 1
	}
	return Pad(ones, graph.MakeShape(dtype.Bool, lengths...), sizes)
}

// Pad fills up data of a shape with zeros, behind the elements of each axis, to some
// dimensions. It fails with [ErrArgument] if those are smaller.
func Pad(data []byte, s graph.Shape, dims []int) ([]byte, error) {
	if int64(len(data)) != s.Bytes() || len(dims) != s.Rank() {
		return nil, fmt.Errorf("train: %w: %d bytes of %v to fill up to %v", ErrArgument, len(data), s, dims)
	}
	for i, d := range s.Dims {
		if d < 0 || dims[i] < d {
			return nil, fmt.Errorf("train: %w: %v does not fill up to %v", ErrArgument, s, dims)
		}
	}
	out := make([]byte, graph.MakeShape(s.Type, dims...).Bytes())
	var fill func(to, from []byte, axis int)
	fill = func(to, from []byte, axis int) {
		if axis >= s.Rank()-1 || s.Dims[axis] == 0 {
			copy(to, from) // of the last axis, in one piece
			return
		}
		for i := range s.Dims[axis] {
			n, m := len(to)/dims[axis], len(from)/s.Dims[axis]
			fill(to[i*n:(i+1)*n], from[i*m:(i+1)*m], axis+1)
		}
	}
	fill(out, data, 0)
	return out, nil
}
