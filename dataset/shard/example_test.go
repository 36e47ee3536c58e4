package shard_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/pinion-gpu/pinion/dataset/shard"
)

func Example() {
	tmp, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(tmp)
	dir := filepath.Join(tmp, "train")
	w, err := shard.NewWriter(dir, shard.WriterOptions{Prefix: "train-", ShardBytes: 8 << 10})
	if err != nil {
		log.Fatal(err)
	}
	for i := range 5 {
		key := fmt.Sprintf("n01/%04d", i)
		if err := w.Write(key,
			shard.Part{Extension: "txt", Content: fmt.Appendf(nil, "the caption of %d", i)},
			shard.Part{Extension: "cls", Content: fmt.Append(nil, i%2)}); err != nil {
			log.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		log.Fatal(err)
	}

	// Or "https://example.org/train-{000000..000001}.tar".
	set, err := shard.Open(context.Background(), dir, shard.Options{NoCache: true})
	if err != nil {
		log.Fatal(err)
	}
	defer set.Close()
	for i := range set.Len() {
		caption, err := set.Read(context.Background(), i, "txt", nil)
		if err != nil {
			log.Fatal(err)
		}
		name, _ := filepath.Rel(dir, set.Name(i))
		fmt.Println(filepath.ToSlash(name), set.Label(i), string(caption))
	}
	// Output:
	// train-000000.tar/n01/0000 0 the caption of 0
	// train-000000.tar/n01/0001 1 the caption of 1
	// train-000000.tar/n01/0002 0 the caption of 2
	// train-000001.tar/n01/0003 1 the caption of 3
	// train-000001.tar/n01/0004 0 the caption of 4
}
