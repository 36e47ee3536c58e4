package jsonl

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/internal/labels"
	"github.com/pinion-gpu/pinion/dataset/internal/lines"
	"github.com/pinion-gpu/pinion/dataset/internal/names"
	"github.com/pinion-gpu/pinion/dataset/internal/parallel"
)

// parser reads a file; several blocks are parsed at once.
type parser struct {
	opts    Options
	field   []string // path to the sample
	label   []string // path to the label; nil if there is none
	started bool
	line    int // lines done
	samples
	offsets []int64 // of samples, in rows
}

// samples is what some lines hold.
type samples struct {
	data    []byte
	lengths []int64 // of ragged samples
	labels  labels.Builder
	shape   []int // of the first sample that is not empty
	shapeAt int   // its line; 0 if there is none
	emptyAt int   // the line of the first that is; 0 if there is none
}

// block is some lines and what is in them.
type block struct {
	text    []byte
	numbers numbers
	lines   int // done; the last is the one of err
	samples
	labelNumbers []byte // of the last label
	err          error
	unlike       []int // or the shape of the last line, which is not like shape
}

// read reads a file. The texts of errors begin with ": " or ":line: ".
func (p *parser) read(ctx context.Context, file *lines.Blocks, workers int) error {
	blocks := make([]block, workers)
	for used := workers; used == workers; {
		for used = 0; used < workers; used++ {
			text, err := file.Next(ctx, blocks[used].text)
			if err == io.EOF {
				break
			}
			if err != nil {
				return fmt.Errorf(": %w", err)
			}
			blocks[used].text = text
			if err := p.start(text); err != nil {
				return err
			}
		}
		// The errors are in the blocks: that of the first line counts.
		if err := parallel.Each(ctx, used, func(i int) error { blocks[i].parse(p); return nil }); err != nil {
			return fmt.Errorf(": %w", err)
		}
		for i := range blocks[:used] {
			if err := p.add(&blocks[i], used, file.Left); err != nil {
				return err
			}
		}
	}
	if p.shapeAt == 0 {
		return fmt.Errorf(": %w: no numbers in %d lines", dataset.ErrEmpty, p.line)
	}
	if p.emptyAt > 0 && len(p.shape) == 0 {
		return p.unlike([]int{0}, p.emptyAt)
	}
	return nil
}

// start finds out from the first line which field holds the samples, unless
// the options say it.
func (p *parser) start(text []byte) error {
	if p.started {
		return nil
	}
	if p.opts.Label != "" {
		p.label = strings.Split(p.opts.Label, ".")
	}
	if p.opts.Field != "" {
		p.field, p.started = strings.Split(p.opts.Field, "."), true
		return nil
	}
	for len(text) > 0 {
		var line []byte
		line, text = cutLine(text)
		if len(line) == 0 {
			continue
		}
		p.started = true
		if line[0] != '{' || !json.Valid(line) { // parse says what is wrong
			return nil
		}
		all := memberNames(line)
		p.field = slices.DeleteFunc(slices.Clone(all), func(name string) bool { return name == p.opts.Label })
		if len(p.field) != 1 {
			return fmt.Errorf(": %w: which field holds the samples? There are %s (Field, --field)", dataset.ErrArgument, names.Listed(all))
		}
		return nil
	}
	return nil
}

// cutLine cuts the first line off text, without blanks around it.
func cutLine(text []byte) (line, rest []byte) {
	line, rest, _ = bytes.Cut(text, []byte{'\n'})
	return bytes.TrimSpace(bytes.TrimPrefix(line, []byte(lines.ByteOrderMark))), rest
}

// add appends what a block holds. The number of blocks and the bytes of the
// file that are left say how much room to make.
func (p *parser) add(b *block, blocks int, left int64) error {
	if b.emptyAt > 0 && p.emptyAt == 0 {
		p.emptyAt = p.line + b.emptyAt
	}
	first := p.line + b.shapeAt
	if b.shapeAt > 0 && p.shapeAt == 0 {
		p.shape, p.shapeAt = b.shape, first
	}
	if b.shapeAt > 0 && !p.opts.alike(p.shape, b.shape) {
		return p.unlike(b.shape, first)
	}
	if p.line += b.lines; b.unlike != nil {
		return p.unlike(b.unlike, p.line)
	}
	if b.err != nil {
		return fmt.Errorf(":%d: %w", p.line, b.err)
	}
	p.data = lines.MakeRoom(p.data, len(b.data), len(b.text), int64(blocks*len(b.text))+left)
	p.data = append(p.data, b.data...)
	if err := p.addLabels(b); err != nil {
		return err
	}
	for _, n := range b.lengths {
		p.offsets = append(p.offsets, p.offsets[len(p.offsets)-1]+n)
	}
	return nil
}

// addLabels appends the labels of a block, which are of one kind with those before.
func (p *parser) addLabels(b *block) error {
	have, more := &p.labels, &b.labels
	if !have.Text && have.Width == 0 {
		have.Text, have.Width = more.Text, more.Width
	}
	if (more.Text || more.Width > 0) && (more.Text != have.Text || more.Width != have.Width) {
		return fmt.Errorf(":%d: %w: labels of %s, those before of %s%s", p.line-b.lines+1, dataset.ErrFormat,
			labelKind(more.Text, more.Width), labelKind(have.Text, have.Width), inField(p.label))
	}
	have.Append(more)
	return nil
}

// alike reports whether samples of those shapes can be in one dataset.
func (o Options) alike(a, b []int) bool {
	if o.Ragged && len(a) > 0 && len(b) > 0 {
		a, b = a[1:], b[1:]
	}
	return slices.Equal(a, b)
}

// unlike is the error of a line whose shape is not that of the first sample.
func (p *parser) unlike(shape []int, line int) error {
	help := ""
	if (Options{Ragged: true}).alike(shape, p.shape) {
		help = "; option Ragged allows different lengths"
	}
	return fmt.Errorf(":%d: %w: a sample of shape %v, that of line %d has %v%s", line, dataset.ErrFormat, shape, p.shapeAt, p.shape, help)
}

// parse parses the lines of a block.
func (b *block) parse(p *parser) {
	text := b.text
	b.samples = samples{data: b.data[:0], lengths: b.lengths[:0], labels: b.labels}
	b.labels.Reset()
	b.labels.Text, b.labels.Width = false, 0
	b.lines, b.err, b.unlike = 0, nil, nil
	b.numbers.dtype = p.opts.DType
	for len(text) > 0 && b.err == nil && b.unlike == nil {
		var line []byte
		line, text = cutLine(text)
		if b.lines++; len(line) > 0 {
			b.err = b.sample(line, p)
		}
	}
}

// sample parses a line.
func (b *block) sample(line []byte, p *parser) error {
	if !json.Valid(line) {
		var value json.RawMessage
		return fmt.Errorf("%w: not JSON: %w", dataset.ErrFormat, json.Unmarshal(line, &value))
	}
	value, err := find(line, p.field)
	if err != nil {
		return err
	}
	b.numbers.data = b.data
	shape, err := b.numbers.read(value)
	b.data = b.numbers.data
	if err != nil {
		return fmt.Errorf("%w%s", err, inField(p.field))
	}
	switch {
	case p.opts.Ragged && len(shape) > 0 && shape[0] == 0: // of whatever rows
		b.emptyAt = cmp.Or(b.emptyAt, b.lines)
	case slices.Contains(shape, 0):
		return fmt.Errorf("%w: an array of shape %v%s", dataset.ErrEmpty, shape, inField(p.field))
	case b.shapeAt == 0:
		b.shape, b.shapeAt = slices.Clone(shape), b.lines
	case !p.opts.alike(b.shape, shape):
		b.unlike = slices.Clone(shape)
		return nil
	}
	if p.opts.Ragged && len(shape) > 0 {
		b.lengths = append(b.lengths, int64(shape[0]))
	}
	if p.label == nil {
		return nil
	}
	return b.label(line, p.label)
}
