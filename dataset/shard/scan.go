package shard

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"

	"github.com/pinion-gpu/pinion/dataset/internal/labels"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// source is the bytes of one shard.
type source interface {
	// readAt fills p from a place inside the shard.
	readAt(ctx context.Context, p []byte, at int64) error
}

// scan makes the index of a shard of that size. It reads headers and labels,
// and skips everything else.
func scan(ctx context.Context, src source, size int64, from labels.Source) (*index, error) {
	s := &scanner{cursor: cursor{ctx: ctx, src: src, size: size}, from: from}
	s.indexBuilder = newIndexBuilder(size)
	if err := s.begin(); err != nil {
		return nil, err
	}
	s.tar = tar.NewReader(&s.cursor)
	for {
		at := s.cursor.pos
		h, err := s.tar.Next()
		if err == io.EOF {
			if s.lack != nil {
				return nil, s.lack
			}
			return s.end()
		}
		if err == nil || errors.Is(err, tar.ErrInsecurePath) { // s.member looks at paths
			if err = s.member(h); err != nil {
				err = fmt.Errorf("member %.200q, before byte %d: %w", h.Name, s.cursor.pos, err)
			}
		} else {
			err = s.broken(max(at, s.contentEnd), err)
		}
		if err == nil && len(s.samples) > s.lackOf { // another sample has begun
			err = s.lack
		}
		if err := cmp.Or(s.cursor.err, ctx.Err(), err); err != nil {
			return nil, err
		}
	}
}

type scanner struct {
	indexBuilder
	cursor     cursor
	tar        *tar.Reader
	from       labels.Source
	named      labels.Texts
	labelled   int   // number of samples up to the newest whose label is from the member itself
	lack       error // why the newest sample has no label, unless a member comes that has it
	lackOf     int   // number of samples up to that one
	contentEnd int64 // of the last member, with its padding
	last       string
}

// compressed are the first bytes of what tars are often wrapped in.
var compressed = []struct{ magic, name, remedy string }{
	{"\x1f\x8b", "gzip", "gzip -d"},
	{"\x28\xb5\x2f\xfd", "Zstandard", "zstd -d"},
	{"BZh", "bzip2", "bzip2 -d"},
	{"\xfd7zXZ\x00", "xz", "xz -d"},
}

// begin tells what is no tar at all.
func (s *scanner) begin() error {
	head := make([]byte, min(s.cursor.size, blockBytes))
	if _, err := io.ReadFull(&s.cursor, head); err != nil {
		return cmp.Or(s.cursor.err, err)
	}
	for _, c := range compressed {
		if bytes.HasPrefix(head, []byte(c.magic)) {
			return fmt.Errorf("%w: compressed with %s: samples cannot be read in any order; decompress it (%s), or open a single file as a stream", ErrFormat, c.name, c.remedy)
		}
	}
	s.cursor.pos = 0
	if len(head) < blockBytes {
		return notTar(s.cursor.size, head)
	}
	return nil
}

func notTar(size int64, head []byte) error {
	return fmt.Errorf("%w: not a tar: %d bytes that begin with %q", ErrFormat, size, head[:min(len(head), 16)])
}

// broken explains an error of the tar reader near a place.
func (s *scanner) broken(at int64, err error) error {
	if at == 0 && errors.Is(err, tar.ErrHeader) {
		head := make([]byte, 16)
		s.cursor.pos = 0
		if _, err := io.ReadFull(&s.cursor, head); err != nil {
			return err
		}
		return notTar(s.cursor.size, head)
	}
	kind := ErrDamaged
	if errors.Is(err, tar.ErrFieldTooLong) {
		kind = ErrTooLarge
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("the shard ends after %d bytes", s.cursor.size)
	}
	after := ""
	if s.last != "" {
		after = fmt.Sprintf(", after the member %.200q", s.last)
	}
	return fmt.Errorf("%w: no tar header at byte %d%s: %w", kind, at, after, err)
}

// member adds the member that the cursor is at the content of.
func (s *scanner) member(h *tar.Header) error {
	at := s.cursor.pos
	s.last = h.Name
	name, err := MemberName(h)
	switch {
	case name == "" || err != nil:
		return err
	case h.Size > s.cursor.size-at:
		return fmt.Errorf("%w: a member of %d bytes at byte %d, the shard ends at %d", ErrDamaged, h.Size, at, s.cursor.size)
	case at/blockBytes > math.MaxUint32:
		return fmt.Errorf("%w: beyond 2 TiB", ErrTooLarge)
	}
	s.contentEnd = at + (h.Size+blockBytes-1)/blockBytes*blockBytes
	check, err := s.cursor.headerCheck()
	if err != nil {
		return err
	}
	if name == labels.ClassesMember && s.classes == nil && 0 < h.Size && h.Size <= labels.MaxClassesBytes {
		s.classes, err = io.ReadAll(s.tar)
		return err
	}
	ok, err := s.add(name, member{h.Size, uint32(at / blockBytes), check})
	if !ok || err != nil {
		return err
	}
	return s.label(h.Size)
}

// label reads the label, if the newest member is the one that holds it.
func (s *scanner) label(size int64) error {
	r, ok := s.from.Find(s.extensions[s.extension[len(s.members)-1]])
	if !ok || r.Fallback && s.labelled == len(s.samples) || s.lack != nil && s.lackOf < len(s.samples) {
		return nil
	}
	v, err := r.Read(s.tar, size)
	switch {
	case err != nil && r.Fallback:
		s.lack, s.lackOf = fmt.Errorf("member %.200q, before byte %d: %w; and the sample has no member %q", s.last, s.cursor.pos, err, s.from.Extension), len(s.samples)
		return nil
	case err != nil:
		return err
	case !r.Fallback:
		s.labelled, s.lack = len(s.samples), nil
	}
	label := v.Number
	if v.Text != "" {
		n, err := s.named.Number(v.Text)
		if err != nil {
			return err
		}
		label = -2 - n
	}
	s.samples[len(s.samples)-1].label = label
	return nil
}

// sortTexts makes labels that are texts indexes to the texts, sorted. Labels are
// all of one kind.
func (s *scanner) sortTexts() error {
	number, text := -1, -1 // the first sample of each kind
	used := make([]bool, s.named.Len())
	for i, x := range s.samples {
		switch {
		case x.label >= 0 && number < 0:
			number = i
		case x.label < -1:
			used[-2-x.label] = true
			if text < 0 {
				text = i
			}
		}
	}
	switch {
	case text < 0:
		return nil
	case number >= 0:
		return fmt.Errorf("%w: the label of %.200q is text, that of %.200q is the number %d; want one kind", ErrFormat, s.key(text), s.key(number), s.samples[number].label)
	}
	var places []int32
	s.texts, places = s.named.Sorted(func(n int32) bool { return used[n] })
	for i, x := range s.samples {
		if x.label < -1 {
			s.samples[i].label = places[-2-x.label]
		}
	}
	return nil
}

// end checks what is behind the last member. A shard that was cut between two
// members lacks the end mark, and one that others were appended to goes on.
func (s *scanner) end() (*index, error) {
	pos := s.cursor.pos
	var mark [blockBytes]byte
	if s.cursor.pos -= blockBytes; s.cursor.err == nil {
		io.ReadFull(&s.cursor, mark[:])
	}
	if err := s.cursor.err; err != nil {
		return nil, err
	}
	if pos < s.contentEnd+blockBytes || mark != [blockBytes]byte{} {
		return nil, fmt.Errorf("%w: the shard ends at byte %d without an end mark: it is cut short", ErrDamaged, pos)
	}
	for end := min(s.cursor.size, pos+maxRecordBytes); s.cursor.pos < end; {
		n, err := io.ReadFull(&s.cursor, mark[:min(blockBytes, end-s.cursor.pos)])
		if err != nil {
			return nil, cmp.Or(s.cursor.err, err)
		}
		if slices.ContainsFunc(mark[:n], func(b byte) bool { return b != 0 }) {
			return nil, fmt.Errorf("%w: the archive ends at byte %d and something else follows; tars cannot be appended to each other", ErrDamaged, pos)
		}
	}
	if err := s.sortTexts(); err != nil {
		return nil, err
	}
	return s.finish()
}

// maxRecordBytes is how far zeros are expected behind the end mark: tar fills a
// record up, of 10 KiB if it is not told otherwise.
const maxRecordBytes = 1 << 20

// cursorBytes are read at once: a header, and often a small member with the
// next header. More would read content for nothing.
const cursorBytes = 4096

// cursor makes a stream of a source, in which seeking costs nothing.
type cursor struct {
	ctx       context.Context
	src       source
	size, pos int64
	err       error // of the source
	buffer    [cursorBytes]byte
	at, end   int64 // where the buffer is from
}

// Read implements [io.Reader].
func (c *cursor) Read(p []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	if c.pos >= c.size {
		return 0, io.EOF
	}
	if c.pos < c.at || c.pos >= c.end {
		n := min(cursorBytes, c.size-c.pos)
		if c.err = c.src.readAt(c.ctx, c.buffer[:n], c.pos); c.err != nil {
			return 0, c.err
		}
		c.at, c.end = c.pos, c.pos+n
	}
	n := copy(p, c.buffer[c.pos-c.at:c.end-c.at])
	c.pos += int64(n)
	return n, nil
}

// Seek implements [io.Seeker], from the present position on.
func (c *cursor) Seek(offset int64, whence int) (int64, error) {
	if whence != io.SeekCurrent || offset > math.MaxInt64-c.pos || offset < -c.pos {
		return 0, fmt.Errorf("%w: seek to %d", ErrDamaged, offset)
	}
	c.pos += offset
	return c.pos, nil
}

// headerCheck returns the checksum of the block before the position.
func (c *cursor) headerCheck() (uint32, error) {
	var header [blockBytes]byte
	c.pos -= blockBytes
	if _, err := io.ReadFull(c, header[:]); err != nil {
		return 0, err
	}
	return crc32.Checksum(header[:], castagnoli), nil
}
