package nvjpeg

import (
	"bytes"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/host"
	"github.com/pinion-gpu/pinion/imaging"
	"github.com/pinion-gpu/pinion/internal/dl"
)

// small are files of 37x29 pixels, of every kind that the engines take.
var small = []string{"420.jpg", "422.jpg", "444.jpg", "440.jpg", "gray.jpg", "restart.jpg"}

// eachBackend runs a test on both backends.
func eachBackend(t *testing.T, test func(t *testing.T, b Backend)) {
	for name, b := range map[string]Backend{"hardware": Hardware, "CUDA": CUDA} {
		t.Run(name, func(t *testing.T) { test(t, b) })
	}
}

// wall is a number of pictures side by side in device memory.
type wall struct {
	t        testing.TB
	dev      device.Device
	stream   device.Stream
	slab     device.Ptr
	bytes    int64
	pictures []Picture
}

// untouched fills what no picture is decoded to.
const untouched = 0xA5

// gap is how many bytes lie between the rows of a picture.
const gap = 5

func newWall(t testing.TB, dev device.Device, jpegs ...JPEG) *wall {
	t.Helper()
	w := &wall{t: t, dev: dev}
	for _, j := range jpegs {
		p := Picture{JPEG: j, Dst: device.Ptr(w.bytes), Pitch: 3*j.Width + gap}
		w.pictures = append(w.pictures, p)
		w.bytes += int64(p.Pitch) * int64(j.Height)
	}
	var err error
	if w.stream, err = dev.NewStream(); err != nil {
		t.Fatal(err)
	}
	if w.slab, err = dev.Alloc(w.bytes); err != nil {
		t.Fatal(err)
	}
	for i := range w.pictures {
		w.pictures[i].Dst += w.slab
	}
	w.clear()
	return w
}

func (w *wall) clear() {
	w.t.Helper()
	if err := w.stream.Memset(w.slab, untouched, w.bytes); err != nil {
		w.t.Fatal(err)
	}
}

// check compares the pictures behind the work of the stream. Those in refused
// may hold anything, all others and the gaps may not.
func (w *wall) check(d *Decoder, refused ...int) {
	w.t.Helper()
	got := make([]byte, w.bytes)
	if err := errors.Join(w.stream.CopyD2H(got, w.slab), w.stream.Synchronize()); err != nil {
		w.t.Fatal(err)
	}
	for i, p := range w.pictures {
		width, height := p.JPEG.Width, p.JPEG.Height
		rows := got[p.Dst-w.slab:][:p.Pitch*height]
		var pixels []byte
		for row := range slices.Chunk(rows, p.Pitch) {
			pixels = append(pixels, row[:3*width]...)
			if !bytes.Equal(row[3*width:], bytes.Repeat([]byte{untouched}, gap)) {
				w.t.Errorf("picture %d: % x between the rows", i, row[3*width:])
				break
			}
		}
		if !slices.Contains(refused, i) {
			samePixels(w.t, d, i, pixels, p.JPEG)
		}
	}
}

// samePixels compares a decoded picture: with the stand-in's pattern, or with
// what libjpeg-turbo makes of it, from which the engines differ by 1 step at
// most and CUDA by 3.
func samePixels(t testing.TB, d *Decoder, i int, got []byte, j JPEG) {
	t.Helper()
	limit := 0
	var want imaging.Image
	if onGPU {
		decoder := imaging.NewDecoder(imaging.Options{})
		defer decoder.Close()
		if err := decoder.Decode(context.Background(), &want, j.data); err != nil {
			t.Fatal(err)
		}
		if limit = 3; d.engines > 0 {
			limit = 1
		}
	} else {
		want.Pix = pattern(j)
	}
	if len(got) != len(want.Pix) {
		t.Fatalf("picture %d: %d bytes, want %d", i, len(got), len(want.Pix))
	}
	worst, sum := 0, 0
	for at := range got {
		diff := max(int(got[at])-int(want.Pix[at]), int(want.Pix[at])-int(got[at]))
		worst, sum = max(worst, diff), sum+diff
	}
	if worst > limit {
		t.Errorf("picture %d of %dx%d differs by up to %d, by %.3f in the mean", i, j.Width, j.Height, worst, float64(sum)/float64(len(got)))
	}
}

// pattern is what testdata/fakenvjpeg makes of a file.
func pattern(j JPEG) []byte {
	sum := 0
	for _, b := range j.data {
		sum += int(b)
	}
	var pix []byte
	for y := range j.Height {
		for x := range 3 * j.Width {
			pix = append(pix, byte(sum+x+7*y))
		}
	}
	return pix
}

func smallJPEGs(t testing.TB) (jpegs []JPEG) {
	for _, name := range small {
		jpegs = append(jpegs, parse(t, readFile(t, name)))
	}
	return jpegs
}

// bad passes for a good JPEG, and the library finds that it is none.
func bad(t testing.TB) JPEG {
	j := parse(t, readFile(t, "420.jpg"))
	j.data = inserted(readFile(t, "arithmetic.jpg"), 0xFE, "status 4")
	return j
}

// Pictures of all sizes and kinds come out right, whatever the size of the
// batch, and the decoder can go on with another stream.
func TestDecode(t *testing.T) {
	eachBackend(t, func(t *testing.T, b Backend) {
		dev, d := openDecoder(t, Options{Backend: b, MaxBatch: 4})
		jpegs := append(smallJPEGs(t), parse(t, photo(t, 1)), parse(t, photo(t, 2)))
		if b == CUDA {
			jpegs = append(jpegs, parse(t, readFile(t, "411.jpg")))
		}
		for n := range jpegs {
			w := newWall(t, dev, jpegs[n:]...)
			if err := d.Decode(w.stream, w.pictures); err != nil {
				t.Fatal(err)
			}
			w.check(d)
			if d.initialised > 4 {
				t.Errorf("a batch of %d pictures, may have 4", d.initialised)
			}
		}
	})
}

// What is queued before the pictures happens before them.
func TestDecodeOrder(t *testing.T) {
	eachBackend(t, func(t *testing.T, b Backend) {
		dev, d := openDecoder(t, Options{Backend: b})
		w := newWall(t, dev, slices.Repeat([]JPEG{parse(t, photo(t, 1))}, 8)...)
		pile := int64(8 << 20)
		if onGPU {
			pile = 1 << 30 // 20 times some tenths of a millisecond
		}
		elsewhere, err := dev.Alloc(pile)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			for range 20 {
				if err := w.stream.Memset(elsewhere, 1, pile); err != nil {
					t.Fatal(err)
				}
			}
			w.clear()
			if err := d.Decode(w.stream, w.pictures); err != nil {
				t.Fatal(err)
			}
			w.check(d)
		}
	})
}

// A picture that is refused, before or by the library, does no harm to those
// beside it nor to those after it.
func TestDecodeRefuses(t *testing.T) {
	eachBackend(t, func(t *testing.T, b Backend) {
		dev, d := openDecoder(t, Options{Backend: b, MaxBatch: 4})
		jpegs := smallJPEGs(t)
		jpegs = slices.Insert(jpegs, 0, parse(t, readFile(t, "progressive.jpg")))
		jpegs = slices.Insert(jpegs, 3, bad(t))
		jpegs = append(jpegs, parse(t, readFile(t, "cmyk.jpg")), bad(t))
		want := []int{0, 3, len(jpegs) - 2, len(jpegs) - 1}
		w := newWall(t, dev, jpegs...)
		err := d.Decode(w.stream, w.pictures)
		var refused *RefusedError
		if !errors.As(err, &refused) || !errors.Is(err, imaging.ErrFormat) {
			t.Fatalf("%v, want a RefusedError with %q", err, imaging.ErrFormat)
		}
		var got []int
		for _, r := range refused.Pictures {
			got = append(got, r.Index)
			if !errors.Is(r.Err, imaging.ErrFormat) || !strings.Contains(r.Err.Error(), "37x29") {
				t.Errorf("picture %d: %v, want %q and the size", r.Index, r.Err, imaging.ErrFormat)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("refused %v, want %v", got, want)
		}
		if text := err.Error(); !strings.Contains(text, "4 pictures") || !strings.Contains(text, "picture 3: ") || strings.Contains(text, "\n") {
			t.Errorf("%q does not tell which", text)
		}
		w.check(d, want...)

		again := newWall(t, dev, smallJPEGs(t)...)
		if err := d.Decode(again.stream, again.pictures); err != nil {
			t.Fatal(err)
		}
		again.check(d)

		all := newWall(t, dev, bad(t), bad(t))
		if err := d.Decode(all.stream, all.pictures); !errors.As(err, &refused) || len(refused.Pictures) != 2 {
			t.Errorf("nothing but bad pictures: %v", err)
		}
	})
}

// Pictures whose bits went wrong give an error or wrong pixels. They neither
// write beside them nor keep others from being decoded.
func TestDecodeDamaged(t *testing.T) {
	eachBackend(t, func(t *testing.T, b Backend) {
		dev, d := openDecoder(t, Options{Backend: b})
		rng := rand.New(rand.NewPCG(1, 2))
		good := smallJPEGs(t)
		for range 20 {
			jpegs := slices.Clone(good)
			damaged := []int{}
			for range 10 {
				name := small[rng.IntN(len(small))]
				j, err := Parse(with(readFile(t, name), func(b []byte) {
					scan := segmentAt(b, markSOS) + 14
					for range 1 + rng.IntN(20) {
						b[scan+rng.IntN(len(b)-scan)] = byte(rng.Uint32())
					}
				}))
				if err == nil {
					damaged = append(damaged, len(jpegs))
					jpegs = append(jpegs, j)
				}
			}
			w := newWall(t, dev, jpegs...)
			var refused *RefusedError
			if err := d.Decode(w.stream, w.pictures); err != nil && !errors.As(err, &refused) {
				t.Fatal(err)
			}
			w.check(d, damaged...)
		}
	})
}

// A failure that is not a picture's is no refusal, and ends with its batch.
func TestDecodeFails(t *testing.T) {
	if onGPU {
		t.Skip("the real library does not fail on demand")
	}
	dev, d := openDecoder(t, Options{})
	for status, sentinel := range map[string]error{"5": device.ErrOutOfMemory, "6": nil} {
		failing := parse(t, inserted(readFile(t, "420.jpg"), 0xFE, "status "+status))
		w := newWall(t, dev, append(smallJPEGs(t), failing)...)
		err := d.Decode(w.stream, w.pictures)
		var refused *RefusedError
		var e *Error
		if errors.As(err, &refused) || !errors.As(err, &e) || sentinel != nil && !errors.Is(err, sentinel) {
			t.Errorf("status %s: %v", status, err)
		}
	}
	w := newWall(t, dev, smallJPEGs(t)...)
	if err := d.Decode(w.stream, w.pictures); err != nil {
		t.Fatal(err)
	}
	w.check(d)
}

func TestDecodeArguments(t *testing.T) {
	dev, d := openDecoder(t, Options{})
	j := parse(t, readFile(t, "420.jpg"))
	w := newWall(t, dev, j, j)
	decode := func(change func(p *Picture)) error {
		pictures := slices.Clone(w.pictures)
		change(&pictures[1])
		return d.Decode(w.stream, pictures)
	}
	for what, c := range map[string]struct {
		err, want error
	}{
		"a pitch below the row":  {decode(func(p *Picture) { p.Pitch = 3*37 - 1 }), device.ErrArgument},
		"a pitch beyond numbers": {decode(func(p *Picture) { p.Pitch = math.MaxInt }), device.ErrArgument},
		"no address":             {decode(func(p *Picture) { p.Dst = 0 }), device.ErrPointer},
		"the end of the memory":  {decode(func(p *Picture) { p.Dst = p.Dst.Add(1 << 30) }), device.ErrPointer},
		"a JPEG not from Parse":  {decode(func(p *Picture) { p.JPEG = JPEG{} }), imaging.ErrDamaged},
		"the stream of somebody": {d.Decode(foreignStream(t), w.pictures), device.ErrArgument},
		"no stream":              {d.Decode(nil, w.pictures), device.ErrArgument},
		"no pictures":            {d.Decode(w.stream, nil), nil},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v, want %v", what, c.err, c.want)
		}
	}
}

// foreignStream is a stream of another device.
func foreignStream(t testing.TB) device.Stream {
	s, err := openDevice(t).NewStream()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Goroutines share a decoder, each with a stream of its own.
func TestDecodeGoroutines(t *testing.T) {
	dev, d := openDecoder(t, Options{MaxBatch: 3})
	var group sync.WaitGroup
	for i := range 4 {
		w := newWall(t, dev, smallJPEGs(t)[:2+i]...)
		group.Go(func() {
			for range 10 {
				if err := d.Decode(w.stream, w.pictures); err != nil {
					t.Error(err)
					return
				}
				w.check(d)
			}
		})
	}
	group.Wait()
}

// heldUp is a stream whose earlier work does not end before the test says how.
type heldUp struct {
	device.Stream
	asked chan struct{}
	ended chan error
}

func (h heldUp) Synchronize() error {
	close(h.asked)
	return <-h.ended
}

// A caller whose stream has long to do holds up nobody else.
func TestDecodeHeldUp(t *testing.T) {
	dev, d := openDecoder(t, Options{Backend: Hardware})
	w := newWall(t, dev, smallJPEGs(t)...)
	h := heldUp{w.stream, make(chan struct{}), make(chan error)}
	held := make(chan error)
	go func() { held <- d.Decode(h, w.pictures) }()
	<-h.asked
	other := newWall(t, dev, smallJPEGs(t)...)
	if err := d.Decode(other.stream, other.pictures); err != nil {
		t.Error(err)
	}
	other.check(d)
	failed := errors.New("earlier work failed")
	h.ended <- failed
	if err := <-held; !errors.Is(err, failed) {
		t.Errorf("%v, want %v", err, failed)
	}
}

func TestSupports(t *testing.T) {
	photo := Header{Width: 500, Height: 375, Components: 3, Precision: 8, Interleaved: true,
		Sampling: [4]Sampling{{2, 2}, {1, 1}, {1, 1}}}
	for _, c := range []struct {
		name           string
		change         func(h *Header)
		hardware, cuda error
	}{
		{"photo", func(h *Header) {}, nil, nil},
		{"4:4:4", func(h *Header) { h.Sampling[0] = Sampling{1, 1} }, nil, nil},
		{"4:1:1", func(h *Header) { h.Sampling[0] = Sampling{4, 1} }, imaging.ErrFormat, nil},
		{"odd sampling", func(h *Header) { h.Sampling[0] = Sampling{3, 1} }, imaging.ErrFormat, imaging.ErrFormat},
		{"fine chroma", func(h *Header) { h.Sampling[2] = Sampling{2, 2} }, imaging.ErrFormat, imaging.ErrFormat},
		{"grey", func(h *Header) { h.Components, h.Sampling[0] = 1, Sampling{1, 1} }, nil, nil},
		{"CMYK", func(h *Header) { h.Components = 4 }, imaging.ErrFormat, imaging.ErrFormat},
		{"progressive", func(h *Header) { h.Progressive = true }, imaging.ErrFormat, imaging.ErrFormat},
		{"12 bits", func(h *Header) { h.Precision = 12 }, imaging.ErrFormat, imaging.ErrFormat},
		{"RGB", func(h *Header) { h.RGB = true }, imaging.ErrFormat, imaging.ErrFormat},
		{"several scans", func(h *Header) { h.Interleaved = false }, imaging.ErrFormat, imaging.ErrFormat},
		{"one pixel", func(h *Header) { h.Width, h.Height = 1, 1 }, nil, nil},
		{"widest", func(h *Header) { h.Width = 16384 }, nil, nil},
		{"wider", func(h *Header) { h.Width = 16385 }, imaging.ErrTooLarge, nil},
		{"higher", func(h *Header) { h.Height = 16385 }, imaging.ErrTooLarge, nil},
		{"many pixels", func(h *Header) { h.Width, h.Height = 10_000, 10_001 }, imaging.ErrTooLarge, imaging.ErrTooLarge},
		{"nothing", func(h *Header) { *h = Header{} }, imaging.ErrDamaged, imaging.ErrDamaged},
	} {
		h := photo
		c.change(&h)
		options := Options{MaxPixels: defaultMaxPixels}
		for backend, d := range map[string]*Decoder{"hardware": {engines: 7, options: options}, "CUDA": {options: options}} {
			want := c.cuda
			if d.engines > 0 {
				want = c.hardware
			}
			if err := d.refuses(h); !errors.Is(err, want) || d.Supports(h) != (want == nil) {
				t.Errorf("%s on %s: %v, want %v", c.name, backend, err, want)
			}
		}
	}
}

// Close gives back what the decoder took. What the driver loads on first use
// stays, so the first decoder does not count.
func TestClose(t *testing.T) {
	dev := openDevice(t)
	w := newWall(t, dev, smallJPEGs(t)...)
	use := func() int64 {
		d, err := Open(dev, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(d.Decode(w.stream, w.pictures), d.Close(), d.Close()); err != nil {
			t.Fatal(err)
		}
		if err := d.Decode(w.stream, w.pictures); !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v, want %q", err, ErrClosed)
		}
		m, err := dev.Memory()
		if err != nil {
			t.Fatal(err)
		}
		return m.FreeBytes
	}
	first := use()
	for range 3 {
		if left := use(); left < first {
			t.Errorf("%d bytes less after another decoder", first-left)
		}
	}
}

func TestOpen(t *testing.T) {
	dev, d := openDecoder(t, Options{})
	if !strings.HasPrefix(d.Backend(), "hardware (") || d.Backend() == "hardware (0 engines)" {
		t.Errorf("auto opens %q", d.Backend())
	}
	cuda, err := Open(dev, Options{Backend: CUDA})
	if err != nil {
		t.Fatal(err)
	}
	defer cuda.Close()
	if cuda.Backend() != "CUDA" {
		t.Errorf("CUDA opens %q", cuda.Backend())
	}
	ordinary, err := host.Open(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer ordinary.Close()
	for what, c := range map[string]struct {
		dev     device.Device
		options Options
		want    error
	}{
		"host":            {ordinary, Options{}, device.ErrNotSupported},
		"unknown backend": {dev, Options{Backend: 9}, device.ErrArgument},
	} {
		if d, err := Open(c.dev, c.options); d != nil || !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %q", what, err, c.want)
		}
	}
}

// A GPU without engines decodes with its kernels, unless asked for engines.
func TestOpenWithoutEngines(t *testing.T) {
	if onGPU {
		t.Skip("the GPU has what it has")
	}
	dev := openDevice(t)
	simulate(t, 0, 13)
	d, err := Open(dev, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if d.Backend() != "CUDA" {
		t.Errorf("auto opens %q", d.Backend())
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if _, err := Open(dev, Options{Backend: Hardware}); !errors.Is(err, device.ErrNotSupported) || !strings.Contains(err.Error(), "no JPEG engines") {
		t.Errorf("hardware: %v", err)
	}
}

// Without a library that works there is one sentence that says why.
func TestLoadFails(t *testing.T) {
	if onGPU {
		t.Skip("the library is there")
	}
	openDevice(t)
	loaded := api
	t.Cleanup(func() { api = loaded })
	fails := func(want string) {
		t.Helper()
		_, err := load()
		if !errors.Is(err, device.ErrNotSupported) {
			t.Fatalf("%v, want %q", err, device.ErrNotSupported)
		}
		if text := err.Error(); !strings.Contains(text, want) || strings.Contains(text, "\n") {
			t.Errorf("%q, want one sentence with %q", text, want)
		}
	}
	simulate(t, 7, 11)
	fails("version 11.0; 12.0 or newer")
	t.Setenv("PINION_LIB_NVJPEG", "off")
	fails("PINION_LIB_NVJPEG")
	t.Setenv("PINION_LIB_NVJPEG", fake+".none")
	fails("no nvJPEG library")
}

// simulate changes the stand-in until the test ends.
func simulate(t *testing.T, engines, major uintptr) {
	t.Helper()
	var set dl.Func
	if _, err := dl.Open(dl.Library{Name: "nvjpeg", Symbols: []dl.Symbol{{Name: "fakenvjpegSet", Func: &set}}}); err != nil {
		t.Fatal(err)
	}
	set.Call(engines, major)
	t.Cleanup(func() { set.Call(7, 13) })
}
