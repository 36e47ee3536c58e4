package attention_test

import (
	"encoding/binary"
	"fmt"

	"github.com/pinion-gpu/pinion/device"
	_ "github.com/pinion-gpu/pinion/device/host"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/float16"
	"github.com/pinion-gpu/pinion/kvcache"
	"github.com/pinion-gpu/pinion/kvcache/attention"
)

// A prompt of three tokens, whose values are 1, 2 and 6: each attends to those before it and to
// itself, and to all alike, since all keys are the same.
func Example() {
	dev, err := device.Open("host")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer dev.Close()
	if err := run(dev); err != nil {
		fmt.Println(err)
	}
	// Output: [1 1.5 3]
}

func run(dev device.Device) error {
	set, err := attention.Load(dev)
	if err != nil {
		return err
	}
	defer set.Close()
	stream, err := dev.NewStream()
	if err != nil {
		return err
	}
	defer stream.Close()
	upload := func(values any) device.Ptr { // freed with the device
		b, _ := binary.Append(nil, binary.LittleEndian, values)
		p, _ := dev.Alloc(int64(len(b)))
		_ = stream.CopyH2D(p, b)
		return p
	}

	cache, err := kvcache.New(kvcache.Options{Blocks: 4})
	if err != nil {
		return err
	}
	s, err := cache.Open("tenant", []int32{11, 12, 13})
	if err != nil {
		return err
	}
	defer s.Close()

	const width = 64
	values := make([]uint16, 3*width)
	for i := range values {
		values[i] = float16.ToBF16([]float32{1, 2, 6}[i/width])
	}
	ones := make([]uint16, 3*width)
	for i := range ones {
		ones[i] = float16.ToBF16(1)
	}
	l := attention.Layout{Type: dtype.BF16, Pages: upload(make([]byte, 4<<12)), Blocks: 4, BlockBytes: 4 << 10, BlockTokens: 16, Values: 2 << 10, Heads: 1, Width: width}
	rows := attention.Rows{N: 3, Sequence: upload([]int32{0, 0, 0}), Length: upload([]int32{1, 2, 3}), Tables: upload(s.Table()), Sequences: 1, TableWidth: len(s.Table())}
	out := upload(make([]uint16, 3*width))
	if err := set.Store(stream, l, rows, upload(ones), upload(values)); err != nil {
		return err
	}
	if err := set.Attend(stream, l, attention.Query{Rows: rows, Query: upload(ones), Out: out, Heads: 1}); err != nil {
		return err
	}
	b := make([]byte, 3*width*2)
	if err := stream.CopyD2H(b, out); err != nil {
		return err
	}
	if err := stream.Synchronize(); err != nil {
		return err
	}
	var got []float32
	for row := range 3 {
		got = append(got, float16.FromBF16(binary.LittleEndian.Uint16(b[row*width*2:])))
	}
	fmt.Println(got)
	return s.Computed(s.Len())
}
