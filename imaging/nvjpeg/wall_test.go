package nvjpeg

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/imaging"
)

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
	if standIns.File == "" {
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
