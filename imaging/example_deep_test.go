package imaging_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"log"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/imaging"
)

// All 16 bits of a depth map.
func ExampleOptions() {
	depth := image.NewGray16(image.Rect(0, 0, 2, 1))
	depth.SetGray16(1, 0, color.Gray16{Y: 1234}) // millimetres
	var file bytes.Buffer
	if err := png.Encode(&file, depth); err != nil {
		log.Fatal(err)
	}
	d := imaging.NewDecoder(imaging.Options{DType: dtype.U16, Channels: 1})
	defer d.Close()
	var m imaging.Image
	if err := d.Decode(context.Background(), &m, file.Bytes()); err != nil {
		log.Fatal(err)
	}
	for i := 0; i < len(m.Pix); i += 2 {
		fmt.Println(binary.LittleEndian.Uint16(m.Pix[i:]))
	}
	// Output:
	// 0
	// 1234
}
