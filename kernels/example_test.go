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

func ExampleSet_Normalize() {
	dev, err := device.Open("host")
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	set, err := kernels.Load(dev)
	if err != nil {
		log.Fatal(err)
	}
	defer set.Close()
	stream, err := dev.NewStream()
	if err != nil {
		log.Fatal(err)
	}

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
