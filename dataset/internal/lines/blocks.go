// Package lines cuts text files into blocks of whole lines, which can be parsed at
// the same time.
package lines

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/pinion-gpu/pinion/dataset"
)

// maxLine bounds the memory that a file without line ends takes.
const maxLine = 16 << 20

// Blocks cuts a file into blocks of whole lines.
type Blocks struct {
	R     io.Reader
	Left  int64 // of the file's bytes
	Bytes int   // of one block, about
	carry []byte
	end   bool
}

// Next returns the next block, in the memory of buf if it is enough, or
// [io.EOF], or the cause of ctx when that ended.
func (b *Blocks) Next(ctx context.Context, buf []byte) ([]byte, error) {
	text := append(buf[:0], b.carry...)
	b.carry = b.carry[:0]
	for !b.end {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if len(text) > maxLine {
			return nil, fmt.Errorf("%w: a line of more than %d bytes", dataset.ErrTooLarge, maxLine)
		}
		at := len(text)
		text = slices.Grow(text, b.Bytes)[:at+b.Bytes]
		n, err := io.ReadFull(b.R, text[at:])
		text = text[:at+n]
		b.Left -= int64(n)
		b.end = err == io.EOF || err == io.ErrUnexpectedEOF
		if err != nil && !b.end {
			return nil, err
		}
		if b.Left < 0 || b.end && b.Left > 0 {
			return nil, fmt.Errorf("%w: the file changed its size by %d bytes while it was read", dataset.ErrDamaged, -b.Left)
		}
		if cut := bytes.LastIndexByte(text[at:], '\n') + 1; cut > 0 && !b.end {
			b.carry = append(b.carry, text[at+cut:]...)
			return text[:at+cut], nil
		}
	}
	if len(text) == 0 {
		return nil, io.EOF
	}
	return text, nil
}

// soonRoom is what is made room for at once. The size of a file is no proof of
// what is in it: it may have holes.
const soonRoom = 256 << 20

// MakeRoom returns data with room for more bytes, which a block of text became,
// and for what the todo bytes that are left of the text will become if they are
// like it, but at most for twice of what is there.
func MakeRoom(data []byte, more, text int, todo int64) []byte {
	if cap(data)-len(data) >= more {
		return data
	}
	all := 1.02 * float64(todo) * float64(more) / float64(text)
	room := max(more, int(min(all, float64(max(soonRoom, len(data))))))
	larger := make([]byte, len(data), len(data)+room) // [slices.Grow] would touch all of it
	copy(larger, data)
	return larger
}

// ByteOrderMark is what some editors put before the first line.
const ByteOrderMark = "\xef\xbb\xbf"
