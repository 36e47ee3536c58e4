package cli

import (
	"context"
	"io"
)

// ReaderUntil reads from r until ctx is done. A read of standard input cannot be
// interrupted: its goroutine then stays, with a buffer of its own, until the read
// or the process ends.
func ReaderUntil(ctx context.Context, r io.Reader) io.Reader { return &readerUntil{ctx: ctx, r: r} }

type readerUntil struct {
	ctx    context.Context
	r      io.Reader
	buffer [64 << 10]byte
}

func (u *readerUntil) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err // a read that was given up has the buffer
	}
	var n int
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		n, err = u.r.Read(u.buffer[:min(len(p), len(u.buffer))])
	}()
	select {
	case <-u.ctx.Done():
		return 0, u.ctx.Err()
	case <-done:
		return copy(p, u.buffer[:n]), err
	}
}

// WriterUntil writes to w, and fails once ctx is done.
func WriterUntil(ctx context.Context, w io.Writer) io.Writer { return writerUntil{ctx, w} }

type writerUntil struct {
	ctx context.Context
	w   io.Writer
}

func (u writerUntil) Write(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.w.Write(p)
}
