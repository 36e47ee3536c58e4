package jsonl_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pinion-gpu/pinion/dataset/jsonl"
	"github.com/pinion-gpu/pinion/dtype"
)

// The field "input.tokens" of each line is a sample, "class" its label.
func ExampleOpen() {
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
	sentences, err := jsonl.Open(context.Background(), path, jsonl.Options{
		Field: "input.tokens", Label: "class", DType: dtype.I64, Ragged: true,
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(sentences.Len(), "samples of", sentences.Spec(), "- the first is of class", sentences.Label(0))
	// Output: 2 samples of <=3 i64 - the first is of class 1
}
