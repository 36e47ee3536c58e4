package imaging_test

import (
	"bytes"
	"context"
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
	t, err := imaging.ParseTransform("center:4,flip:1", 224)
	if err != nil {
		panic(err)
	}
	dst := make([]byte, t.Bytes())
	if err := d.DecodeTransformed(context.Background(), dst, file.Bytes(), t, 0); err != nil {
		panic(err)
	}
	fmt.Println(t)
	for x := range 4 {
		fmt.Println(dst[3*x : 3*x+3])
	}
	// Output:
	// center:4,flip:1
	// [0 0 100]
	// [24 0 88]
	// [176 0 12]
	// [200 0 0]
}

func ExampleTransform_Plan() {
	// The box of one sample in one visit, and the same box in any process.
	t := imaging.RandomResizedCrop(224)
	p := t.Plan(500, 375, 1)
	fmt.Printf("%d x %d pixels at %d, %d\n", p.X.Length, p.Y.Length, p.X.Offset, p.Y.Offset)
	// Output: 324 x 283 pixels at 139, 29
}
