package train_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/pinion-gpu/pinion/step/graph"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/train"
)

// maskedSum compiles a graph that adds up exponentials of what was not filled in.
func maskedSum(exec step.Executor, mem *step.Memory) func([]int) (*step.Executable, error) {
	return func(sizes []int) (*step.Executable, error) {
		g := graph.New(fmt.Sprint("sum of ", sizes))
		x, err := g.Parameter("x", f32(sizes...))
		if err != nil {
			return nil, err
		}
		mask, err := g.Parameter("mask", graph.MakeShape(dtype.Bool, sizes...))
		if err != nil {
			return nil, err
		}
		e, err := g.Unary(graph.Exp, x)
		if err != nil {
			return nil, err
		}
		zero, err := g.Fill(0, f32())
		if err != nil {
			return nil, err
		}
		kept, err := g.Where(mask, e, zero)
		if err != nil {
			return nil, err
		}
		square, err := g.DotGeneral(kept, kept, graph.DotAxes{Contracted: [2][]int{{0}, {0}}})
		if err != nil {
			return nil, err
		}
		sum, err := g.Reduce(graph.ReduceSum, square)
		if err != nil {
			return nil, err
		}
		if err := g.SetOutputs(sum); err != nil {
			return nil, err
		}
		return step.Compile(g, exec, step.Options{Memory: mem})
	}
}

// Inputs of any length have the results that they have without buckets; least recently
// used executables go, with their memory.
func TestBuckets(t *testing.T) {
	exec := openExecutor(t)
	c := &counter{Device: exec.Device(), sizes: map[device.Ptr]int64{}}
	mem := testkit.Must(step.OpenMemory(exec.Device(), c))(t)
	defer mem.Close()
	build := maskedSum(exec, mem)
	sizes := [][]int{{2, 4, 8}, {3, 6}}
	b := testkit.Must(train.NewBuckets(build, train.BucketOptions{Sizes: sizes, Most: 3}))(t)
	rng := rand.New(rand.NewPCG(5, 6))
	sum := func(x *step.Executable, data []byte, lengths, sizes []int) float32 {
		filled := testkit.Must(train.Pad(data, f32(lengths...), sizes))(t)
		mask := testkit.Must(train.Mask(lengths, sizes))(t)
		in := []*step.Tensor{testkit.Must(mem.Put(filled, f32(sizes...)))(t), testkit.Must(mem.Put(mask, graph.MakeShape(dtype.Bool, sizes...)))(t)}
		out := testkit.Must(x.Run(context.Background(), in, []bool{true, true}))(t)
		got := make([]byte, 4)
		testkit.OK(t, out[0].Read(got))
		testkit.OK(t, out[0].Free())
		return numbers(got)[0]
	}
	// A model of the cache.
	var kept []string
	var want train.BucketStats
	rounds := 60
	if onDevice {
		rounds = 15
	}
	for range rounds {
		lengths := []int{1 + rng.IntN(8), 1 + rng.IntN(6)}
		data := make([]float32, lengths[0]*lengths[1])
		for i := range data {
			data[i] = rng.Float32()
		}
		rounded := testkit.Must(b.Round(lengths...))(t)
		key := fmt.Sprint(rounded)
		if i := slices.Index(kept, key); i >= 0 {
			want.Hits++
			kept = slices.Delete(kept, i, i+1)
		} else {
			want.Misses++
			if len(kept) == 3 {
				want.Evictions++
				kept = kept[1:]
			}
		}
		kept = append(kept, key)
		want.Wanted += int64(lengths[0] * lengths[1])
		want.Computed += int64(rounded[0] * rounded[1])
		testkit.OK(t, b.Use(lengths, func(x *step.Executable, sizes []int) error {
			if !slices.Equal(sizes, rounded) {
				t.Errorf("%v: sizes %v, want %v", lengths, sizes, rounded)
			}
			got := sum(x, floats(data...), lengths, sizes)
			plain := testkit.Must(build(lengths))(t)
			defer plain.Close()
			if exact := sum(plain, floats(data...), lengths, lengths); got < exact*0.9999 || got > exact*1.0001 {
				t.Errorf("%v in %v: %v, want %v", lengths, sizes, got, exact)
			}
			return nil
		}))
		got := b.Stats()
		want.Executables, want.Bytes = len(kept), got.Bytes
		if got != want || got.Bytes != c.now {
			t.Fatalf("%+v, want %+v; %d bytes are allocated", got, want, c.now)
		}
	}
	if want.Evictions == 0 || want.Hits == 0 {
		t.Errorf("%+v", want)
	}
	testkit.OK(t, b.Close())
	testkit.OK(t, b.Close())
	if got := b.Stats(); c.now != 0 || got.Executables != 0 || got.Bytes != 0 {
		t.Errorf("%d bytes are left, %+v", c.now, got)
	}
	testkit.WantError(t, "closed", b.Use([]int{1, 1}, nil), train.ErrClosed)
}

// Bytes bounds what executables hold; one that is in use is closed by its user.
func TestBucketsHold(t *testing.T) {
	exec := openExecutor(t)
	c := &counter{Device: exec.Device(), sizes: map[device.Ptr]int64{}}
	mem := testkit.Must(step.OpenMemory(exec.Device(), c))(t)
	defer mem.Close()
	b := testkit.Must(train.NewBuckets(maskedSum(exec, mem), train.BucketOptions{Sizes: [][]int{{8, 16, 32}, {8}}, Bytes: 1}))(t)
	testkit.OK(t, b.Use([]int{8, 8}, func(x *step.Executable, _ []int) error {
		first := c.now
		testkit.OK(t, b.Use([]int{16, 8}, func(*step.Executable, []int) error { return nil }))
		if s := b.Stats(); s.Executables != 1 || s.Evictions != 1 {
			t.Errorf("%+v", s)
		}
		if c.now <= first {
			t.Error("an executable was closed while it was in use")
		}
		return nil
	}))
	if s := b.Stats(); c.now != s.Bytes {
		t.Errorf("%d bytes are allocated, %+v", c.now, s)
	}
	if got, want := b.Stats().String(), "1 executable of "; !bytes.HasPrefix([]byte(got), []byte(want)) {
		t.Errorf("%q, want %q", got, want)
	}
	testkit.OK(t, b.Close())
}

// Several ask at once, and some builds fail.
func TestBucketsAtOnce(t *testing.T) {
	exec := openExecutor(t)
	mem := testkit.Must(step.OpenMemory(exec.Device(), nil))(t)
	defer mem.Close()
	build := maskedSum(exec, mem)
	broken := errors.New("broken")
	b := testkit.Must(train.NewBuckets(func(sizes []int) (*step.Executable, error) {
		switch sizes[0] {
		case 3:
			return nil, broken
		case 4:
			return nil, nil
		case 5:
			panic("a bug")
		}
		return build(sizes)
	}, train.BucketOptions{Sizes: [][]int{{1, 2, 3, 4, 5}}, Most: 1}))(t)
	ask := func(n int) (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("%v", p)
			}
		}()
		return b.Use([]int{n}, func(x *step.Executable, sizes []int) error {
			if got := x.Graph().Name(); got != fmt.Sprint("sum of ", sizes) {
				t.Errorf("%v: %s", sizes, got)
			}
			return nil
		})
	}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 1))
			for range 30 {
				n := 1 + rng.IntN(5)
				if err := ask(n); (err != nil) != (n > 2) {
					t.Errorf("a length of %d: %v", n, err)
				}
			}
		})
	}
	all.Wait()
	testkit.WantError(t, "a build that fails", ask(3), broken, "lengths [3]")
	testkit.WantError(t, "no executable", ask(4), train.ErrArgument)
	testkit.OK(t, ask(1))
	testkit.OK(t, b.Close())
}

func TestBucketsRefuse(t *testing.T) {
	build := func([]int) (*step.Executable, error) { return nil, nil }
	for what, o := range map[string]train.BucketOptions{
		"no sizes":        {},
		"an empty axis":   {Sizes: [][]int{{1}, {}}},
		"descending":      {Sizes: [][]int{{2, 1}}},
		"twice":           {Sizes: [][]int{{2, 2}}},
		"no length":       {Sizes: [][]int{{0, 2}}},
		"none are kept":   {Sizes: [][]int{{2}}, Most: -1},
		"a negative byte": {Sizes: [][]int{{2}}, Bytes: -1},
	} {
		_, err := train.NewBuckets(build, o)
		testkit.WantError(t, what, err, train.ErrArgument)
	}
	b := testkit.Must(train.NewBuckets(build, train.BucketOptions{Sizes: [][]int{{2, 4}}}))(t)
	for what, lengths := range map[string][]int{"too long": {5}, "negative": {-1}, "two axes": {1, 1}, "none": {}} {
		testkit.WantError(t, what, b.Use(lengths, nil), train.ErrArgument)
	}
	_, err := train.Pad(make([]byte, 8), f32(2), []int{1})
	testkit.WantError(t, "smaller", err, train.ErrArgument)
	_, err = train.Pad(make([]byte, 7), f32(2), []int{3})
	testkit.WantError(t, "too few bytes", err, train.ErrArgument)
	_, err = train.Mask([]int{2}, []int{3, 4})
	testkit.WantError(t, "another rank", err, train.ErrArgument)
	got := testkit.Must(train.Pad([]byte{1, 2, 3, 4, 5, 6}, graph.MakeShape(dtype.U8, 1, 2, 3), []int{2, 2, 4}))(t)
	if want := []byte{1, 2, 3, 0, 4, 5, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0}; !bytes.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := testkit.Must(train.Mask([]int{0}, []int{2}))(t); !bytes.Equal(got, []byte{0, 0}) {
		t.Errorf("%v", got)
	}
}

func TestBucketStatsString(t *testing.T) {
	s := train.BucketStats{Hits: 1, Misses: 2, Evictions: 1, Executables: 1, Bytes: 1024, Wanted: 3, Computed: 4}
	if got, want := s.String(), "1 executable of 1 KiB; 1 hit, 2 misses, 1 eviction; 25.0 % padding"; got != want {
		t.Errorf("%q, not %q", got, want)
	}
}
