package dataset_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dtype"
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

// The field "input.tokens" of each line is a sample, "class" its label.
func ExampleOpenJSONLines() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "train.jsonl")
	lines := `{"class": 1, "input": {"tokens": [5, 17, 2]}}
{"class": 0, "input": {"tokens": [40, 8]}}
`
	if err := os.WriteFile(path, []byte(lines), 0o600); err != nil {
		panic(err)
	}
	sentences, err := dataset.OpenJSONLines(context.Background(), path, dataset.JSONOptions{
		Field: "input.tokens", Label: "class", DType: dtype.I64, Ragged: true,
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(sentences.Len(), "samples of", sentences.Spec(), "- the first is of class", sentences.Label(0))
	// Output: 2 samples of <=3 i64 - the first is of class 1
}
