package trace_test

import (
	"bytes"
	"fmt"
	"log"
	"strings"

	"github.com/pinion-gpu/pinion/vram/trace"
)

func Example() {
	const rmm = `Thread,Time,Action,Pointer,Size,Stream
3011,12:34:56.789012,allocate,0x7f2a40000000,1024,0x0
3011,12:34:56.789031,free,0x7f2a40000000,1024,0x0
3011,12:34:56.789040,allocate,0x7f2a40000000,4096,0x55d0
`
	r, err := trace.NewReader(strings.NewReader(rmm), trace.Options{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Format())
	for e, err := range r.All() {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(e.Op, e.ID, e.Bytes, "stream", e.Stream, e.Time)
	}
	// Output:
	// csv
	// alloc 1 1024 stream 0 0s
	// free 1 1024 stream 0 19µs
	// alloc 2 4096 stream 1 28µs
}

func ExampleRandom() {
	events, err := trace.Random(trace.RandomOptions{Count: 3, Max: 1000, Live: 1500, Seed: 1})
	if err != nil {
		log.Fatal(err)
	}
	var out bytes.Buffer
	w := trace.NewWriter(&out)
	for e := range events {
		if err := w.Write(e); err != nil {
			log.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		log.Fatal(err)
	}
	fmt.Print(out.String())
	// Output:
	// {"op":"alloc","id":1,"bytes":599,"stream":0}
	// {"op":"alloc","id":2,"bytes":90,"stream":0}
	// {"op":"alloc","id":3,"bytes":716,"stream":0}
	// {"op":"free","id":1}
	// {"op":"free","id":3}
	// {"op":"free","id":2}
}

func ExampleReader_All() {
	const text = `{"op":"alloc","id":7,"bytes":4096,"stream":0}
{"op":"free","id":8}
`
	r, err := trace.NewReader(strings.NewReader(text), trace.Options{})
	if err != nil {
		log.Fatal(err)
	}
	for e, err := range r.All() {
		if err != nil {
			fmt.Println(err)
			break
		}
		fmt.Println(e.Op, e.ID)
	}
	// Output:
	// alloc 7
	// trace: malformed trace: line 2: a free of a block that is not live: `{"op":"free","id":8}`
}
