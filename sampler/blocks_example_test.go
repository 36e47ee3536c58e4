package sampler_test

import (
	"fmt"
	"log"

	"github.com/pinion-gpu/pinion/sampler"
)

// Three shards of 4, 2 and 3 samples, two of which are read at a time.
func ExampleBlocks() {
	order, err := sampler.NewBlocks([]int{4, 2, 3}, 2, 1)
	if err != nil {
		log.Fatal(err)
	}
	for epoch := range 2 {
		var list []int
		for k := range order.Len() {
			list = append(list, order.At(epoch, k))
		}
		fmt.Println(list)
	}
	// Output:
	// [4 7 5 6 8 3 1 0 2]
	// [4 5 8 6 7 3 1 0 2]
}
