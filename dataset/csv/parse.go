package csv

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/internal/labels"
	"github.com/pinion-gpu/pinion/dataset/internal/lines"
	"github.com/pinion-gpu/pinion/dataset/internal/names"
	"github.com/pinion-gpu/pinion/dataset/internal/number"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/units"
)

// form is what the options and the first row say about every row.
type form struct {
	delimiter byte
	fields    int    // of a row, 0 before the first row
	label     []bool // of each column, whether it is one of labels; nil: none
	text      bool   // labels are texts
	labels    int    // how many columns
	width     int    // elements of a sample
	dtype     dtype.DType
	header    []string // names of all columns, or nil
}

// parser reads a file; several blocks are parsed at once.
type parser struct {
	opts   Options
	form   form
	names  []string // of the samples' columns, or nil
	line   int      // lines done
	data   []byte
	labels labels.Builder
	// undecided: there was no row yet that shows whether labels are texts.
	undecided bool
}

// block is some lines and what is in them.
type block struct {
	text   []byte
	lines  int // done; the last is the one of err
	data   []byte
	labels labels.Builder
	err    error
}

// read reads a file. The texts of errors begin with ": " or ":line: ".
func (p *parser) read(ctx context.Context, file *lines.Blocks, workers int) error {
	blocks := make([]block, workers)
	for end := false; !end; {
		used := 0
		for used < workers && !end {
			text, err := file.Next(ctx, blocks[used].text)
			if end = err == io.EOF; end {
				break
			}
			if err == nil && p.form.fields == 0 {
				text, err = p.start(text)
			} else if err == nil && p.undecided {
				p.decide(text)
			}
			if err != nil {
				return fmt.Errorf(": %w", err)
			}
			blocks[used].text = text
			used++
		}
		if err := p.parse(blocks[:used], file.Left); err != nil {
			return err
		}
	}
	if len(p.data) == 0 {
		return fmt.Errorf(": %w: no rows in %d lines", dataset.ErrEmpty, p.line)
	}
	return nil
}

// start takes the form from the first row, if there is one in text, and
// returns the text from the first row of numbers on.
func (p *parser) start(text []byte) ([]byte, error) {
	if p.line == 0 {
		text = bytes.TrimPrefix(text, []byte(lines.ByteOrderMark))
	}
	var line, rest []byte
	for {
		if len(text) == 0 {
			return nil, nil
		}
		if line, rest = cutLine(text); !skipped(line) {
			break
		}
		text = rest
		p.line++
	}
	f := form{delimiter: p.opts.Delimiter, dtype: p.opts.DType}
	if f.delimiter == 0 {
		f.delimiter = delimiterOf(line)
	}
	fields := splitLine(line, f.delimiter)
	f.fields, f.width = len(fields), len(fields)
	if p.opts.Header == 1 || p.opts.Header == 0 && namesIn(fields, p.opts.Label) {
		f.header = fields
		text = rest
		p.line++
	}
	if err := f.chooseLabels(p.opts.Label); err != nil {
		return nil, err
	}
	if f.width == 0 {
		return nil, fmt.Errorf("%w: no columns besides the label", dataset.ErrEmpty)
	}
	p.form = f
	p.undecided = f.labels > 0
	p.decide(text)
	for i, name := range f.header {
		if f.label == nil || !f.label[i] {
			p.names = append(p.names, name)
		}
	}
	return text, nil
}

// namesIn reports whether the first row holds names: not all of its fields are
// numbers, but for labels whose columns are given by number.
func namesIn(fields []string, label string) bool {
	for _, name := range strings.Split(label, ",") {
		column, err := strconv.Atoi(name)
		if err != nil && slices.Contains(fields, name) {
			return true
		}
		if column < 0 {
			column += len(fields)
		}
		if err == nil && column >= 0 && column < len(fields) {
			fields = slices.Clone(fields)
			fields[column] = "0"
		}
	}
	return !numeric(fields)
}

// chooseLabels finds the columns of labels: one, or several with commas between
// them.
func (f *form) chooseLabels(option string) error {
	if option == "" {
		return nil
	}
	f.label = make([]bool, f.fields)
	list := []string{option}
	if !slices.Contains(f.header, option) {
		list = strings.Split(option, ",")
	}
	for _, name := range list {
		column := slices.Index(f.header, name)
		if column < 0 {
			var err error
			column, err = strconv.Atoi(name)
			if column < 0 {
				column += f.fields
			}
			if err != nil || column < 0 || column >= f.fields {
				return fmt.Errorf("%w: no label column %.80q among the %d: %s", dataset.ErrArgument, name, f.fields, names.Listed(f.header))
			}
		}
		if !f.label[column] {
			f.label[column] = true
			f.labels++
			f.width--
		}
	}
	return nil
}

// decide finds out from the first row of text, if there is one, whether labels are
// texts.
func (p *parser) decide(text []byte) {
	f := &p.form
	for len(text) > 0 && p.undecided {
		var line []byte
		if line, text = cutLine(text); skipped(line) {
			continue
		}
		for i, field := range splitLine(line, f.delimiter) {
			if i < f.fields && f.label[i] && p.undecided {
				_, numeric := number.Parse([]byte(field))
				f.text = f.labels == 1 && !numeric
				p.undecided = false
			}
		}
		p.undecided = false
	}
	p.labels.Text, p.labels.Width = f.text, f.labels
}

// parse parses blocks and appends what they hold in their order. The bytes of
// the file that are left say how much room to make.
func (p *parser) parse(blocks []block, left int64) error {
	var group sync.WaitGroup
	for i := range blocks {
		group.Go(func() { blocks[i].parse(&p.form) })
	}
	group.Wait()
	for i := range blocks {
		b := &blocks[i]
		p.line += b.lines
		if b.err != nil {
			return fmt.Errorf(":%d: %w", p.line, b.err)
		}
		p.data = lines.MakeRoom(p.data, len(b.data), len(b.text), int64(len(blocks)*len(b.text))+left)
		p.data = append(p.data, b.data...)
		p.labels.Append(&b.labels)
	}
	return nil
}

func (b *block) parse(f *form) {
	b.lines, b.data, b.err = 0, b.data[:0], nil
	b.labels.Text, b.labels.Width = f.text, f.labels
	b.labels.Reset()
	for text := b.text; len(text) > 0 && b.err == nil; b.lines++ {
		var line []byte
		if line, text = cutLine(text); !skipped(line) {
			b.err = b.row(f, line)
		}
	}
}

// notNumber says what is wrong with a field, and what may help.
func notNumber(field []byte) string {
	first, _ := utf8.DecodeRune(field)
	switch {
	case len(field) == 0:
		return "it is empty, want a number"
	case unicode.IsLetter(first):
		return fmt.Sprintf("%.40q is not a number; text can only be a label (Label, --label)", field)
	}
	if whole, part, comma := bytes.Cut(field, []byte{','}); comma {
		_, a := number.Parse(whole)
		if _, b := number.Parse(part); a && b {
			return fmt.Sprintf("%.40q is not a number; numbers have a decimal point and nothing between thousands", field)
		}
	}
	return fmt.Sprintf("%.40q is not a number", field)
}

// row parses one row.
func (b *block) row(f *form, line []byte) error {
	for column, more := 0, true; more || column < f.fields; column++ {
		if !more || column == f.fields {
			return fmt.Errorf("%w: %s, want %d", dataset.ErrFormat, units.Count(column+len(splitRest(line, f.delimiter, more)), "column"), f.fields)
		}
		field := line
		label := f.label != nil && f.label[column]
		v, n, ok := number.Scan(line)
		switch {
		case label && f.text:
			field, line, more = cutField(line, f.delimiter)
			b.labels.Name(string(field))
			continue
		case ok && n == len(line):
			line, more = nil, false
		case ok && line[n] == f.delimiter && f.delimiter != ' ':
			field, line = line[:n], line[n+1:]
		default:
			field, line, more = cutField(line, f.delimiter)
			v, ok = number.Parse(field)
		}
		if !ok {
			return fmt.Errorf("%w: column %s: %s", dataset.ErrFormat, f.column(column), notNumber(field))
		}
		switch {
		case label:
			if err := b.labels.Number(v); err != nil {
				return fmt.Errorf("column %s: %w", f.column(column), err)
			}
		case f.dtype == dtype.F64:
			b.data = binary.LittleEndian.AppendUint64(b.data, math.Float64bits(v))
		default:
			single := float32(v)
			if math.IsInf(float64(single), 0) && !math.IsInf(v, 0) {
				return fmt.Errorf("%w: column %s: %.40q does not fit f32", dataset.ErrFormat, f.column(column), field)
			}
			b.data = binary.LittleEndian.AppendUint32(b.data, math.Float32bits(single))
		}
	}
	return nil
}

// splitRest returns the fields of what is left of a row, if anything is.
func splitRest(line []byte, delimiter byte, more bool) []string {
	if !more {
		return nil
	}
	return splitLine(line, delimiter)
}

// column names a column in messages: `2 "age"`.
func (f *form) column(i int) string {
	if f.header == nil {
		return strconv.Itoa(i)
	}
	return fmt.Sprintf("%d %.40q", i, f.header[i])
}
