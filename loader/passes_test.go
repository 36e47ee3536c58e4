package loader_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/loader"
	"github.com/pinion-gpu/pinion/sampler"
)

// passes is a stream that can be read again. Samples of another epoch than the one
// that was begun cannot be read.
type passes struct {
	*endless
	epoch int
	begun []int
	once  error // why it cannot be read again
}

func streamAgain(n int) *passes { return &passes{endless: stream0(n), epoch: -1} }

func (p *passes) Repeats() error { return p.once }

func (p *passes) BeginPass(epoch int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.epoch, p.begun = epoch, append(p.begun, epoch)
	clear(p.read)
}

func (p *passes) NewReader() (dataset.Reader, error) {
	r, err := p.endless.NewReader()
	return passesReader{r, p}, err
}

type passesReader struct {
	dataset.Reader
	p *passes
}

func (r passesReader) Read(ctx context.Context, v dataset.Visit, dst []byte) error {
	r.p.mu.Lock()
	epoch := r.p.epoch
	r.p.mu.Unlock()
	if want := sampler.Key(0, epoch, v.Index); v.Key != want {
		return fmt.Errorf("sample %d of key %#x is read in epoch %d, whose is %#x", v.Index, v.Key, epoch, want)
	}
	return r.Reader.Read(ctx, v, dst)
}

// A stream that can be read again has several epochs, each from its beginning, and
// a state goes on in the midst of any.
func TestPasses(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	for _, n := range []int{1, 3, 4, 5, 8, 23} {
		for _, devices := range [][]device.Device{{dev}, {dev, dev}} {
			for _, drop := range []bool{false, true} {
				o := loader.Options{Batch: 4, DropLast: drop, Workers: 3, Epochs: 3}
				what := fmt.Sprintf("%d samples on %d devices, DropLast %t", n, len(devices), drop)
				want := newReference(t, images(n, 4, 4, 3)).batches(o, [][]int{upTo(n), upTo(n), upTo(n)})
				ds := streamAgain(n)
				ld := testkit.Must(loader.NewOn(devices, ds, o))(t)
				list, err := drain(t, dev, ld)
				testkit.OK(t, err)
				compare(t, what, list, want)
				if done, total := ld.Progress(); len(want) > 0 && (done != len(want) || total != len(want)) {
					t.Errorf("%s: %d of %d batches", what, done, total)
				}
				if begun := []int{0, 1, 2}; len(want) > 0 && !slices.Equal(ds.begun, begun) {
					t.Errorf("%s: epochs %v were begun, want %v", what, ds.begun, begun)
				}
				within(t, "Close", ld.Close)

				for at := 0; at <= len(want); at += 1 + len(want)/5 {
					ld := testkit.Must(loader.NewOn(devices, streamAgain(n), o))(t)
					take(t, ld, at)
					state := ld.State()
					within(t, "Close", ld.Close)
					resumed := o
					resumed.Resume = &state
					list, err := run(t, dev, streamAgain(n), resumed)
					testkit.OK(t, err)
					compare(t, what+", resumed", list, want[at:])
				}
			}
		}
	}
}

// Loops over the epochs of a stream are as those over others: one that is left
// early is followed by the next epoch, or by the rest of its own.
func TestLoopsOverPasses(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	ld := start(t, dev, streamAgain(10), loader.Options{Batch: 4, Epochs: 3})
	var got [][2]int
	loop := func(most int) {
		for b, err := range ld.Epoch(t.Context()) {
			testkit.OK(t, err)
			got = append(got, [2]int{b.Epoch, b.Number})
			testkit.OK(t, b.Release())
			if most--; most == 0 {
				break
			}
		}
	}
	loop(9)
	loop(1)
	loop(2) // a new one, and that which was left does not count
	for b, err := range ld.Rest(t.Context()) {
		testkit.OK(t, err)
		got = append(got, [2]int{b.Epoch, b.Number})
		testkit.OK(t, b.Release())
	}
	loop(9)
	loop(9) // nothing is left
	if want := [][2]int{{0, 0}, {0, 1}, {0, 2}, {1, 0}, {2, 0}, {2, 1}, {2, 2}, {3, 0}, {3, 1}, {3, 2}}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// A loop that is left with the last batch of an epoch leaves nothing of it.
func TestLastBatchOfPass(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	for range 20 { // whether the end is known by then or not
		ld := start(t, dev, streamAgain(8), loader.Options{Batch: 4, Epochs: 2, Workers: 1})
		var epochs []int
		for range 4 {
			for b, err := range ld.All(t.Context()) {
				testkit.OK(t, err)
				epochs = append(epochs, b.Epoch)
				testkit.OK(t, b.Release())
				if b.Number == 1 {
					break
				}
			}
		}
		if want := []int{0, 0, 1, 1}; !slices.Equal(epochs, want) {
			t.Fatalf("epochs %v, want %v", epochs, want)
		}
		within(t, "Close", ld.Close)
	}
}

// A stream without a batch is not read for ever, and one without a good sample is
// an error.
func TestEmptyPasses(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	for n, o := range map[int]loader.Options{0: {Epochs: 1 << 40}, 3: {Epochs: 1 << 40, Batch: 4, DropLast: true}} {
		ds := streamAgain(n)
		list, err := run(t, dev, ds, o)
		if err != nil || len(list) > 0 || len(ds.begun) != 1 {
			t.Errorf("%d samples: %d batches, %v, after %d epochs", n, len(list), err, len(ds.begun))
		}
	}
	ds := streamAgain(10)
	ds.fail = map[int]bool{}
	for i := range 10 {
		ds.fail[i] = true
	}
	_, err := run(t, dev, ds, loader.Options{Batch: 4, Epochs: 1 << 40, OnError: loader.Skip})
	says(t, err, loader.ErrNoSamples, "all 10 of epoch 0")
}

// What comes once has one epoch, and says why.
func TestOnePass(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	ds := streamAgain(10)
	ds.once = errors.New("it is a pipe")
	refuses(t, dev, ds, loader.Options{Epochs: 2}, ds.once, "more than one epoch")
	refuses(t, dev, stream0(10), loader.Options{Epochs: 2}, device.ErrArgument, "a loader for each pass")
	ld := start(t, dev, ds, loader.Options{Batch: 4})
	for b, err := range ld.All(t.Context()) {
		testkit.OK(t, err)
		testkit.OK(t, b.Release())
		break
	}
	for _, err := range ld.All(t.Context()) {
		says(t, err, ds.once, "Rest")
	}
}

// Whatever loops and calls of Next there are, a stream that can be read again has
// the batches of a dataset whose length is known.
func TestPassesAsEpochs(t *testing.T) {
	dev := devicetest.Open(t)
	leavesNothing(t, dev)
	type pair = [2]int // epoch and number
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 7))
		n, o := 1+rng.IntN(20), loader.Options{Batch: 1 + rng.IntN(5), Epochs: 1 + rng.IntN(4), Workers: 1 + rng.IntN(3)}
		loaders := []*loader.Loader{start(t, dev, images(n, 4, 4, 3), o), start(t, dev, streamAgain(n), o)}
		for step := range 30 {
			kind, most := rng.IntN(4), 1+rng.IntN(8)
			var got [2][]pair
			for i, ld := range loaders {
				left := most
				take := func(b *loader.Batch, err error) (more bool) {
					if err == io.EOF {
						got[i] = append(got[i], pair{-1, -1})
						return false
					}
					testkit.OK(t, err)
					got[i] = append(got[i], pair{b.Epoch, b.Number})
					testkit.OK(t, b.Release())
					left--
					return left > 0
				}
				if kind == 3 {
					for take(next(t, ld)) {
					}
					continue
				}
				loop := []func(context.Context) iter.Seq2[*loader.Batch, error]{ld.All, ld.Epoch, ld.Rest}[kind]
				for b, err := range loop(t.Context()) {
					if !take(b, err) {
						break
					}
				}
			}
			if !slices.Equal(got[0], got[1]) {
				t.Fatalf("seed %d, step %d: %d samples in batches of %d, %d epochs: %s of %d: %v of the stream, want %v",
					seed, step, n, o.Batch, o.Epochs, []string{"All", "Epoch", "Rest", "Next"}[kind], most, got[1], got[0])
			}
		}
		for _, ld := range loaders {
			within(t, "Close", ld.Close)
		}
	}
}
