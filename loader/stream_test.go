package loader_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/loader"
)

// endless is a dataset of which nobody knows that it has n samples; their labels
// are known once they were read.
type endless struct {
	*fake
	mu   sync.Mutex
	read map[int]bool
}

func stream0(n int) *endless {
	return &endless{fake: images(n, 4, 4, 3), read: map[int]bool{}}
}

func (e *endless) Len() int { return dataset.UnknownLen }

func (e *endless) Label(i int) int32 {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.read[i] {
		return -1
	}
	return e.fake.Label(i)
}

func (e *endless) NewReader() (dataset.Reader, error) {
	r, err := e.fake.NewReader()
	return endlessReader{r, e}, err
}

type endlessReader struct {
	dataset.Reader
	e *endless
}

func (r endlessReader) Read(ctx context.Context, v dataset.Visit, dst []byte) error {
	if v.Index >= r.e.n {
		return fmt.Errorf("sample %d: %w", v.Index, dataset.ErrEnd)
	}
	r.e.mu.Lock()
	r.e.read[v.Index] = true
	r.e.mu.Unlock()
	return r.Reader.Read(ctx, v, dst)
}

// A stream's batches are those of its samples, the last one may be smaller, and
// then it is over; a state goes on in its middle.
func TestStream(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	for _, n := range []int{0, 1, 3, 4, 5, 8, 23, 400} {
		for _, devices := range [][]device.Device{{dev}, {dev, dev}} {
			for _, drop := range []bool{false, true} {
				o := loader.Options{Batch: 4, DropLast: drop, Workers: 3}
				want := newReference(t, images(max(n, 1), 4, 4, 3)).batches(o, [][]int{upTo(n)})
				if n == 0 {
					want = nil
				}
				ld, err := loader.NewOn(devices, stream0(n), o)
				testkit.OK(t, err)
				list, err := drain(t, dev, ld)
				testkit.OK(t, err)
				what := fmt.Sprintf("%d samples on %d devices, DropLast %t", n, len(devices), drop)
				compare(t, what, list, want)
				if done, total := ld.Progress(); done != len(want) || total != len(want) {
					t.Errorf("%s: %d of %d batches", what, done, total)
				}
				end := ld.State()
				within(t, "Close", ld.Close)

				for at := range want {
					ld, err := loader.NewOn(devices, stream0(n), o)
					testkit.OK(t, err)
					take(t, ld, at)
					state := ld.State()
					within(t, "Close", ld.Close)
					resumed := o
					resumed.Resume = &state
					list, err := run(t, dev, stream0(n), resumed)
					testkit.OK(t, err)
					compare(t, what+", resumed", list, want[at:])
					if n == 400 {
						break
					}
				}
				o.Resume = &end
				if list, err := run(t, dev, stream0(n), o); err != nil || len(list) > 0 {
					t.Errorf("%s: %d batches behind the end, %v", what, len(list), err)
				}
			}
		}
	}
}

func upTo(n int) (list []int) {
	for i := range n {
		list = append(list, i)
	}
	return list
}

// Samples of a stream that cannot be read are left out, all of them are told, and
// what is not for streams is refused.
func TestStreamErrors(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	s := stream0(10)
	s.fail = map[int]bool{3: true, 9: true}
	list, err := run(t, dev, s, loader.Options{Batch: 4, OnError: loader.Skip})
	testkit.OK(t, err)
	if len(list) != 3 || len(list[2].indexes) != 1 || len(list[0].indexes) != 3 {
		t.Errorf("%d batches", len(list))
	}
	_, err = run(t, dev, s, loader.Options{Batch: 4})
	testkit.WantError(t, "a sample of a stream", err, errSample)
	_, err = run(t, dev, s, loader.Options{Batch: 4, Decide: func(*loader.SampleError) loader.ErrorPolicy { return loader.Replace }})
	testkit.WantError(t, "Replace in a stream", err, errSample)
	for i := range 10 {
		s.fail[i] = true
	}
	_, err = run(t, dev, s, loader.Options{Batch: 4, OnError: loader.Skip})
	says(t, err, loader.ErrNoSamples, "all 10 of epoch 0")

	for _, o := range []loader.Options{
		{Shuffle: true}, {Batches: noBatches{}}, {World: 2}, {Epochs: 2}, {Unordered: true}, {OnError: loader.Replace},
		{Targets: []dataset.Dataset{table(10, dtype.U8, 3)}},
	} {
		refuses(t, dev, stream0(10), o, device.ErrArgument, "stream of unknown length")
	}
	ld := start(t, dev, stream0(10), loader.Options{Batch: 4})
	for b, err := range ld.All(t.Context()) {
		testkit.OK(t, err)
		testkit.OK(t, b.Release())
		break
	}
	for _, err := range ld.All(t.Context()) {
		says(t, err, device.ErrArgument, "Rest")
	}
	n := 0
	for b, err := range ld.Rest(t.Context()) {
		testkit.OK(t, err)
		testkit.OK(t, b.Release())
		n++
	}
	if _, err := next(t, ld); n != 2 || err != io.EOF {
		t.Errorf("%d batches are left, %v", n, err)
	}
}

// middle either.
func TestStreamIsNotBegunAgain(t *testing.T) {
	ld := start(t, devicetest.Open(t), stream0(20), loader.Options{Batch: 2})
	for b, err := range ld.All(t.Context()) {
		testkit.OK(t, err)
		testkit.OK(t, b.Release())
		break
	}
	for range 3 {
		for b, err := range ld.Epoch(t.Context()) {
			if !errors.Is(err, device.ErrArgument) {
				t.Fatalf("%v, %v; want an error", b, err)
			}
		}
	}
	n := 1
	for b, err := range ld.Rest(t.Context()) {
		testkit.OK(t, err)
		testkit.OK(t, b.Release())
		n++
	}
	if n != 10 {
		t.Errorf("%d batches, want 10", n)
	}
}

// A state whose batches came out of order is not a stream's: there is no end to
// the ranges that it could list.
func TestStreamStateAhead(t *testing.T) {
	dev := devicetest.Open(t)
	state := start(t, dev, stream0(20), loader.Options{Batch: 2}).State()
	state.Ahead = [][2]int{{1, 1 << 24}}
	refuses(t, dev, stream0(20), loader.Options{Batch: 2, Resume: &state}, loader.ErrState, "in order")
}
