package dataset

import "context"

// Files is encoded samples: files of any size, in a folder, in tar shards or
// elsewhere. It is safe for concurrent use. photos.New makes a dataset
// of pictures of them.
type Files interface {
	// Len returns the number of files, at least 1.
	Len() int
	// Name names file i in messages: its path, or "shard.tar/0017.jpg".
	Name(i int) string
	// Label returns the class of file i, or -1 where there is none.
	Label(i int) int32
	// NewFileReader makes a reader for one worker.
	NewFileReader() (FileReader, error)
}

// FileReader reads files of [Files]. It is not safe for concurrent use.
type FileReader interface {
	// ReadFile returns the content of file i, in buf where its capacity is
	// enough, and else in new memory. The result is the caller's. A file
	// larger than the limit of the Files fails with [ErrTooLarge] before
	// memory for it is allocated.
	ReadFile(ctx context.Context, i int, buf []byte) ([]byte, error)
	// Close frees the reader. Later reads fail with [fs.ErrClosed].
	Close() error
}
