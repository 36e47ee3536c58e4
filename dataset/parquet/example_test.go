package parquet_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"log"
	"math"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/parquet"
	"github.com/pinion-gpu/pinion/sampler"
)

func Example() {
	ds, err := parquet.Open(context.Background(), "testdata/parquet-go.parquet", parquet.Options{Columns: []string{"a"}, Label: "label"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(ds.Len(), "samples of", ds.Spec(), "in row groups of", ds.Shards())

	r, err := ds.NewReader()
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	sample := make([]byte, ds.Spec().Bytes())
	for i := range ds.Len() {
		if err := r.Read(context.Background(), dataset.Visit{Index: i}, sample); err != nil {
			log.Fatal(err)
		}
		fmt.Println(ds.Name(i), math.Float32frombits(binary.LittleEndian.Uint32(sample)), "label", ds.Label(i))
	}
	// Output:
	// 5 samples of 1 f32 in row groups of [3 2]
	// testdata/parquet-go.parquet[0] 0 label 0
	// testdata/parquet-go.parquet[1] 0.5 label 1
	// testdata/parquet-go.parquet[2] 1 label 0
	// testdata/parquet-go.parquet[3] 1.5 label 1
	// testdata/parquet-go.parquet[4] 2 label 0
}

// The samples of a row group come near to each other.
func ExampleDataset_Shards() {
	ds, err := parquet.Open(context.Background(), "testdata/parquet-go.parquet", parquet.Options{Columns: []string{"a"}})
	if err != nil {
		log.Fatal(err)
	}
	order, err := sampler.NewBlocks(ds.Shards(), 1, 7)
	if err != nil {
		log.Fatal(err)
	}
	for k := range order.Len() {
		fmt.Println(ds.Name(order.At(0, k)))
	}
	// Output:
	// testdata/parquet-go.parquet[3]
	// testdata/parquet-go.parquet[4]
	// testdata/parquet-go.parquet[1]
	// testdata/parquet-go.parquet[0]
	// testdata/parquet-go.parquet[2]
}
