package dataset_test

import (
	"context"
	"fmt"

	"github.com/pinion-gpu/pinion/dataset"
)

// Two sentences of tokens. Their lengths are known before they are read.
func ExampleNewMemoryRaggedOf() {
	tokens := []int32{5, 17, 2, 40, 8}
	offsets := []int64{0, 3, 5}
	sentences, err := dataset.NewMemoryRaggedOf(tokens, nil, offsets, dataset.MemoryOptions{})
	if err != nil {
		panic(err)
	}
	fmt.Println(sentences.Len(), "samples of", sentences.Spec())
	r, err := sentences.NewReader()
	if err != nil {
		panic(err)
	}
	defer r.Close()
	for i := range sentences.Len() {
		sample := make([]byte, dataset.SampleBytes(sentences, i))
		if err := r.Read(context.Background(), dataset.Visit{Index: i}, sample); err != nil {
			panic(err)
		}
		fmt.Println(sentences.Length(i), "tokens, first", sample[0])
	}
	// Output:
	// 2 samples of <=3 i32
	// 3 tokens, first 5
	// 2 tokens, first 40
}
