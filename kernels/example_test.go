package kernels_test

import (
	"encoding/binary"
	"fmt"
	"log"
	"math"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/kernels"
)

// openHost opens what every call needs. A GPU is device.Open("cuda:0").
func openHost() (device.Device, *kernels.Set, device.Stream) {
	dev, err := device.Open("host")
	if err != nil {
		log.Fatal(err)
	}
	set, err := kernels.Load(dev)
	if err != nil {
		log.Fatal(err)
	}
	stream, err := dev.NewStream()
	if err != nil {
		log.Fatal(err)
	}
	return dev, set, stream
}

func ExampleSet_Normalize() {
	dev, set, stream := openHost()
	defer dev.Close()
	defer set.Close()

	// One image of 1 x 2 pixels with three channels, as a decoder makes it.
	image := []byte{0, 51, 255, 255, 102, 0}
	src, err := dev.Alloc(int64(len(image)))
	if err != nil {
		log.Fatal(err)
	}
	dst, err := dev.Alloc(int64(len(image)) * 4)
	if err != nil {
		log.Fatal(err)
	}
	if err := stream.CopyH2D(src, image); err != nil {
		log.Fatal(err)
	}
	if err := set.Normalize(stream, kernels.Normalize{
		Dst: dst, DType: dtype.F32, Src: src, N: 1, C: 3, H: 1, W: 2,
		Mean: []float64{0.5, 0.5, 0.5}, Std: []float64{0.5, 0.5, 0.5},
	}); err != nil {
		log.Fatal(err)
	}
	planes := make([]byte, len(image)*4)
	if err := stream.CopyD2H(planes, dst); err != nil {
		log.Fatal(err)
	}
	if err := stream.Synchronize(); err != nil {
		log.Fatal(err)
	}
	for c := range 3 {
		left := math.Float32frombits(binary.LittleEndian.Uint32(planes[8*c:]))
		right := math.Float32frombits(binary.LittleEndian.Uint32(planes[8*c+4:]))
		fmt.Printf("channel %d: %4.1f %4.1f\n", c, left, right)
	}
	// Output:
	// channel 0: -1.0  1.0
	// channel 1: -0.6 -0.2
	// channel 2:  1.0 -1.0
}

func ExampleSet_Resample() {
	dev, set, stream := openHost()
	defer dev.Close()
	defer set.Close()
	upload := func(content []byte, size int64) device.Ptr {
		p, err := dev.Alloc(size)
		if err != nil {
			log.Fatal(err)
		}
		if err := stream.CopyH2D(p, content); err != nil {
			log.Fatal(err)
		}
		return p
	}

	// A picture of 4 x 1 pixels. Its right half becomes a sample of 2 x 1
	// pixels, and its left half, mirrored, another.
	picture := []byte{0, 0, 0, 80, 80, 80, 160, 160, 160, 240, 240, 240}
	left := kernels.Picture{
		Src: upload(picture, int64(len(picture))), Pitch: 12, Width: 4, Height: 1,
		X:      kernels.Axis{Length: 2, Out: 2},
		Y:      kernels.Axis{Length: 1, Out: 1},
		Mirror: true,
	}
	right := left
	right.X.Offset, right.Mirror = 2, false

	table, err := kernels.NewResampleTable(2, 1)
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range []kernels.Picture{right, left} {
		if err := table.Add(p); err != nil {
			log.Fatal(err)
		}
	}
	samples := make([]byte, table.Len()*2*1*3)
	dst, err := dev.Alloc(int64(len(samples)))
	if err != nil {
		log.Fatal(err)
	}
	if err := set.Resample(stream, dst, table, upload(table.Bytes(), table.DeviceBytes())); err != nil {
		log.Fatal(err)
	}
	if err := stream.CopyD2H(samples, dst); err != nil {
		log.Fatal(err)
	}
	if err := stream.Synchronize(); err != nil {
		log.Fatal(err)
	}
	fmt.Println("right:         ", samples[:6])
	fmt.Println("left, mirrored:", samples[6:])
	// Output:
	// right:          [160 160 160 240 240 240]
	// left, mirrored: [80 80 80 0 0 0]
}
