package device

// Sharer is a device whose memory other devices of its host reach, those of other processes
// too, and which waits for what they write there:
//
//	name, err := a.Share(p)          // of a; name goes to the others
//	there, err := b.Reach(name)      // of b, in whichever process
//	err = s.CopyD2D(there.Add(n), src, bytes)
//	err = b.Signal(s, there)         // the word at p is set when the copy is done
//	…
//	err = a.Await(t, p)              // on a stream of a: what follows has the bytes
//
// What a name reaches must be there for as long as others copy to it: who frees it has
// heard from all of them that they are done.
type Sharer interface {
	// CanShare reports whether the driver can. All else here fails with
	// [ErrNotSupported] where it cannot.
	CanShare() bool

	// Share names the memory at p, which Alloc returned, for [Sharer.Reach] of other devices.
	Share(p Ptr) (name []byte, err error)

	// Reach makes the memory of a name, of another device than this one, memory that copies
	// of this device read and write, and returns its address here. It fails with
	// [ErrNotSupported] where the two reach each other's memory through the host alone.
	Reach(name []byte) (Ptr, error)

	// Unreach ends Reach, when the copies are done.
	Unreach(p Ptr) error

	// Signal queues, on a stream of this device, that the 32-bit word at p is set, in
	// memory of this device or of one that it reaches: when all that was queued on s before
	// is done and can be seen there.
	Signal(s Stream, word Ptr) error

	// Await queues on s a wait until each of the words, in memory of this device, is set,
	// and clears them. Words are clear when they are zero.
	Await(s Stream, words ...Ptr) error
}
