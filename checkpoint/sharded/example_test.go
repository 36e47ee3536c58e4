package sharded_test

import (
	"context"
	"fmt"
	"os"

	"github.com/pinion-gpu/pinion/checkpoint/sharded"
	"github.com/pinion-gpu/pinion/safetensors"
)

// One rank saves, and reads a part. Several give their communicator, and their own pieces.
func Example() {
	folder, err := os.MkdirTemp("", "sharded")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(folder)
	ctx := context.Background()
	err = sharded.Save(ctx, folder, nil, []sharded.Piece{{
		Name: "w", Type: safetensors.U8, Shape: []int64{2, 4}, N: 8,
		Read: func(data []byte) error { copy(data, "abcdefgh"); return nil },
	}}, sharded.SaveOptions{Meta: map[string]string{"step": "100"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ck, err := sharded.Open(folder)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer ck.Close()
	data := make([]byte, 3)
	if err := ck.Read(ctx, "w", 2, data); err != nil {
		fmt.Println(err)
	}
	fmt.Printf("%s, of step %s\n", data, ck.Meta["step"])
	// Output: cde, of step 100
}
