package trace

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// maxLine is the longest line that is read, in bytes with its end.
const maxLine = 1 << 20

// lines reads text line by line into one buffer.
type lines struct {
	r      *bufio.Reader // of maxLine bytes
	number int64         // of the current line, from 1
	text   []byte        // the current line; valid until the next one
}

// next moves to the next line that is not blank. It returns io.EOF behind the
// last one.
func (l *lines) next() error {
	for {
		text, err := l.r.ReadSlice('\n')
		if len(text) > 0 {
			l.number++
		}
		l.text = bytes.TrimSpace(text)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return l.malformed(fmt.Errorf("longer than %d bytes", maxLine))
		case err != nil && err != io.EOF:
			return fmt.Errorf("after line %d: %w", l.number, err)
		case len(l.text) > 0:
			return nil
		case err != nil:
			return io.EOF
		}
	}
}

// malformed says what is wrong with the current line.
func (l *lines) malformed(why error) error {
	const most = 100
	text, more := l.text, ""
	if len(text) > most {
		text, more = text[:most], "…"
	}
	return fmt.Errorf("%w: line %d: %w: %#q%s", ErrMalformed, l.number, why, text, more)
}
