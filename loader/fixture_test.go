package loader_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/photos"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/imaging"
	"github.com/pinion-gpu/pinion/internal/samplephotos"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/loader"
)

// fake is a dataset of made-up samples.
type fake struct {
	n      int
	spec   dataset.Spec
	length func(i int) int // of axis 0, where samples differ in it
	prefix string          // of names

	before     func(i int) // runs before sample i is read
	fail       map[int]bool
	panics     map[int]bool
	noReader   error
	panicOpen  bool
	panicLabel bool

	readers atomic.Int64 // open now
	reads   atomic.Int64
}

// images, table and so on are datasets of n samples.
func images(n, h, w, c int) *fake {
	return &fake{n: n, spec: dataset.Spec{Shape: []int{h, w, c}, DType: dtype.U8}}
}

func table(n int, t dtype.DType, shape ...int) *fake {
	return &fake{n: n, spec: dataset.Spec{Shape: shape, DType: t}}
}

var errSample = errors.New("cannot read this one")

func (f *fake) Len() int           { return f.n }
func (f *fake) Spec() dataset.Spec { return f.spec }
func (f *fake) Name(i int) string  { return f.prefix + fmt.Sprintf("fake-%03d", i) }

// Length makes every fake a [dataset.Ragged], as package dataset's parts and
// chains are.
func (f *fake) Length(i int) int {
	switch {
	case f.length != nil:
		return f.length(i)
	case len(f.spec.Shape) == 0:
		return 1
	}
	return f.spec.Shape[0]
}

func (f *fake) Label(i int) int32 {
	if f.panicLabel {
		panic("no label today")
	}
	return int32(i%7) - 1
}

func (f *fake) NewReader() (dataset.Reader, error) {
	if f.panicOpen {
		panic("no reader today")
	}
	if f.noReader != nil {
		return nil, f.noReader
	}
	f.readers.Add(1)
	return fakeReader{f}, nil
}

type fakeReader struct{ f *fake }

func (r fakeReader) Read(_ context.Context, v dataset.Visit, dst []byte) error {
	f, i := r.f, v.Index
	f.reads.Add(1)
	if f.before != nil {
		f.before(i)
	}
	if f.panics[i] {
		panic(fmt.Sprintf("reader lost its head over %d", i))
	}
	if f.fail[i] {
		for k := range dst {
			dst[k] = 0xEE // what is left of a failed read must not get through
		}
		return fmt.Errorf("%s: %w", f.Name(i), errSample)
	}
	if want := dataset.SampleBytes(f, i); len(dst) != want {
		return fmt.Errorf("%d bytes for sample %d, want %d", len(dst), i, want)
	}
	copy(dst, f.sample(i))
	if v.Timing != nil {
		v.Timing.Read += time.Nanosecond
	}
	return nil
}

func (r fakeReader) Close() error {
	r.f.readers.Add(-1)
	return nil
}

// sample is what sample i holds: for floats finite values of every size.
func (f *fake) sample(i int) []byte {
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:], uint64(i)+1)
	b := make([]byte, f.spec.Bytes())
	source := rand.NewChaCha8(seed)
	switch rng := rand.New(source); f.spec.DType {
	case dtype.F32:
		for k := 0; k < len(b); k += 4 {
			x := rng.NormFloat64() * math.Pow(10, float64(rng.IntN(16)-8))
			binary.LittleEndian.PutUint32(b[k:], math.Float32bits(float32(x)))
		}
	case dtype.F64:
		for k := 0; k < len(b); k += 8 {
			binary.LittleEndian.PutUint64(b[k:], math.Float64bits(rng.NormFloat64()))
		}
	default:
		source.Read(b)
	}
	return b
}

// makePhotos is a folder of n small photos, in four classes.
func makePhotos(t testing.TB, n, size int) dataset.Dataset {
	t.Helper()
	dir := t.TempDir()
	for i := range n {
		jpeg, err := samplephotos.Photo(i + 1)
		testkit.OK(t, err)
		class := filepath.Join(dir, fmt.Sprintf("class-%d", i%4))
		testkit.OK(t, os.MkdirAll(class, 0o755))
		testkit.OK(t, os.WriteFile(filepath.Join(class, fmt.Sprintf("%03d.jpg", i)), jpeg, 0o644))
	}
	ds, err := photos.Open(t.Context(), dir, photos.Options{Transform: imaging.CenterCrop(size)})
	testkit.OK(t, err)
	return ds
}

// got is a batch as it was delivered, with its bytes read back.
type got struct {
	epoch, number int
	shape         []int
	dtype         dtype.DType
	indexes       []int
	labels        []int32
	data          []byte
	targets       []gotTarget
}

// gotTarget is a target of a batch, with its lengths on host and device.
type gotTarget struct {
	shape          []int
	dtype          dtype.DType
	lengths        []int32
	data, onDevice []byte
}

// use is what consumers do with batches in these tests: read them back.
func use(t testing.TB, s device.Stream, b *loader.Batch) got {
	t.Helper()
	g := got{b.Epoch, b.Number, slices.Clone(b.Shape), b.DType, slices.Clone(b.Indexes), slices.Clone(b.Labels), make([]byte, b.Bytes), nil}
	testkit.OK(t, s.CopyD2H(g.data, b.Data))
	for _, target := range b.Targets {
		have := gotTarget{shape: slices.Clone(target.Shape), dtype: target.DType, lengths: slices.Clone(target.Lengths), data: make([]byte, target.Bytes)}
		testkit.OK(t, s.CopyD2H(have.data, target.Data))
		if target.DeviceLengths != 0 {
			have.onDevice = make([]byte, 4*len(b.Indexes))
			testkit.OK(t, s.CopyD2H(have.onDevice, target.DeviceLengths))
		}
		g.targets = append(g.targets, have)
	}
	testkit.OK(t, s.Synchronize())
	return g
}

// drain takes all batches that are still to come, and the error at the end.
func drain(t testing.TB, dev device.Device, ld *loader.Loader) ([]got, error) {
	t.Helper()
	s := stream(t, dev)
	defer s.Close()
	var list []got
	for {
		b, err := next(t, ld)
		if err == io.EOF {
			return list, nil
		}
		if err != nil {
			return list, err
		}
		list = append(list, use(t, s, b))
		testkit.OK(t, b.Release(s))
	}
}

// next is Next, which must not hang.
func next(t testing.TB, ld *loader.Loader) (*loader.Batch, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Hang)
	defer cancel()
	b, err := ld.Next(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		t.Fatal("Next is stuck")
	}
	return b, err
}

// start makes a loader that the end of the test closes, if nothing has by then.
func start(t testing.TB, dev device.Device, ds dataset.Dataset, o loader.Options) *loader.Loader {
	t.Helper()
	ld, err := loader.New(dev, ds, o)
	testkit.OK(t, err)
	t.Cleanup(func() { within(t, "Close", ld.Close) })
	return ld
}

// run feeds all of ds.
func run(t testing.TB, dev device.Device, ds dataset.Dataset, o loader.Options) ([]got, error) {
	t.Helper()
	ld, err := loader.New(dev, ds, o)
	testkit.OK(t, err)
	list, err := drain(t, dev, ld)
	within(t, "Close", ld.Close)
	return list, err
}

// late are the samples that took longer than SampleTimeout.
type late map[int]bool

// decide is an [loader.Options].Decide that notes them, and goes by policy.
func (l late) decide(policy loader.ErrorPolicy) func(*loader.SampleError) loader.ErrorPolicy {
	return func(err *loader.SampleError) loader.ErrorPolicy {
		if errors.Is(err, loader.ErrTimeout) {
			l[err.Index] = true
		}
		return policy
	}
}

// patiently tries longer and longer time limits for a sample, until none but
// those that are stuck is late: on a busy machine any may be.
func patiently(t testing.TB, limit time.Duration, stuck []int, try func(limit time.Duration, l late) (check func())) {
	t.Helper()
	for {
		l := late{}
		check := try(limit, l)
		for _, i := range stuck {
			delete(l, i)
		}
		if len(l) == 0 {
			check()
			return
		}
		if limit *= 4; limit > testkit.Hang {
			t.Fatalf("samples %v took more than %v", l, limit/4)
		}
	}
}

// says checks what an error is and that its text has a part.
func says(t testing.TB, err, target error, part string) {
	t.Helper()
	testkit.WantError(t, part, err, target, part)
}

// refuses checks that there can be no such loader.
func refuses(t testing.TB, dev device.Device, ds dataset.Dataset, o loader.Options, target error, part string) {
	t.Helper()
	ld, err := loader.New(dev, ds, o)
	if err == nil {
		within(t, "Close", ld.Close)
	}
	says(t, err, target, part)
}

// within ends the test when fn fails or does not return.
func within(t testing.TB, what string, fn func() error) {
	t.Helper()
	testkit.OK(t, testkit.Within(t, what, fn))
}

// leavesNothing checks at the end of the test that no goroutines are left and
// that the device has as much free memory as now. Call it first.
func leavesNothing(t testing.TB, dev device.Device) {
	t.Helper()
	memory := freeBytes(t, dev)
	t.Cleanup(func() {
		if now := freeBytes(t, dev); now != memory && now != closed {
			t.Errorf("%d bytes of device memory free before, %d now", memory, now)
		}
	})
	testkit.NoLeaks(t) // checked before the memory, which goroutines may hold
}

const closed = -1

// freeBytes is the free memory of a device that nobody else uses, 0 of others,
// or closed.
func freeBytes(t testing.TB, dev device.Device) int64 {
	t.Helper()
	if dev.Info().Backend != "host" {
		return 0
	}
	memory, err := dev.Memory()
	if errors.Is(err, device.ErrClosed) {
		return closed
	}
	testkit.OK(t, err)
	return memory.FreeBytes
}

// stream makes a stream that the end of the test closes, behind what is
// registered to be done at the end from now on.
func stream(t testing.TB, dev device.Device) device.Stream {
	t.Helper()
	s, err := dev.NewStream()
	testkit.OK(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// open opens a device that the end of the test closes.
func open(t testing.TB, name string) device.Device {
	t.Helper()
	dev, err := device.Open(name)
	testkit.OK(t, err)
	t.Cleanup(func() { testkit.OK(t, dev.Close()) })
	return dev
}

// pinLimited reports whether a device cannot be asked to pin here.
func pinLimited(err error) bool {
	return errors.Is(err, device.ErrPinLimit) || errors.Is(err, device.ErrNotSupported)
}
