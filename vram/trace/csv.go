package trace

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/pinion-gpu/pinion/internal/jsonscan"
)

// csvLines parses the log of RMM's logging resource.
type csvLines struct {
	lines   lines
	ledger  ledger
	streams numbering
	clock   clock
	columns int
	fields  [][]byte

	action, pointer, size int // columns
	time, stream          int // columns, or -1
}

func newCSV(in *bufio.Reader) (*csvLines, error) {
	p := &csvLines{lines: lines{r: in}, ledger: newLedger(1), streams: numbering{}}
	err := p.lines.next()
	if err == nil {
		err = p.split()
	}
	switch {
	case errors.Is(err, ErrMalformed), errors.As(err, new(*csv.ParseError)):
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	case err != nil && err != io.EOF:
		return nil, err
	}
	columns := map[string]int{}
	for i, field := range p.fields {
		columns[strings.ToLower(string(field))] = i
	}
	column := func(name string) int {
		if i, ok := columns[name]; ok {
			return i
		}
		return -1
	}
	p.columns = len(p.fields)
	p.action, p.pointer, p.size = column("action"), column("pointer"), column("size")
	p.time, p.stream = column("time"), column("stream")
	if p.action < 0 || p.pointer < 0 || p.size < 0 {
		return nil, fmt.Errorf("%w: it is not JSON lines, a pickle, or CSV with the columns Action, Pointer and Size: line %d: %.60q",
			ErrFormat, p.lines.number, p.lines.text)
	}
	return p, nil
}

// split cuts the current line into fields.
func (p *csvLines) split() error {
	p.fields = p.fields[:0]
	if bytes.IndexByte(p.lines.text, '"') < 0 {
		for field := range bytes.SplitSeq(p.lines.text, []byte{','}) {
			p.fields = append(p.fields, bytes.TrimSpace(field))
		}
		return nil
	}
	fields, err := csv.NewReader(bytes.NewReader(p.lines.text)).Read()
	if err != nil {
		return err
	}
	for _, field := range fields {
		p.fields = append(p.fields, []byte(strings.TrimSpace(field)))
	}
	return nil
}

func (p *csvLines) next() (Event, error) {
	for {
		if err := p.lines.next(); err != nil {
			return Event{}, err
		}
		event, skip, err := p.parse()
		if err != nil {
			return Event{}, p.lines.malformed(err)
		}
		if !skip {
			return event, nil
		}
	}
}

// parse reads the current line. It asks to skip allocations of no bytes and
// their frees, which RMM logs with a null pointer.
func (p *csvLines) parse() (event Event, skip bool, err error) {
	if err := p.split(); err != nil {
		return event, false, err
	}
	if len(p.fields) != p.columns {
		return event, false, fmt.Errorf("%d fields, the header has %d", len(p.fields), p.columns)
	}
	action := p.fields[p.action]
	pointer, known := parsePointer(p.fields[p.pointer])
	if event.Stream, err = p.streamNumber(); err != nil {
		return event, false, err
	}
	if p.time >= 0 {
		event.Time = p.clock.since(p.fields[p.time])
	}
	switch string(action) {
	case "free", "deallocate":
		if !known {
			return event, false, fmt.Errorf("%.40q is not a pointer", p.fields[p.pointer])
		}
		if pointer == 0 {
			return event, true, nil
		}
		b, err := p.ledger.free(pointer)
		event.Op, event.ID, event.Bytes = Free, b.id, b.bytes
		if p.stream < 0 {
			event.Stream = b.stream
		}
		return event, false, err
	case "allocate", "allocate failure":
	default:
		return event, false, fmt.Errorf("action %.40q; known are allocate, free and allocate failure", action)
	}

	size, ok := jsonscan.ParseUint(p.fields[p.size])
	if !ok || size > math.MaxInt64 {
		return event, false, fmt.Errorf("size %.40q is not an integer of 0 to %d", p.fields[p.size], int64(math.MaxInt64))
	}
	event.Bytes = int64(size)
	if string(action) == "allocate failure" {
		event.Failed = true
		return event, false, checkFailed(event.Bytes)
	}
	switch {
	case !known:
		return event, false, fmt.Errorf("%.40q is not a pointer", p.fields[p.pointer])
	case pointer == 0 && size == 0:
		return event, true, nil
	case pointer == 0:
		return event, false, fmt.Errorf("%d bytes at a null pointer", size)
	}
	event.ID, err = p.ledger.alloc(pointer, 0, event.Bytes, event.Stream)
	return event, false, err
}

// parsePointer reads a pointer as C and C++ print it.
func parsePointer(text []byte) (uint64, bool) {
	if string(text) == "(nil)" {
		return 0, true
	}
	return parseHex(text)
}

// streamNumber numbers the stream of the current line. Streams are handles:
// decimal where they look so, hexadecimal otherwise.
func (p *csvLines) streamNumber() (int, error) {
	if p.stream < 0 {
		return 0, nil
	}
	text := p.fields[p.stream]
	handle, ok := jsonscan.ParseUint(text)
	if !ok {
		handle, ok = parsePointer(text)
	}
	if !ok {
		return 0, fmt.Errorf("%.40q is not a stream", text)
	}
	return p.streams.number(handle)
}
