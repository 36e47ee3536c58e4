package device

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
)

// PinFlags ask for properties of page-locked host memory. Backends for which
// a property means nothing ignore it.
type PinFlags uint32

const (
	// PinMapped makes the memory readable and writable by kernels at the
	// address that [Pinner.Mapped] returns (zero-copy).
	PinMapped PinFlags = 1 << iota
	// PinPortable makes the memory count as pinned in every context of the
	// process, not only for this device.
	PinPortable
	// PinWriteCombined makes memory that the host should only write, in
	// order: host reads of it are very slow. Only [HostAllocator.AllocHost]
	// takes it.
	PinWriteCombined
)

// Pinner is a device that page-locks host memory, so that copies need no
// staging and run asynchronously.
type Pinner interface {
	// Pin page-locks b, which must start and end on a page boundary, lie
	// outside the Go heap and not be pinned already. It fails with
	// [ErrPinLimit] when the system does not allow that much locked memory.
	Pin(b []byte, flags PinFlags) error

	// Unpin undoes Pin of the same b. Queued copies must be done.
	Unpin(b []byte) error

	// Pinned reports whether the first and the last byte of b are pinned for
	// this device, by whomever.
	Pinned(b []byte) bool

	// Mapped returns the address by which the device reaches pinned memory.
	Mapped(b []byte) (Ptr, error)

	// CanMap reports whether Mapped can work on this device.
	CanMap() bool
}

// HostAllocator is a device whose driver allocates pinned host memory itself:
// slower than [Pinner] on memory of one's own, but the only way to
// write-combined memory.
type HostAllocator interface {
	// AllocHost allocates n > 0 bytes of pinned memory. It fails with
	// [ErrPinLimit] when the system does not allow that much.
	AllocHost(n int64, flags PinFlags) ([]byte, error)

	// FreeHost frees the memory that AllocHost returned. Queued copies must
	// be done.
	FreeHost(b []byte) error
}

// Manager is a device with managed (unified) memory, which migrates between
// host and device by page faults or by request.
type Manager interface {
	// CanManage reports whether the device supports managed memory.
	CanManage() bool

	// AllocManaged allocates n bytes that host (as a slice) and device (at
	// the address) see at the same place. [Device.Free] frees it. Keep the
	// sum below the device's memory.
	AllocManaged(n int64) (Ptr, []byte, error)

	// Prefetch queues the migration of n bytes at p to the device, or with
	// toHost to the host.
	Prefetch(s Stream, p Ptr, n int64, toHost bool) error
}

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
	// and writable by the device. The content of a chunk comes with it. The
	// room must lie in one reservation, and nothing may be mapped there. It is
	// all or nothing: after an error none of them is mapped. The slice may be
	// used again when Map returns. No chunks are no work.
	Map(p Ptr, chunks []Chunk, n int64) error

	// Unmap removes the mappings in n bytes at p, which must be whole chunks
	// without a gap, mapped by one call of Map or by several. Queued work that
	// uses them must be done: Unmap need not wait for it, and work that still
	// comes fails, or meets what is mapped there by then.
	Unmap(p Ptr, n int64) error
}

// StreamAllocator is a device whose driver allocates and frees in the order of
// a stream, from a pool of memory that it keeps for this device. Neither waits
// for the host where the pool has room. Without it, allocate with
// [Device.Alloc] and free behind a synchronisation.
type StreamAllocator interface {
	// CanAllocAsync reports whether the driver has such a pool. All else here
	// fails with [ErrNotSupported] where it does not.
	CanAllocAsync() bool

	// AllocAsync allocates n > 0 bytes, aligned to 256 bytes at least, for
	// work that is queued on s from now on. Another stream may use them once
	// it waits for an event that was recorded on s after this call. The
	// content is undefined. What was freed earlier on s is used again without
	// waiting for it where the driver can; on the host it may wait. It fails
	// with [ErrOutOfMemory] when n bytes are not to be had.
	AllocAsync(s Stream, n int64) (Ptr, error)

	// FreeAsync frees what AllocAsync gave, once the work that is queued on s
	// so far is done. Work of other streams that uses it must be ordered
	// before by events, and nothing that is queued later may use it. It fails
	// with [ErrPointer] for any other address, one that is freed already
	// included. [Device.Free] frees such memory too, and waits.
	FreeAsync(s Stream, p Ptr) error

	// SetReleaseThreshold sets how many bytes the pool keeps for later
	// allocations, free ones included, when a stream, an event or the device
	// is waited for: what it has above that and is free goes back to the
	// device. It is 0 at first, which makes a loop that synchronises allocate
	// anew each time. A device whose pool keeps nothing ignores it.
	SetReleaseThreshold(n int64) error

	// TrimPool gives free memory of the pool back to the device until the pool
	// has no more than keep bytes, or none that is free.
	TrimPool(keep int64) error
}

// RangeChecker is a device that knows where its memory lies. A kernel that is
// given a wrong address may make the device unusable, so those who launch one
// on an address that came from elsewhere ask first.
type RangeChecker interface {
	// CheckRange fails with [ErrPointer] when not all of the n bytes at p are
	// memory of this device, whoever in the process allocated it, or pinned
	// memory that is mapped for it. Copies need no check: they fail by
	// themselves.
	CheckRange(p Ptr, n int64) error
}

// Span is one copy of many: Bytes bytes from Src to Dst, which are addresses
// of device memory or of mapped pinned memory ([Pinner.Mapped]).
type Span struct {
	Dst, Src Ptr
	Bytes    int64
}

// BatchCopier is a device whose driver takes many copies in one call.
type BatchCopier interface {
	// CanCopyBatch reports whether the driver has the call.
	CanCopyBatch() bool

	// CopyBatch queues all copies, which may run in any order and beside each
	// other: no destination may overlap another or a source. The slice may be
	// used again when CopyBatch returns.
	CopyBatch(s Stream, spans []Span) error
}

// Box is a copy of Planes x Rows rows of RowBytes bytes each, between two
// places with strides of their own: a slice of a tensor. Addresses are as in
// [Span]. Strides are in bytes, from the start of a row, or of a plane, to
// that of the next.
type Box struct {
	Dst, Src                       Ptr
	RowBytes, Rows, Planes         int64
	DstRowStride, SrcRowStride     int64 // at least RowBytes
	DstPlaneStride, SrcPlaneStride int64 // at least Rows x the row stride
}

// BoxCopier is a device whose driver copies strided boxes.
type BoxCopier interface {
	// CanCopyBox reports whether the driver can copy a box of this shape: it
	// has limits on strides, and planes must be whole numbers of rows apart.
	CanCopyBox(b Box) bool

	// CopyBox queues the copy.
	CopyBox(s Stream, b Box) error
}

// FileMover is a device whose driver moves bytes between files and the device:
// for CUDA, cuFile.
type FileMover interface {
	// MovesStraight returns nil when the bytes of f go between the disk and
	// the device without passing through host memory. Its error,
	// [ErrNotSupported], says in a sentence why they do not.
	MovesStraight(f *os.File) error

	// MoveFile prepares f, which stays the caller's and must stay open until
	// the result is closed. It works wherever the driver's library is, if
	// need be through host memory.
	MoveFile(f *os.File) (File, error)
}

// File is a file that a [FileMover] moves bytes of. Its methods are safe for
// concurrent use; they return when the bytes are there.
type File interface {
	// ReadTo reads n bytes at offset to device memory at dst. It returns how
	// many it read, which at the end of the file is fewer.
	ReadTo(dst Ptr, n, offset int64) (int64, error)

	// WriteFrom writes n bytes of device memory at src to offset.
	WriteFrom(src Ptr, n, offset int64) (int64, error)

	// Close lets go of the file. No call may be under way.
	Close() error
}

// PeerCopier is a device that copies between its memory and that of another
// device of its backend.
type PeerCopier interface {
	// PeerAccess reports whether bytes go straight between the two devices,
	// over NVLink or PCIe, and not through host memory. It makes the access
	// possible on first use.
	PeerAccess(other Device) bool

	// CopyPeer queues, on a stream of this device, a copy of n bytes at src
	// in the memory of from to dst in this device's memory. It fails with
	// [ErrNotSupported] when from belongs to another backend.
	CopyPeer(s Stream, dst Ptr, from Device, src Ptr, n int64) error
}

// Launcher is a device that runs compiled kernels.
type Launcher interface {
	// ImageFormat is the portable form of device code that LoadModule takes.
	ImageFormat() ImageFormat

	// LoadModule loads a module from an image of that format, or from one that
	// was compiled for this very device: for CUDA, PTX text or a cubin.
	LoadModule(image []byte) (Module, error)
}

// ImageFormat is a form of device code.
type ImageFormat string

// PTX is NVIDIA's portable assembly, as text.
const PTX ImageFormat = "PTX"

// Module is a loaded set of kernels.
type Module interface {
	// Kernel finds a kernel by its unmangled name.
	Kernel(name string) (Kernel, error)
	// Close unloads the module; no launch of its kernels may be queued.
	Close() error
}

// Kernel is a device function that can be launched.
type Kernel interface {
	// Launch queues the kernel on s with args as its parameters. The types
	// and order in args must be those of the kernel: the device cannot check
	// them.
	Launch(s Stream, grid Grid, args *Args) error
}

// Grid is the shape of a launch: blocks of threads, and bytes of dynamic
// shared memory for each block.
type Grid struct {
	BlocksX, BlocksY, BlocksZ int // zero counts as one
	Threads                   int // a block, in one dimension
	SharedBytes               int
}

// Args collects the parameters of a kernel, each at the offset that C gives
// it in a parameter list. The zero value is empty; methods return the
// receiver so that calls chain. There is room for [MaxArgs] bytes.
type Args struct {
	buf  [MaxArgs]byte
	n    int
	over bool
}

// MaxArgs is the most bytes of parameters that a kernel can have.
const MaxArgs = 256

// Err reports parameters that did not fit.
func (a *Args) Err() error {
	if a.over {
		return fmt.Errorf("%w: the parameters of the kernel take more than %d bytes", ErrArgument, MaxArgs)
	}
	return nil
}

// Bytes is the parameter block so far.
func (a *Args) Bytes() []byte { return a.buf[:a.n] }

// Ptr appends a device pointer.
func (a *Args) Ptr(p Ptr) *Args { return a.Int64(int64(p)) }

// Int64 appends a 64-bit integer of either sign.
func (a *Args) Int64(v int64) *Args {
	if b := a.extend(8); b != nil {
		binary.LittleEndian.PutUint64(b, uint64(v))
	}
	return a
}

// Int32 appends a 32-bit integer of either sign.
func (a *Args) Int32(v int32) *Args { return a.uint32(uint32(v)) }

// Float32 appends a float.
func (a *Args) Float32(v float32) *Args { return a.uint32(math.Float32bits(v)) }

func (a *Args) uint32(v uint32) *Args {
	if b := a.extend(4); b != nil {
		binary.LittleEndian.PutUint32(b, v)
	}
	return a
}

// extend makes room for a parameter of that size at a multiple of its size;
// nil is no room.
func (a *Args) extend(size int) []byte {
	at := (a.n + size - 1) &^ (size - 1)
	if at+size > len(a.buf) {
		a.over = true
		return nil
	}
	a.n = at + size
	return a.buf[at:a.n]
}

// Caller is a device whose kernels are Go functions: the host backend.
type Caller interface {
	// Call queues fn on s. An error or panic of fn is the stream's error at
	// the next synchronisation. fn must not wait for its own stream, nor free
	// device memory or unreserve addresses, which wait for all of them.
	Call(s Stream, fn func() error) error

	// Bytes is device memory as a slice, valid until it is freed or unmapped
	// and to be used only inside a function that Call runs. It fails with
	// [ErrPointer] when the range is not inside one live allocation, nor all
	// mapped by a [Mapper].
	Bytes(p Ptr, n int64) ([]byte, error)
}

// ContextRecorder is a device that marks the end of everything that is queued
// on it, by whomever: the way to learn when work is done on streams that this
// process has but that nobody names, those of another library among them.
//
// Where the device cannot, name the streams ([Native.StreamOf]) and record an
// event on each, or use [Device.Synchronize].
type ContextRecorder interface {
	// CanRecordAll reports whether the driver has the call: CUDA's from 12.5
	// on. RecordAll fails with [ErrNotSupported] where it does not.
	CanRecordAll() bool

	// RecordAll queues a mark in e that is passed when all is done that is
	// queued so far, on every stream of the device: for CUDA, all those of the
	// process's primary context, such as another library's and the default
	// stream. It waits for nothing itself. The event must be made with
	// [EventNoTiming]; others fail with [ErrArgument].
	//
	// CUDA refuses while any of those streams is being captured into a graph,
	// and thereby makes that capture invalid. So call it only for users who
	// asked for it.
	RecordAll(e Event) error
}

// API is a vendor's programming interface.
type API string

// CUDA is NVIDIA's.
const CUDA API = "CUDA"

// Native is a device whose vendor's libraries can work on its memory and
// streams: for CUDA, nvJPEG and the like. WithContext and WithStream run fn on a thread
// where the device's context is current, return its error, and hold the device
// open meanwhile. So fn must not call methods of the device, its streams or
// its events, and must not wait for another goroutine that does.
type Native interface {
	// API says whose libraries those are.
	API() API

	// StreamOf makes a stream of the vendor's handle of one that exists, for
	// CUDA a CUstream in the device's primary context such as PyTorch's
	// torch.cuda.current_stream().cuda_stream, zero included, which is the
	// default stream. It stays its maker's, and must exist for as long as the
	// result is used: Close, also that of the device, neither waits for its
	// work nor destroys it. A handle that is none, or one of another context,
	// fails with [ErrArgument] where the driver can tell.
	StreamOf(handle uintptr) (Stream, error)

	// WithContext runs fn.
	WithContext(fn func() error) error

	// WithStream runs fn with the vendor's handle of s, for CUDA a CUstream,
	// which is valid until fn returns. What fn queues there runs in the order
	// of the stream.
	WithStream(s Stream, fn func(handle uintptr) error) error
}
