package nvjpeg

import (
	"errors"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/host"
	"github.com/pinion-gpu/pinion/imaging"
	"github.com/pinion-gpu/pinion/internal/dl"
)

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
	if standIns.File == "" {
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
	if standIns.File == "" {
		t.Skip("the library is there")
	}
	openDevice(t)
	loaded := api
	t.Cleanup(func() { api = loaded })
	fails := func(want string) {
		t.Helper()
		_, _, err := load()
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
	t.Setenv("PINION_LIB_NVJPEG", standIns.File+".none")
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
