package nvjpeg_test

import (
	"errors"
	"fmt"
	"os"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/imaging/nvjpeg"
)

func ExampleParse() {
	for _, name := range []string{"420.jpg", "gray.jpg", "progressive.jpg"} {
		file, err := os.ReadFile("../testdata/" + name)
		if err != nil {
			panic(err)
		}
		j, err := nvjpeg.Parse(file)
		if err != nil {
			panic(err)
		}
		fmt.Println(name, j.Width, j.Height, j.Components, j.Progressive)
	}
	// Output:
	// 420.jpg 37 29 3 false
	// gray.jpg 37 29 1 false
	// progressive.jpg 37 29 3 true
}

// A batch of files is decoded side by side into one allocation. Those that the
// device does not take are left to the CPU.
func ExampleDecoder_Decode() {
	batch := func(dev device.Device, s device.Stream, files [][]byte, side int) (device.Ptr, []int, error) {
		d, err := nvjpeg.Open(dev, nvjpeg.Options{})
		if err != nil {
			return 0, nil, err
		}
		defer d.Close()
		stride := int64(3 * side * side)
		pixels, err := dev.Alloc(stride * int64(len(files)))
		if err != nil {
			return 0, nil, err
		}
		var onCPU []int    // indices of files
		var onDevice []int // that of each picture's file
		var pictures []nvjpeg.Picture
		for i, file := range files {
			j, err := nvjpeg.Parse(file)
			if err != nil || !d.Supports(j.Header) || j.Width > side || j.Height > side {
				onCPU = append(onCPU, i)
				continue
			}
			onDevice = append(onDevice, i)
			pictures = append(pictures, nvjpeg.Picture{JPEG: j, Dst: pixels.Add(stride * int64(i)), Pitch: 3 * side})
		}
		err = d.Decode(s, pictures)
		if refused := (*nvjpeg.RefusedError)(nil); errors.As(err, &refused) {
			for _, r := range refused.Pictures {
				onCPU = append(onCPU, onDevice[r.Index])
			}
			err = nil
		}
		return pixels, onCPU, err
	}
	_ = batch // needs a GPU
}
