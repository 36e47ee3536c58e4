// Package viz writes the state and the history of a [vram.Pool] as files that
// other tools draw.
//
//	pool, err := vram.New(dev, vram.Options{History: 1 << 20, Stacks: vram.StacksSampled})
//	…
//	err = viz.WriteTorch(file, pool.Snapshot())
//
// # PyTorch's page
//
// [WriteTorch] writes a pickle for https://pytorch.org/memory_viz, which draws
// it in the browser and uploads nothing; torch/cuda/_memory_viz.py and Pinion's
// package vram/trace read it as well. The page has a timeline of the blocks, in
// the colour of their purpose, and a map of the memory at every event. Purpose
// and name are the first of the frames that it shows for a block, such as
// "activations: layer 3"; below are the calls that made it, where the pool has
// recorded them.
//
// # Perfetto
//
// [WriteChrome] writes the trace events that ui.perfetto.dev and
// chrome://tracing open: counters of allocated and reserved bytes and of those
// of each purpose over time, and a mark where an allocation failed.
//
// # JSON lines
//
// [WriteJSON] writes everything about the events, one line for each allocation
// and each free. It is the format that "pinion replay" replays.
//
// # The history
//
// All three need a history (vram.Options.History), which is a ring: a block that
// was allocated before the oldest event is known only if it is still live, or by
// its free. The files show it as live from the start. Without a history they show
// one moment.
package viz
