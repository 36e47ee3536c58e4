package stream

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/pinion-gpu/pinion/dataset/internal/labels"
	"github.com/pinion-gpu/pinion/dataset/shard"
	"github.com/pinion-gpu/pinion/internal/errs"
)

const tarBlock = 512

// tarReader makes records of a tar.
type tarReader struct {
	name   string
	opts   Options
	from   labels.Source
	source io.Reader
	tar    *tar.Reader
	pos    int64            // of the source
	head   []byte           // how it begins, for messages
	end    int64            // of the last member, with its padding
	zero   bool             // what was read last is a block of zeros, or may be
	held   *tar.Header      // the first member of the next record
	key    string           // of it
	last   string           // member, for messages
	places map[string]int32 // of the texts of labels in the member __classes__; nil: there was none yet
	ended  bool
}

func newTarReader(name string, source io.Reader, opts Options) *tarReader {
	t := &tarReader{name: name, opts: opts, from: labels.NewSource(opts.Label, opts.LabelField), source: source}
	t.tar = tar.NewReader(t)
	return t
}

// Read implements [io.Reader] for the tar reader, which reads headers as blocks.
func (t *tarReader) Read(p []byte) (int, error) {
	n, err := t.source.Read(p)
	const most = 16
	if t.pos == 0 {
		t.head = append(t.head, p[:min(n, most)]...)
	}
	t.pos += int64(n)
	if n > 0 {
		// A block may come in parts: all of them have to be zeros.
		t.zero = (t.zero || len(p) == tarBlock) && n <= tarBlock && zeros(p[:n])
	}
	return n, err
}

func zeros(p []byte) bool { return bytes.Count(p, []byte{0}) == len(p) }

// next returns the next record, without content if it is to be passed over, and
// [io.EOF] behind the last.
func (t *tarReader) next(ctx context.Context, pass bool) (*Record, error) {
	var r *Record
	size := int64(0)
	exact := false // the label is from the member itself
	var lack error // why there is no label, unless a member comes that has it
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		h, key, err := t.member()
		if err == io.EOF {
			if r == nil {
				return nil, io.EOF
			}
			return r, lack
		}
		if err != nil {
			return nil, err
		}
		if r != nil && key != r.Key {
			t.held, t.key = h, key
			return r, lack
		}
		if r == nil {
			r = &Record{Key: key, Name: fmt.Sprintf("%s[%s]", t.name, key), Label: -1}
		}
		if pass {
			continue
		}
		if size += h.Size; size > t.opts.MaxRecordBytes {
			return nil, fmt.Errorf("%s: %w: a record of more than %d bytes, the limit is %d", r.Name, errs.ErrTooLarge, size-1, t.opts.MaxRecordBytes)
		}
		content := make([]byte, h.Size)
		if _, err := io.ReadFull(t.tar, content); err != nil {
			return nil, t.broken(err)
		}
		name := strings.TrimPrefix(h.Name, "./")
		m := Member{name[len(key)+1:], content}
		r.Members = append(r.Members, m)
		from, ok := t.from.Find(m.Extension)
		if !ok || from.Fallback && exact {
			continue
		}
		label, err := t.label(from, content)
		switch {
		case err != nil && from.Fallback:
			lack = fmt.Errorf("%s: %w; and the sample has no member %q", r.Name, err, t.from.Extension)
			continue
		case err != nil:
			return nil, fmt.Errorf("%s: %w", r.Name, err)
		case !from.Fallback:
			exact, lack = true, nil
		}
		r.Label = label
	}
}

// label reads the label from the content of a member.
func (t *tarReader) label(from labels.Reader, content []byte) (int32, error) {
	v, err := from.Read(bytes.NewReader(content), int64(len(content)))
	if err != nil || v.Text == "" {
		return v.Number, err
	}
	if t.places == nil {
		return 0, fmt.Errorf("%w: the label is the text %.40q: a stream does not know the classes before its end; begin the tar with their list, a JSON array called %s, or decompress it to a file, which needs none",
			errs.ErrFormat, v.Text, labels.ClassesMember)
	}
	n, ok := t.places[v.Text]
	if !ok {
		return 0, fmt.Errorf("%w: the label %.40q is none of the %d classes in %s", errs.ErrFormat, v.Text, len(t.places), labels.ClassesMember)
	}
	return n, nil
}

// member returns the next member that is in a sample, and the key of that.
func (t *tarReader) member() (h *tar.Header, key string, err error) {
	if t.held != nil {
		h, t.held = t.held, nil
		return h, t.key, nil
	}
	for !t.ended {
		h, err := t.tar.Next()
		if err == io.EOF {
			t.ended = true
			if err := t.finish(); err != nil {
				return nil, "", err
			}
			break
		}
		if err != nil && !errors.Is(err, tar.ErrInsecurePath) { // MemberName looks at paths
			return nil, "", t.broken(err)
		}
		t.last = h.Name
		t.end = t.pos + (h.Size+tarBlock-1)/tarBlock*tarBlock
		name, err := shard.MemberName(h)
		if err != nil {
			return nil, "", fmt.Errorf("%s: member %.200q: %w", t.name, h.Name, err)
		}
		if name == labels.ClassesMember && t.places == nil && h.Size <= labels.MaxClassesBytes {
			content, err := io.ReadAll(t.tar)
			if err != nil {
				return nil, "", t.broken(err)
			}
			if names := labels.DecodeClasses(content); names != nil {
				t.places = labels.Places(names)
			}
		}
		if key, _, ok := shard.SplitName(name); ok {
			return h, key, nil
		}
	}
	return nil, "", io.EOF
}

// maxPadding is how far zeros are expected behind the end of a tar.
const maxPadding = 1 << 20

// finish checks what is behind the last member: the end mark, without which the tar
// was cut short, and zeros. A decompressor checks its sums behind them.
func (t *tarReader) finish() error {
	if !t.zero || t.pos < t.end+tarBlock {
		return fmt.Errorf("%s: %w: it ends without an end mark, after %s: it is cut short", t.name, errs.ErrDamaged, t.after())
	}
	var block [4096]byte
	for read := 0; ; {
		n, err := t.source.Read(block[:])
		if read += n; !zeros(block[:n]) || read > maxPadding {
			return fmt.Errorf("%s: %w: the tar ends after %s, and something else follows; tars cannot be appended to each other", t.name, errs.ErrDamaged, t.after())
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: behind %s: %w", t.name, t.after(), err)
		}
	}
}

// broken explains an error of the tar reader.
func (t *tarReader) broken(err error) error {
	switch {
	case errors.Is(err, errs.ErrDamaged), errors.Is(err, errs.ErrTooLarge):
		return fmt.Errorf("%s: after %s: %w", t.name, t.after(), err)
	case errors.Is(err, tar.ErrFieldTooLong):
		return fmt.Errorf("%s: after %s: %w: %w", t.name, t.after(), errs.ErrTooLarge, err)
	case t.last == "" && (errors.Is(err, tar.ErrHeader) || t.pos < tarBlock && errors.Is(err, io.ErrUnexpectedEOF)):
		return fmt.Errorf("%s: %w: not a tar: it begins with %q", t.name, errs.ErrFormat, t.head)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return fmt.Errorf("%s: %w: it ends within a member, after %s: it is cut short", t.name, errs.ErrDamaged, t.after())
	case errors.Is(err, tar.ErrHeader):
		return fmt.Errorf("%s: %w: no tar header after %s", t.name, errs.ErrDamaged, t.after())
	}
	return fmt.Errorf("%s: after %s: %w", t.name, t.after(), err)
}

// after names the last member.
func (t *tarReader) after() string {
	if t.last == "" {
		return "nothing"
	}
	return fmt.Sprintf("the member %.200q", t.last)
}
