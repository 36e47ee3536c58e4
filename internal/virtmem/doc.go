// Package virtmem is address space apart from the memory behind it: a range of
// addresses is reserved once, and pieces of a store of memory are mapped into
// it, taken out and mapped elsewhere with what is written in them.
//
//	space, err := virtmem.Reserve(1 << 40)
//	store, err := virtmem.NewStore("chunks")
//	err = store.Map(space[:2<<20], 6<<20) // the store's bytes from 6 MiB on
//	space[0]++
//	err = virtmem.Unmap(space[:2<<20])
//	err = store.Discard(6<<20, 2<<20)     // the memory goes back to the system
//
// Neither an address range nor a store takes memory before something is
// written. A slice of address space where nothing is mapped must not be
// touched: that is a fault, which ends the process unless the goroutine asked
// for a panic (runtime/debug.SetPanicOnFault).
//
// Lengths, offsets and ends are multiples of the system's page size.
//
// Only Linux has it (a memfd); elsewhere everything fails with
// [errors.ErrUnsupported].
package virtmem
