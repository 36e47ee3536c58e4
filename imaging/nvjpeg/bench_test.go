package nvjpeg

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
)

// BenchmarkDecode decodes photos of 500x375 pixels and waits for them, from
// ordinary memory and from pinned.
//
//	PINION_DEVICE=cuda:0 go test -bench Decode ./imaging/nvjpeg
func BenchmarkDecode(b *testing.B) {
	for _, backend := range []Backend{Hardware, CUDA} {
		for _, n := range []int{16, 64, 256} {
			for _, pinned := range []bool{false, true} {
				b.Run(fmt.Sprintf("backend=%d/batch=%d/pinned=%t", backend, n, pinned), func(b *testing.B) {
					dev, d := openDecoder(b, Options{Backend: backend})
					w := newWall(b, dev, photos(b, dev, n, pinned)...)
					benchmark(b, d, w, func(int) []Picture { return w.pictures })
				})
			}
		}
	}
}

// BenchmarkDecodeVaried decodes batches of 60 to 64 photos in turn, as where
// some are refused.
func BenchmarkDecodeVaried(b *testing.B) {
	dev, d := openDecoder(b, Options{})
	w := newWall(b, dev, photos(b, dev, 64, false)...)
	benchmark(b, d, w, func(i int) []Picture { return w.pictures[i%5:] })
}

// BenchmarkDecoders decodes batches of 64 photos with several decoders beside
// each other.
func BenchmarkDecoders(b *testing.B) {
	for _, n := range []int{1, 2, 4} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			dev := openDevice(b)
			jpegs := photos(b, dev, 64, false)
			var decoders []*Decoder
			var walls []*wall
			for range n {
				d, err := Open(dev, Options{})
				if err != nil {
					b.Fatal(err)
				}
				defer d.Close()
				decoders, walls = append(decoders, d), append(walls, newWall(b, dev, jpegs...))
			}
			for b.Loop() {
				var group sync.WaitGroup
				for i, w := range walls {
					group.Go(func() {
						for range 8 {
							if err := errors.Join(decoders[i].Decode(w.stream, w.pictures), w.stream.Synchronize()); err != nil {
								b.Error(err)
							}
						}
					})
				}
				group.Wait()
			}
			b.ReportMetric(float64(b.N*8*n*64)/b.Elapsed().Seconds(), "photos/s")
		})
	}
}

func benchmark(b *testing.B, d *Decoder, w *wall, batch func(i int) []Picture) {
	done := 0
	for i := 0; b.Loop(); i++ {
		pictures := batch(i)
		if err := d.Decode(w.stream, pictures); err != nil {
			b.Fatal(err)
		}
		if err := w.stream.Synchronize(); err != nil {
			b.Fatal(err)
		}
		done += len(pictures)
	}
	b.ReportMetric(float64(done)/b.Elapsed().Seconds(), "photos/s")
}

// photos are n JPEGs, of 64 different photos.
func photos(b *testing.B, dev device.Device, n int, pinned bool) (jpegs []JPEG) {
	for i := range n {
		data := photo(b, i%64+1)
		if pinned {
			host, err := devicetest.As[device.HostAllocator](b, dev).AllocHost(int64(len(data)), 0)
			if err != nil {
				b.Fatal(err)
			}
			copy(host, data)
			data = host
		}
		jpegs = append(jpegs, parse(b, slices.Clip(data)))
	}
	return jpegs
}
