package sampler_test

import (
	"fmt"
	"log"

	"github.com/pinion-gpu/pinion/sampler"
)

func Example() {
	const n, seed, epoch, size = 10, 42, 3, 4
	for rank := range 2 {
		order, err := sampler.NewRandom(n, seed)
		if err != nil {
			log.Fatal(err)
		}
		mine, err := sampler.NewDistributed(order, rank, 2, false)
		if err != nil {
			log.Fatal(err)
		}
		batches, err := sampler.NewBatches(mine, size, false)
		if err != nil {
			log.Fatal(err)
		}
		for k := range batches.Len() {
			fmt.Println("rank", rank, "batch", k, batches.AppendAt(nil, epoch, k))
		}
	}
	// Output:
	// rank 0 batch 0 [3 8 9 5]
	// rank 0 batch 1 [1]
	// rank 1 batch 0 [6 0 2 4]
	// rank 1 batch 1 [7]
}

// A job that stopped needs its epoch and position to go on.
func ExampleRandom() {
	order, err := sampler.NewRandom(1_000_000_000, 7)
	if err != nil {
		log.Fatal(err)
	}
	const epoch, stoppedAt = 2, 123_456_789
	for k := stoppedAt; k < stoppedAt+3; k++ {
		index := order.At(epoch, k)
		fmt.Println(index, "is visited at", order.Position(epoch, index))
	}
	// Output:
	// 471150052 is visited at 123456789
	// 541227564 is visited at 123456790
	// 303234051 is visited at 123456791
}

// Classes of 6 and 2 samples come equally often.
func ExampleWeighted() {
	classes := []int{0, 0, 0, 0, 0, 0, 1, 1}
	size := []float64{6, 2}
	weights := make([]float64, len(classes))
	for i, class := range classes {
		weights[i] = 1 / size[class]
	}
	order, err := sampler.NewWeighted(weights, 10_000, 1)
	if err != nil {
		log.Fatal(err)
	}
	var drawn [2]int
	for k := range order.Len() {
		drawn[classes[order.At(0, k)]]++
	}
	fmt.Println(drawn)
	// Output:
	// [5003 4997]
}

func ExampleByLength() {
	lengths := []int{12, 3, 11, 90, 4, 88, 3, 13, 91}
	byLength, err := sampler.NewByLength(lengths, sampler.ByLengthOptions{Size: 3, Bucket: 1, Seed: 1})
	if err != nil {
		log.Fatal(err)
	}
	for k := range byLength.Len() {
		var batch []int
		for _, i := range byLength.AppendAt(nil, 0, k) {
			batch = append(batch, lengths[i])
		}
		fmt.Println(batch)
	}
	padding, err := sampler.PaddingOf(byLength, lengths, 0)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(padding)
	// Output:
	// [11 13 12]
	// [4 3 3]
	// [88 91 90]
	// 2.8% padding: 315 used of 324
}

func ExampleShuffleBuffer() {
	buffer, err := sampler.NewShuffleBuffer[string](3, 1, 0)
	if err != nil {
		log.Fatal(err)
	}
	for _, key := range []string{"a", "b", "c", "d", "e", "f"} {
		if out, ok := buffer.Push(key); ok {
			fmt.Print(out, " ")
		}
	}
	for out, ok := buffer.Pop(); ok; out, ok = buffer.Pop() {
		fmt.Print(out, " ")
	}
	// Output:
	// a c d b e f
}
