package device

// Chunk is physical device memory without an address. Zero is none.
type Chunk uint64

// Mapper is a device whose address space and physical memory are managed
// apart, so that a segment can grow, shrink and be stitched together from
// chunks without copying. Sizes and offsets are multiples of Granularity;
// others fail with [ErrArgument].
//
// What is mapped is device memory like any other: work and [RangeChecker] take
// ranges that lie in several neighbouring mappings as one, and a range of
// which a part is not mapped fails with [ErrPointer] when it is queued. What
// is neither unmapped, released nor unreserved is left to [Device.Close].
type Mapper interface {
	// CanReserve reports whether the device supports virtual memory. All else
	// here fails with [ErrNotSupported] where it does not.
	CanReserve() bool

	// Granularity is the unit of all sizes and offsets here, in bytes, a power
	// of two.
	Granularity() (int64, error)

	// Reserve reserves n bytes of address space without memory behind them,
	// which may be more than the device has memory.
	Reserve(n int64) (Ptr, error)

	// Unreserve gives back all of a reservation; nothing may be mapped in it.
	// Queued work must be done that used what was.
	Unreserve(p Ptr, n int64) error

	// CreateChunk allocates n bytes of physical memory, whose content is
	// undefined. It counts as allocated until it is released and no mapping
	// uses it any more. It fails with [ErrOutOfMemory] when n bytes are not to
	// be had.
	CreateChunk(n int64) (Chunk, error)

	// ReleaseChunk gives up a chunk, which cannot be mapped again. Mappings
	// keep its memory.
	ReleaseChunk(c Chunk) error

	// Map puts chunks of n bytes each, one behind the other, at p, readable
	// and writable by the device. The content of a chunk comes with it. A chunk
	// may be mapped at several places: what was written at one is seen at
	// another by work that begins when the writing is done. The room must lie in one reservation, and nothing may be mapped there. It is
	// all or nothing: after an error none of them is mapped. The slice may be
	// used again when Map returns. No chunks are no work.
	Map(p Ptr, chunks []Chunk, n int64) error

	// Unmap removes the mappings in n bytes at p, which must be whole chunks
	// without a gap, mapped by one call of Map or by several. Queued work that
	// uses them must be done: Unmap need not wait for it, and work that still
	// comes fails, or meets what is mapped there by then.
	Unmap(p Ptr, n int64) error
}
