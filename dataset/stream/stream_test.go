package stream_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/stream"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/sampler"
)

// counted is a stream of n records whose labels count them.
func counted(n int) *stream.Stream {
	return stream.New("counted", func(_ context.Context, _ int, yield func(*stream.Record) error) error {
		for i := range n {
			if err := yield(&stream.Record{Key: fmt.Sprint(i), Name: fmt.Sprintf("counted[%d]", i), Label: int32(i)}); err != nil {
				return err
			}
		}
		return nil
	})
}

// labels are those of the records from a position on.
func labels(t testing.TB, s *stream.Stream, from stream.Position) (list []int32) {
	t.Helper()
	for r, err := range s.Records(t.Context(), from) {
		testkit.OK(t, err)
		list = append(list, r.Label)
	}
	return list
}

// model is what a chain of streams has to give: a list for each epoch.
type model func(epoch int) []int32

// TestStreamsAreTheirModel makes random chains of streams, and compares what
// they give, from the beginning and from random positions, with lists.
func TestStreamsAreTheirModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		n := rng.IntN(60)
		s := counted(n)
		var want model = func(int) (list []int32) {
			for i := range n {
				list = append(list, int32(i))
			}
			return list
		}
		text := fmt.Sprint(n, " records")
		for range rng.IntN(5) {
			source := want
			switch rng.IntN(5) {
			case 0:
				m := int32(1 + rng.IntN(4))
				text += fmt.Sprintf(", filter %d", m)
				s = s.Filter(func(r *stream.Record) (bool, error) { return r.Label%m == 0, nil })
				want = func(e int) []int32 {
					return slices.DeleteFunc(source(e), func(v int32) bool { return v%m != 0 })
				}
			case 1:
				text += ", map"
				s = s.Map(func(r *stream.Record) error { r.Label += 3; return nil })
				want = func(e int) []int32 {
					list := source(e)
					for i := range list {
						list[i] += 3
					}
					return list
				}
			case 2:
				m := rng.IntN(50)
				text += fmt.Sprintf(", take %d", m)
				s = s.Take(int64(m))
				want = func(e int) []int32 { list := source(e); return list[:min(m, len(list))] }
			case 3:
				world := 1 + rng.IntN(4)
				rank := rng.IntN(world)
				text += fmt.Sprintf(", shard %d of %d", rank, world)
				s = s.Shard(rank, world)
				want = func(e int) (list []int32) {
					for i, v := range source(e) {
						if i%world == rank {
							list = append(list, v)
						}
					}
					return list
				}
			case 4:
				size, seed := 1+rng.IntN(20), rng.Uint64()
				text += fmt.Sprintf(", shuffle %d", size)
				s = s.Shuffle(size, seed)
				want = func(e int) (list []int32) {
					b := testkit.Must(sampler.NewShuffleBuffer[int32](size, seed, e))(t)
					for _, v := range source(e) {
						if out, ok := b.Push(v); ok {
							list = append(list, out)
						}
					}
					for out, ok := b.Pop(); ok; out, ok = b.Pop() {
						list = append(list, out)
					}
					return list
				}
			}
		}
		for range 4 {
			epoch := rng.IntN(3)
			all := want(epoch)
			from := rng.IntN(len(all) + 3)
			got := labels(t, s, stream.Position{Epoch: epoch, Records: int64(from)})
			if !slices.Equal(got, all[min(from, len(all)):]) {
				t.Fatalf("%s: epoch %d from %d: %v, want %v", text, epoch, from, got, all[min(from, len(all)):])
			}
		}
	}
}

func TestStreamErrors(t *testing.T) {
	broken := errors.New("broken")
	fail := func(s *stream.Stream, from stream.Position) (err error) {
		for _, e := range s.Records(t.Context(), from) {
			err = e
		}
		return err
	}
	begin := stream.Position{}
	for name, c := range map[string]struct {
		err  error
		want error
		says string
	}{
		"filter":   {fail(counted(5).Filter(func(*stream.Record) (bool, error) { return false, broken }), begin), broken, "counted[0]: "},
		"map":      {fail(counted(5).Map(func(*stream.Record) error { return broken }), begin), broken, "counted[0]: "},
		"shuffle":  {fail(counted(5).Shuffle(0, 1), begin), dataset.ErrArgument, "shuffle"},
		"rank":     {fail(counted(5).Shard(3, 3), begin), dataset.ErrArgument, "rank 3 of 3"},
		"position": {fail(counted(5), stream.Position{Records: -1}), dataset.ErrArgument, "position"},
	} {
		testkit.WantError(t, name, c.err, c.want, c.says)
	}
}

// TestBreak: who has enough stops the source.
func TestBreak(t *testing.T) {
	made := 0
	s := counted(1000).Map(func(*stream.Record) error { made++; return nil }).Shuffle(5, 1)
	for _, err := range s.Records(t.Context(), stream.Position{}) {
		testkit.OK(t, err)
		break
	}
	if made != 6 {
		t.Errorf("%d records were made for one of a shuffle of 5", made)
	}
}

func TestContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	cause := errors.New("no longer wanted")
	n := 0
	for _, err := range counted(1000).Records(ctx, stream.Position{}) {
		if n++; n == 3 {
			cancel(cause)
		}
		if n == 4 {
			testkit.WantError(t, "cancelled", err, cause)
		}
	}
	if n != 4 {
		t.Errorf("%d records, want 3 and an error", n)
	}
}
