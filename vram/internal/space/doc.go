// Package space keeps the memory of a pool as blocks: ranges of addresses that are
// in use, free, or without memory. It takes memory from a device, finds blocks in
// it, joins what is freed, and moves free memory to where a block is wanted. Of
// streams, purposes and callers that wait it knows nothing: those are the pool's.
//
//	s := space.New(space.Config{Device: dev, Mapper: mapper, Most: 8 << 30, Unit: 2 << 20, Largest: 64 << 20, Ledger: &ledger})
//	b, _ := s.Fit(n, owner, false) // of what is free
//	if b == nil {
//		b, err = s.Grow(n, owner, 8<<30) // moves free memory together, or takes more
//	}
//	…
//	s.Give(b, owner, 7)  // only owner may have it
//	s.Settle(owner, 7)   // now all may: it is idle
//
// # How it is made
//
// A [Space] has three heaps, for blocks of up to 1 MiB, of up to 32 MiB, and larger
// ones. A heap has regions of addresses, each divided into blocks ([Block]), which
// know their neighbours; free blocks and holes are in sets by size (package
// freeset). heap.go has what is the same wherever memory comes from: best fit,
// cutting, merging.
//
// The backing of a heap supplies memory. segmented (segments.go) takes ordinary
// allocations of the device. chunked maps physical chunks: chunks.go makes, maps and
// unmaps them; place.go decides where a block goes and which chunks are moved for
// it; stitch.go makes blocks of pieces of chunks when memory is short (package
// pieces chooses them). Chunks of large blocks are mapped at the new place first, and
// stay mapped at the old one for a while (stale.go); prepare.go unmaps those when
// nobody waits, and moves chunks in advance, a little at a time; tidy.go moves all.
//
// docs/vram.md explains the rules and their reasons.
//
// # Rules
//
// Only idle memory is unmapped: memory that is free and has no [Owner]. Nothing is
// copied, and a block that is in use stays where it is. All results depend only on
// the calls before. A space has no lock: the pool calls it with its own held.
package space
