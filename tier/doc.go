// Package tier holds arrays that do not fit on a device together: their bytes live
// on the device, in pinned host memory, or on another memory node, under a budget
// for each, and move as they are used.
//
//	store, err := tier.New(dev, tier.Options{DeviceBytes: 16 << 30, HostBytes: 64 << 30})
//	defer store.Close()
//	weights, err := store.NewArray("layer 3", n)
//	err = weights.WriteAt(ctx, bytes, 0)
//
//	lease, err := store.Use(ctx, stream, tier.Read(weights), tier.Write(activations))
//	// queue work on stream with lease.Ptr(weights), lease.Ptr(activations)
//	err = lease.Release()
//
// # Use
//
// [Store.Use] makes arrays resident on the device, all or none, and holds them until
// [Lease.Release]. It waits for the host's part only: the copies are ordered before
// the work that is queued on the stream later, on the device. An array has one
// writer or any number of readers at a time. Work of uses that follow each other is
// ordered, on whichever streams they are.
//
// A new array is all zeros. [Array.WriteAt] and [Array.ReadAt] reach the content from
// the host, in host memory, without the device.
//
// # What leaves
//
// When a tier is full, the arrays leave it that are worth least: those whose next use
// is furthest away, and a little sooner those that need not be written back. What was
// not written since it came stays below and only has to be forgotten. The next use is
// estimated from the uses so far; a program that knows better says so: Sequential for
// sweeps, Record and Replay for a step that is repeated, WillNeed and DontNeed. What is
// announced comes in ahead of its use, and what must leave for it is written back
// ahead, both within [Options].WindowBytes, at the same time in both directions.
//
// # Others who need memory
//
// The store takes its device memory from a [vram.Pool] and gives some of it back when
// others ask that pool for more than is left. So an allocation elsewhere pushes cold
// arrays out, instead of failing.
//
// # Failures
//
// A copy that fails loses nothing: an array leaves one tier when it has arrived in
// another. What cannot fit in all tiers together is refused when it is made
// ([RoomError] says what would be needed, and what holds the rest).
//
// docs/tier.md explains the states of an array and the reasons.
package tier
