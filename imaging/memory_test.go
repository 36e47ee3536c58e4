package imaging

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"github.com/pinion-gpu/pinion/imaging/internal/header"
	"github.com/pinion-gpu/pinion/imaging/internal/turbojpeg"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// jpegOf is a JPEG of that kind of frame, and of components sampled like that,
// whose scans say nothing: a progressive one is whole, in one that is not there
// are no pixels.
func jpegOf(sof byte, width, height int, sampling ...byte) []byte {
	file := []byte{0xff, 0xd8, 0xff, 0xee, 0, 14, 'A', 'd', 'o', 'b', 'e', 0, 100, 0, 0, 0, 0, 0}
	if len(sampling) == 3 {
		file[len(file)-1] = 1 // YCbCr, else CMYK
	}
	file = append(file, 0xff, 0xdb, 0, 67, 0)
	file = append(file, bytes.Repeat([]byte{1}, 64)...)
	n := byte(len(sampling))
	file = append(file, 0xff, sof, 0, 8+3*n, 8, byte(height>>8), byte(height), byte(width>>8), byte(width), n)
	for i, s := range sampling {
		file = append(file, byte(i), s, 0)
	}
	for class := byte(0); class <= 0x10; class += 0x10 { // one code of one bit
		file = append(file, 0xff, 0xc4, 0, 20, class, 1)
		file = append(append(file, make([]byte, 15)...), class/0x10*0xe0)
	}
	if sof != 0xc2 {
		file = append(file, 0xff, 0xda, 0, 6+2*n, n)
		for i := range n {
			file = append(file, i, 0)
		}
		return append(file, 0, 63, 0, 0xff, 0xd9)
	}
	for i := range n {
		blocks := (width + 7) / 8 * ((height + 7) / 8) // or fewer
		file = append(file, 0xff, 0xda, 0, 8, 1, i, 0, 1, 63, 0)
		file = append(file, make([]byte, (blocks>>14+1)*2)...)
	}
	return append(file, 0xff, 0xd9)
}

// What decoding is said to take is what Go's decoders take: not less, and not
// twice as much.
func TestBytesOfPicture(t *testing.T) {
	if testing.Short() {
		t.Skip("it decodes large pictures one after another")
	}
	const side = 1024
	bounds := image.Rect(0, 0, side, side)
	palette := color.Palette{color.Black, color.White}
	asJPEG := func(m image.Image) []byte {
		var b bytes.Buffer
		if err := jpeg.Encode(&b, m, nil); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	clear := image.NewNRGBA64(bounds) // not opaque
	for name, file := range map[string][]byte{
		"baseline":            asJPEG(image.NewRGBA(bounds)),
		"baseline, grey":      asJPEG(image.NewGray(bounds)),
		"progressive":         jpegOf(0xc2, side, side, 0x11, 0x11, 0x11),
		"progressive, 4:2:0":  jpegOf(0xc2, side, side, 0x22, 0x11, 0x11),
		"progressive, CMYK":   jpegOf(0xc2, side, side, 0x11, 0x11, 0x11, 0x11),
		"progressive, narrow": jpegOf(0xc2, 8, 65535, 0x22, 0x11, 0x11),
		"PNG":                 encodePNG(t, image.NewNRGBA(bounds)),
		"PNG, palette":        encodePNG(t, image.NewPaletted(bounds, palette)),
		"PNG, 16 bits":        encodePNG(t, clear),
	} {
		d := NewDecoder(Options{})
		d.turbo = nil
		src, err := d.inspect(file)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		said := src.bytes(file)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err = d.decode(context.Background(), &d.image, &src, file)
		runtime.ReadMemStats(&after)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		const beside = 256 << 10 // tables and buffers of the decoders
		took := int64(after.TotalAlloc - before.TotalAlloc)
		if took > said+beside || said > 2*took {
			t.Errorf("%s: said to take %d bytes, took %d", name, said, took)
		}
		d.Close()
	}
}

// Photos of cameras are decoded, and small files that ask for a lot of memory
// are not.
func TestMaxBytes(t *testing.T) {
	ycc420, ycc444, cmyk := []byte{0x22, 0x11, 0x11}, []byte{0x11, 0x11, 0x11}, []byte{0x11, 0x11, 0x11, 0x11}
	for _, c := range []struct {
		name          string
		sof           byte
		width, height int
		sampling      []byte
		limit         int64
		turbo, plain  int64 // bytes, with libturbojpeg and without
	}{
		{"50 MP", 0xc0, 8688, 5792, ycc444, 0, 3 * 8688 * 5792, 3 * 8688 * 5792},
		{"24 MP progressive", 0xc2, 6000, 4000, ycc420, 0, 3*6000*4000 + 2*36e6, 36e6 + 4*36e6},
		{"24 MP progressive, 4:4:4", 0xc2, 6000, 4000, ycc444, 0, 9 * 24e6, 15 * 24e6},
		{"100 MP progressive", 0xc2, 10000, 10000, ycc420, 0, 3e8 + 2*1.5e8, 5 * 1.5e8},
		{"20 MP of CMYK", 0xc2, 5000, 4000, cmyk, 0, 24 * 20e6, 24 * 20e6},
		{"100 MP of CMYK", 0xc2, 10000, 10000, cmyk, 0, 0, 0},
		{"20 MP of CMYK, less memory", 0xc2, 5000, 4000, cmyk, 400e6, 0, 0},
		{"20 MP of CMYK, just so", 0xc2, 5000, 4000, cmyk, 480e6, 24 * 20e6, 24 * 20e6},
	} {
		decoders(t, func(t *testing.T, newDecoder func(Options) *Decoder) {
			d := newDecoder(Options{MaxBytes: c.limit})
			want := c.plain
			if d.turbo != nil {
				want = c.turbo
			}
			file := jpegOf(c.sof, c.width, c.height, c.sampling...)
			src, err := d.inspect(file)
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			if want > 0 {
				if n := src.bytes(file); n < want || n > want+want/200 { // whole blocks
					t.Errorf("%s: %d bytes, want %d", c.name, n, want)
				}
				if err := d.reserve(context.Background(), &src, file); err != nil {
					t.Errorf("%s: %v", c.name, err)
				}
				d.settle()
				return
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err = d.DecodeTransformed(context.Background(), make([]byte, 12), file, CenterCrop(2), 0)
			runtime.ReadMemStats(&after)
			limit := c.limit
			if limit == 0 {
				limit = 1 << 30
			}
			say := fmt.Sprintf("%dx%d pixels takes %d bytes while it is decoded, the limit is %d", c.width, c.height, 24*c.width*c.height, limit)
			if !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), say) {
				t.Errorf("%s: %v, want %q", c.name, err, say)
			}
			if took := after.TotalAlloc - before.TotalAlloc; took > 8<<20 {
				t.Errorf("%s: %d bytes were allocated", c.name, took)
			}
		})
	}
}

// A picture that libturbojpeg leaves to the Go decoder takes the memory of
// both.
func TestMaxBytesOfOddJPEG(t *testing.T) {
	if !turbojpeg.Available() {
		t.Skip("libturbojpeg is not installed")
	}
	whole := jpegOf(0xc2, 800, 800, 0x11, 0x11, 0x11)
	scan := bytes.LastIndex(whole, []byte{0xff, 0xda})
	file := slices.Concat(whole[:scan], []byte{1, 2, 3, 4}, whole[scan:])
	for _, c := range []struct {
		limit int64
		err   error
	}{{(3 + 15 - 1) * 800 * 800, ErrTooLarge}, {(3 + 15) * 800 * 800, nil}} {
		d := NewDecoder(Options{MaxBytes: c.limit})
		if err := d.DecodeTransformed(context.Background(), make([]byte, 12), file, CenterCrop(2), 0); !errors.Is(err, c.err) {
			t.Errorf("limit of %d: %v, want %v", c.limit, err, c.err)
		}
		d.Close()
	}
}

// A frame that cannot be found or read is taken for the worst.
func TestFrameOfDamagedJPEG(t *testing.T) {
	file := jpegOf(0xc0, 64, 64, 0x22, 0x11, 0x11)
	good, worst := header.Frame{Samples: 64 * 64 * 3 / 2}, header.Frame{Samples: 64 * 64 * 4, Progressive: true, Scans: true}
	scan := bytes.Index(file, []byte{0xff, 0xda})
	for n := range len(file) {
		want := worst
		if n > scan+4 {
			want = good
		}
		if f := header.FrameOf(file[:n], 64, 64); f != want {
			t.Errorf("%d bytes: %+v, want %+v", n, f, want)
		}
	}
	apart := bytes.Clone(file)
	apart[scan+4] = 1
	if f := header.FrameOf(apart, 64, 64); !f.Scans || f.Progressive {
		t.Errorf("components in scans of their own: %+v", f)
	}
}

// Memory is handed out up to the limit, and one that wants more gets it alone.
func TestShare(t *testing.T) {
	s := newShare(100)
	var mu sync.Mutex
	var used, holders int64
	var all sync.WaitGroup
	for i := range uint64(8) {
		rng := rand.New(rand.NewPCG(i, 0))
		all.Go(func() {
			for range 40 {
				n, err := s.take(context.Background(), 1+rng.Int64N(120))
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				used, holders = used+n, holders+1
				if used > 100 && holders > 1 {
					t.Errorf("%d bytes for %d", used, holders)
				}
				mu.Unlock()
				runtime.Gosched()
				mu.Lock()
				used, holders = used-n, holders-1
				mu.Unlock()
				s.give(n)
			}
		})
	}
	all.Wait()
	if s.used != 0 {
		t.Errorf("%d bytes were not given back", s.used)
	}
}

// The end of a context ends the wait for memory, and takes none.
func TestShareEndsWithContext(t *testing.T) {
	s := newShare(100)
	held, err := s.take(context.Background(), 1000)
	if err != nil || held != 100 {
		t.Fatalf("took %d: %v", held, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	waited := make(chan error)
	go func() {
		_, err := s.take(ctx, 1)
		waited <- err
	}()
	cancel()
	if err := <-waited; !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want %v", err, context.Canceled)
	}
	s.give(held)
	if n, err := s.take(context.Background(), 100); err != nil || n != 100 || s.used != 100 {
		t.Errorf("took %d of %d: %v", n, s.used, err)
	}
}

// A large picture that waits for memory ends with its context.
func TestLargePictureEndsWithContext(t *testing.T) {
	all, err := large.take(context.Background(), sharedBytes)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { large.give(all) }()
	file := encodePNG(t, image.NewGray(image.Rect(0, 0, 10000, 5000)))
	d := NewDecoder(Options{})
	defer d.Close()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var m Image
	for _, err := range []error{d.Decode(ctx, &m, file), d.DecodeTransformed(ctx, make([]byte, 12), file, CenterCrop(2), 0)} {
		if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "10000x5000") {
			t.Errorf("%v, want %v for a picture of 10000x5000", err, context.Canceled)
		}
	}
	small := encodePNG(t, image.NewGray(image.Rect(0, 0, 10, 10)))
	if err := d.Decode(ctx, &m, small); err != nil {
		t.Errorf("a small picture waits for nobody: %v", err)
	}
}

// Large pictures that several workers decode one after the other take the
// memory that is there for them, with the garbage that they leave behind.
func TestLargePicturesLeaveNoGarbage(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes hundreds of megabytes")
	}
	const room, side = 256 << 20, 4600 // three pictures at a time
	defer func(s *share) { large = s }(large)
	large = newShare(room)
	file := encodePNG(t, image.NewNRGBA(image.Rect(0, 0, side, side)))
	runtime.GC()
	peak := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapInuse
	}
	before := peak()
	var most atomic.Uint64
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			d := NewDecoder(Options{})
			defer d.Close()
			for range 3 {
				if err := d.DecodeTransformed(context.Background(), make([]byte, 12), file, CenterCrop(2), 0); err != nil {
					t.Error(err)
				}
				for now := peak(); now > most.Load(); now = peak() {
					most.Store(now)
				}
			}
		})
	}
	all.Wait()
	// Half of it more for what decoders themselves leave between collections.
	if took := int64(most.Load() - before); took > room+room/2 {
		t.Errorf("the heap grew by %d MiB, want %d at most", took>>20, (room+room/2)>>20)
	}
}

// What was reserved is given back, whatever becomes of the picture.
func TestReservedIsGivenBack(t *testing.T) {
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewPaletted(image.Rect(0, 0, 5000, 4001), color.Palette{color.Black})); err != nil {
		t.Fatal(err)
	}
	var m Image
	d := NewDecoder(Options{})
	defer d.Close()
	src, err := d.inspect(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	src.beside = src.packedBytes()
	if err := d.reserve(context.Background(), &src, b.Bytes()); err != nil || d.reserved != 4*5000*4001 {
		t.Fatalf("%d bytes are reserved, %v", d.reserved, err)
	}
	for _, file := range [][]byte{b.Bytes(), b.Bytes()[:b.Len()-20]} {
		if err := d.Decode(context.Background(), &m, file); (err == nil) != (len(file) == b.Len()) {
			t.Error(err)
		}
		if d.reserved != 0 || large.used != 0 {
			t.Errorf("%d bytes are still reserved, %d in all", d.reserved, large.used)
		}
	}
}

// While a large picture that libturbojpeg left waits for the memory of the Go
// decoder, it holds none: what it had is not counted any more.
func TestLargeOddJPEGWaitsWithoutMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("it only computes")
	}
	if !turbojpeg.Available() {
		t.Skip("libturbojpeg is not installed")
	}
	const width, height = 8192, 2816
	const pixels = width * height // more than keepBytes of RGB
	whole := jpegOf(0xc2, width, height, 0x11)
	scan := bytes.LastIndex(whole, []byte{0xff, 0xda})
	file := slices.Concat(whole[:len(whole)-2], []byte{1, 2, 3, 4}, whole[scan:]) // which comes twice
	try := func(limit int64, decode func(d *Decoder) error) error {
		d := NewDecoder(Options{MaxBytes: limit})
		defer d.Close()
		return decode(d)
	}
	// 5 bytes a pixel for either, and the result beside it.
	sample := func(d *Decoder) error {
		return d.DecodeTransformed(context.Background(), make([]byte, 12), file, CenterCrop(2), 0)
	}
	if err := try(5*pixels, sample); err != nil {
		t.Error(err)
	}
	var m Image
	picture := func(d *Decoder) error { return d.Decode(context.Background(), &m, file) }
	if err := try(8*pixels-1, picture); !errors.Is(err, ErrTooLarge) || m.Pix != nil {
		t.Errorf("%v, %d bytes, want %v and none", err, len(m.Pix), ErrTooLarge)
	}
	if err := try(8*pixels, picture); err != nil || len(m.Pix) != 3*pixels {
		t.Errorf("%v, %d bytes, want %d", err, len(m.Pix), 3*pixels)
	}
}
