package device

import "os"

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
