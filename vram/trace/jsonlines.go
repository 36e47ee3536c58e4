package trace

import (
	"bufio"
	"fmt"
	"math"
	"time"

	"github.com/pinion-gpu/pinion/internal/jsonscan"
)

// jsonLines parses one object for each line.
type jsonLines struct {
	lines   lines
	ledger  ledger
	strings interner
}

func newJSONLines(in *bufio.Reader) *jsonLines {
	return &jsonLines{lines: lines{r: in}, ledger: newLedger(0), strings: interner{}}
}

func (p *jsonLines) next() (Event, error) {
	if err := p.lines.next(); err != nil {
		return Event{}, err
	}
	rec, err := p.parse(p.lines.text)
	if err != nil {
		return Event{}, p.lines.malformed(err)
	}
	event, err := p.event(rec)
	if err != nil {
		return Event{}, p.lines.malformed(err)
	}
	return event, nil
}

// record is the known keys of a line, and which of them it has.
type record struct {
	op, purpose, name          string
	id, bytes, stream          uint64
	hasID, hasBytes, hasStream bool
	failed                     bool
	time                       time.Duration
}

func (p *jsonLines) parse(line []byte) (rec record, err error) {
	err = jsonscan.Object(line, func(key, value []byte) error {
		if string(value) == "null" { // as if it were not there
			return nil
		}
		return p.set(&rec, key, value)
	})
	return rec, err
}

// set stores the value of a key; unknown keys are ignored.
func (p *jsonLines) set(rec *record, key, value []byte) (err error) {
	switch string(key) {
	case "op":
		rec.op, err = p.text(value)
	case "purpose":
		rec.purpose, err = p.text(value)
	case "name":
		rec.name, err = p.text(value)
	case "id":
		rec.id, err = whole(value, math.MaxUint64-1)
		rec.hasID = true
	case "bytes":
		rec.bytes, err = whole(value, math.MaxInt64)
		rec.hasBytes = true
	case "stream":
		rec.stream, err = whole(value, math.MaxInt32)
		rec.hasStream = true
	case "failed":
		rec.failed = string(value) == "true"
		if !rec.failed && string(value) != "false" {
			err = fmt.Errorf("%s is not true or false", value)
		}
	case "time_seconds":
		var ok bool
		if rec.time, ok = parseSeconds(value); !ok {
			err = fmt.Errorf("%s is not a number of seconds", value)
		}
	}
	if err != nil {
		return fmt.Errorf("%q: %w", key, err)
	}
	return nil
}

func (p *jsonLines) text(value []byte) (string, error) {
	if value[0] != '"' {
		return "", fmt.Errorf("%.40s is not a string", value)
	}
	text, err := jsonscan.Unquote(value)
	if err != nil {
		return "", err
	}
	return p.strings.string(text), nil
}

// whole reads an integer of 0 to most.
func whole(value []byte, most uint64) (uint64, error) {
	u, ok := jsonscan.ParseUint(value)
	if !ok || u > most {
		return 0, fmt.Errorf("%.40s is not an integer of 0 to %d", value, most)
	}
	return u, nil
}

func (p *jsonLines) event(rec record) (Event, error) {
	event := Event{Bytes: int64(rec.bytes), Stream: int(rec.stream), Time: rec.time}
	switch {
	case rec.op == "":
		return event, fmt.Errorf(`"op" is missing`)
	case rec.op != "alloc" && rec.op != "free":
		return event, fmt.Errorf(`"op" is %.40q, neither "alloc" nor "free"`, rec.op)
	case rec.op == "alloc" && !rec.hasBytes:
		return event, fmt.Errorf(`"bytes" is missing`)
	case rec.failed && rec.op == "free":
		return event, fmt.Errorf("a free cannot fail")
	case !rec.hasID && !rec.failed:
		return event, fmt.Errorf(`"id" is missing`)
	}
	if rec.op == "free" {
		b, err := p.ledger.free(rec.id)
		if err != nil {
			return event, err
		}
		event.Op, event.ID, event.Bytes = Free, b.id, b.bytes
		if !rec.hasStream {
			event.Stream = b.stream
		}
		return event, nil
	}
	event.Purpose, event.Name = rec.purpose, rec.name
	if rec.failed {
		event.Failed = true
		return event, checkFailed(event.Bytes)
	}
	var err error
	event.ID, err = p.ledger.alloc(rec.id, rec.id, event.Bytes, event.Stream)
	return event, err
}
