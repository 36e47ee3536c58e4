package dataset

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
)

// maxCSVLine bounds the memory that a file without line ends takes.
const maxCSVLine = 16 << 20

// lineBlocks cuts a file into blocks of whole lines.
type lineBlocks struct {
	r     io.Reader
	left  int64 // of the file's bytes
	bytes int   // of one block, about
	carry []byte
	end   bool
}

// next returns the next block, in the memory of buf if it is enough, or
// [io.EOF], or the cause of ctx when that ended.
func (b *lineBlocks) next(ctx context.Context, buf []byte) ([]byte, error) {
	text := append(buf[:0], b.carry...)
	b.carry = b.carry[:0]
	for !b.end {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if len(text) > maxCSVLine {
			return nil, fmt.Errorf("%w: a line of more than %d bytes", ErrTooLarge, maxCSVLine)
		}
		at := len(text)
		text = slices.Grow(text, b.bytes)[:at+b.bytes]
		n, err := io.ReadFull(b.r, text[at:])
		text = text[:at+n]
		b.left -= int64(n)
		b.end = err == io.EOF || err == io.ErrUnexpectedEOF
		if err != nil && !b.end {
			return nil, err
		}
		if b.left < 0 || b.end && b.left > 0 {
			return nil, fmt.Errorf("%w: the file changed its size by %d bytes while it was read", ErrDamaged, -b.left)
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

// makeRoom returns data with room for more bytes, which a block of text became,
// and for what the todo bytes that are left of the text will become if they are
// like it, but at most for twice of what is there.
func makeRoom(data []byte, more, text int, todo int64) []byte {
	if cap(data)-len(data) >= more {
		return data
	}
	all := 1.02 * float64(todo) * float64(more) / float64(text)
	room := max(more, int(min(all, float64(max(soonRoom, len(data))))))
	larger := make([]byte, len(data), len(data)+room) // [slices.Grow] would touch all of it
	copy(larger, data)
	return larger
}
