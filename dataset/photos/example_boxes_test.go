package photos_test

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/photos"
	"github.com/pinion-gpu/pinion/imaging"
)

// Two boxes of a photo of 400x200, of which the middle becomes a sample: the first
// is cut, of the second nothing is left. A loader that has the photos, and these
// among its Targets, makes the visits.
func ExampleNewBoxes() {
	rows := []float32{
		50, 40, 150, 140, 7, // left, top, right, bottom, class
		0, 0, 90, 200, 3,
	}
	boxes, err := dataset.NewMemoryRaggedOf(rows, []int{5}, []int64{0, 2}, dataset.MemoryOptions{})
	if err != nil {
		panic(err)
	}
	moved, err := photos.NewBoxes(boxes, imaging.CenterCrop(100), photos.BoxOptions{})
	if err != nil {
		panic(err)
	}
	r, err := moved.NewReader()
	if err != nil {
		panic(err)
	}
	defer r.Close()
	sample := make([]byte, dataset.SampleBytes(moved, 0))
	visit := dataset.Visit{Frame: &dataset.Frame{Width: 400, Height: 200}} // as reading the photo leaves it
	if err := r.Read(context.Background(), visit, sample); err != nil {
		panic(err)
	}
	if _, err := binary.Decode(sample, binary.NativeEndian, rows); err != nil {
		panic(err)
	}
	fmt.Println(rows[:5])
	fmt.Println(rows[5:])
	// Output:
	// [0 20 25 70 7]
	// [0 0 0 0 3]
}
