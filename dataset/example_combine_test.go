package dataset_test

import (
	"context"
	"fmt"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dtype"
)

// Ten samples in memory, doubled, and dealt out for training and validation.
func ExampleRandomSplit() {
	all, err := dataset.NewMemoryOf([]uint8{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, nil, dataset.MemoryOptions{})
	if err != nil {
		panic(err)
	}
	doubled, err := dataset.NewMap(all, dataset.Spec{DType: dtype.U8}, func(_ context.Context, _ dataset.Visit, dst, src []byte) error {
		dst[0] = 2 * src[0]
		return nil
	})
	if err != nil {
		panic(err)
	}
	counts, err := dataset.SplitCounts(doubled.Len(), []float64{0.8, 0.2})
	if err != nil {
		panic(err)
	}
	parts, err := dataset.RandomSplit(doubled, counts, 1)
	if err != nil {
		panic(err)
	}
	for _, part := range parts {
		r, err := part.NewReader()
		if err != nil {
			panic(err)
		}
		sample := make([]byte, part.Spec().Bytes())
		for i := range part.Len() {
			if err := r.Read(context.Background(), dataset.Visit{Index: i}, sample); err != nil {
				panic(err)
			}
			fmt.Print(sample[0], " ")
		}
		r.Close()
		fmt.Println("of", part.Spec())
	}
	// Output:
	// 2 4 6 8 12 14 16 18 of scalar u8
	// 0 10 of scalar u8
}
