package jsonscan_test

import (
	"fmt"

	"github.com/pinion-gpu/pinion/internal/jsonscan"
)

func ExampleObject() {
	err := jsonscan.Object([]byte(`{"op":"alloc","bytes":4096,"more":{"a":[1,2]}}`), func(key, value []byte) error {
		fmt.Printf("%s = %s\n", key, value)
		return nil
	})
	fmt.Println(err)
	fmt.Println(jsonscan.Object([]byte(`{"op":}`), func(key, value []byte) error { return nil }))
	// Output:
	// op = "alloc"
	// bytes = 4096
	// more = {"a":[1,2]}
	// <nil>
	// a value is missing at column 7
}
