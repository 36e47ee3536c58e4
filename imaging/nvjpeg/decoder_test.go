package nvjpeg

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/imaging"
)

// small are files of 37x29 pixels, of every kind that the engines take.
var small = []string{"420.jpg", "422.jpg", "444.jpg", "440.jpg", "gray.jpg", "restart.jpg"}

// untouched fills what no picture is decoded to.
const untouched = 0xA5

// gap is how many bytes lie between the rows of a picture.
const gap = 5

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
		size := int64(8 << 20)
		if standIns.File == "" {
			size = 1 << 30 // 20 times some tenths of a millisecond
		}
		elsewhere, err := dev.Alloc(size)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			for range 20 {
				if err := w.stream.Memset(elsewhere, 1, size); err != nil {
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
	if standIns.File == "" {
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
