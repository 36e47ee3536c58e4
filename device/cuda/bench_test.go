package cuda_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/cuda"
)

// benchDevice is the first GPU, where PINION_DEVICE asks for one.
func benchDevice(b *testing.B) *cuda.Device {
	b.Helper()
	if !strings.HasPrefix(os.Getenv("PINION_DEVICE"), "cuda") {
		b.Skip("PINION_DEVICE names no CUDA device")
	}
	dev, err := cuda.Open(0)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { dev.Close() })
	return dev
}

// BenchmarkMap maps chunks with one call and unmaps them with another.
func BenchmarkMap(b *testing.B) {
	dev := benchDevice(b)
	unit, err := dev.Granularity()
	if err != nil {
		b.Fatal(err)
	}
	for _, count := range []int{1, 16, 256} {
		for _, mib := range []int64{2, 20} {
			b.Run(fmt.Sprintf("%dx%dMiB", count, mib), func(b *testing.B) {
				n := mib << 20 / unit * unit
				p, err := dev.Reserve(int64(count) * n)
				if err != nil {
					b.Fatal(err)
				}
				chunks := make([]device.Chunk, count)
				for i := range chunks {
					if chunks[i], err = dev.CreateChunk(n); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportAllocs()
				for b.Loop() {
					if err := dev.Map(p, chunks, n); err != nil {
						b.Fatal(err)
					}
					if err := dev.Unmap(p, int64(count)*n); err != nil {
						b.Fatal(err)
					}
				}
				for _, c := range chunks {
					if err := dev.ReleaseChunk(c); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkAllocAsync allocates and frees in the order of a stream, from a
// pool that keeps the memory.
func BenchmarkAllocAsync(b *testing.B) {
	dev := benchDevice(b)
	s, err := dev.NewStream()
	if err != nil {
		b.Fatal(err)
	}
	if err := dev.SetReleaseThreshold(1 << 30); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		p, err := dev.AllocAsync(s, 1<<20)
		if err != nil {
			b.Fatal(err)
		}
		if err := dev.FreeAsync(s, p); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRecord compares an event behind one stream with one behind all.
func BenchmarkRecord(b *testing.B) {
	dev := benchDevice(b)
	e, err := dev.NewEvent(device.EventNoTiming)
	if err != nil {
		b.Fatal(err)
	}
	var streams []device.Stream
	for range 8 {
		s, err := dev.NewStream()
		if err != nil {
			b.Fatal(err)
		}
		streams = append(streams, s)
	}
	for name, record := range map[string]func() error{
		"one": func() error { return streams[0].Record(e) },
		"all": func() error { return dev.RecordAll(e) },
	} {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				if err := record(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
