package imaging_test

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"

	"github.com/pinion-gpu/pinion/imaging"
)

func Example() {
	// A file of any name: half red, half blue.
	picture := image.NewNRGBA(image.Rect(0, 0, 40, 20))
	for i := range 40 * 20 {
		c := color.NRGBA{R: 200, A: 255}
		if i%40 >= 20 {
			c = color.NRGBA{B: 100, A: 255}
		}
		picture.Set(i%40, i/40, c)
	}
	var file bytes.Buffer
	if err := png.Encode(&file, picture); err != nil {
		panic(err)
	}

	d := imaging.NewDecoder(imaging.Options{})
	defer d.Close()
	g := imaging.CenterCrop(4)
	dst := make([]byte, g.Bytes())
	if err := d.DecodeTransformed(dst, file.Bytes(), g, 0); err != nil {
		panic(err)
	}
	fmt.Println(g)
	for x := range 4 {
		fmt.Println(dst[3*x : 3*x+3])
	}
	// Output:
	// center:4
	// [200 0 0]
	// [176 0 12]
	// [24 0 88]
	// [0 0 100]
}
