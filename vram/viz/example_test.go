package viz_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/pinion-gpu/pinion/device"
	_ "github.com/pinion-gpu/pinion/device/host"
	"github.com/pinion-gpu/pinion/vram"
	"github.com/pinion-gpu/pinion/vram/viz"
)

// The file opens at https://pytorch.org/memory_viz.
func ExampleWriteTorch() {
	dev, err := device.Open("host:1GiB")
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	pool, err := vram.New(dev, vram.Options{History: 10_000, Stacks: vram.StacksSampled})
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	block, err := pool.Alloc(context.Background(), 1<<20, vram.Use{Purpose: vram.Activations, Name: "layer 3"})
	if err != nil {
		log.Fatal(err)
	}
	defer block.Free()

	var file bytes.Buffer // or a file, such as snapshot.pickle
	if err := viz.WriteTorch(&file, pool.Snapshot()); err != nil {
		log.Fatal(err)
	}
	fmt.Println(bytes.Contains(file.Bytes(), []byte("activations: layer 3")))
	// Output: true
}

// snapshot is of a pool that had a batch for 2 ms.
func snapshot() vram.Snapshot {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s := vram.Snapshot{
		Device: "cuda:0", Start: start, Time: start.Add(5 * time.Millisecond),
		Events: []vram.Event{
			{Kind: vram.EventMap, Time: 900 * time.Microsecond, Address: 0x7f0000000000, Bytes: 2 << 20},
			{Kind: vram.EventAlloc, Time: time.Millisecond, Purpose: vram.Batch, Name: "images", Address: 0x7f0000000000, Bytes: 4096, Asked: 4000},
			{Kind: vram.EventFree, Time: 3 * time.Millisecond, Purpose: vram.Batch, Name: "images", Address: 0x7f0000000000, Bytes: 4096, Asked: 4000},
		},
	}
	s.Stats.Reserved.Current = 2 << 20
	return s
}

// The file opens at https://ui.perfetto.dev.
func ExampleWriteChrome() {
	if err := viz.WriteChrome(os.Stdout, snapshot()); err != nil {
		log.Fatal(err)
	}
	// Output:
	// {"displayTimeUnit":"ms","otherData":{"device":"cuda:0","start":"2026-03-01T12:00:00Z","time_seconds":0.005000000,"events":3,"dropped_events":0,"allocated_bytes":0,"reserved_bytes":2097152},"traceEvents":[
	// {"name":"process_name","ph":"M","pid":1,"tid":0,"args":{"name":"vram cuda:0"}},
	// {"name":"allocated","ph":"C","ts":900.000,"pid":1,"tid":0,"args":{"bytes":0}},
	// {"name":"reserved","ph":"C","ts":900.000,"pid":1,"tid":0,"args":{"bytes":0}},
	// {"name":"reserved","ph":"C","ts":900.000,"pid":1,"tid":0,"args":{"bytes":2097152}},
	// {"name":"allocated","ph":"C","ts":1000.000,"pid":1,"tid":0,"args":{"bytes":4096}},
	// {"name":"batch","ph":"C","ts":1000.000,"pid":1,"tid":0,"args":{"bytes":4096}},
	// {"name":"allocated","ph":"C","ts":3000.000,"pid":1,"tid":0,"args":{"bytes":0}},
	// {"name":"batch","ph":"C","ts":3000.000,"pid":1,"tid":0,"args":{"bytes":0}},
	// {"name":"allocated","ph":"C","ts":5000.000,"pid":1,"tid":0,"args":{"bytes":0}},
	// {"name":"reserved","ph":"C","ts":5000.000,"pid":1,"tid":0,"args":{"bytes":2097152}}
	// ]}
}

// The lines are a trace that "pinion replay" replays.
func ExampleWriteJSON() {
	s := snapshot()
	s.Events = s.Events[1:] // as if the ring had lost the first one
	s.Dropped = 1
	if err := viz.WriteJSON(os.Stdout, s); err != nil {
		log.Fatal(err)
	}
	// Output:
	// {"snapshot":{"device":"cuda:0","start":"2026-03-01T12:00:00Z","time_seconds":0.005000000,"events":2,"dropped_events":1,"allocated_bytes":0,"reserved_bytes":2097152},"op":"alloc","id":1,"bytes":4000,"stream":0,"purpose":"batch","name":"images","time_seconds":0.001000000,"rounded_bytes":4096,"address":"0x7f0000000000"}
	// {"op":"free","id":1,"time_seconds":0.003000000,"address":"0x7f0000000000"}
}
