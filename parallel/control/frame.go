package control

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/pinion-gpu/pinion/internal/errs"
)

// protocol is the number of what is said on a connection. The magic, and the frames of
// the kinds hello and failed, stay as they are in all of them, so that versions which
// differ can say so.
const protocol = 1

// magic begins both directions of a connection.
const magic = "pinion\r\n"

type kind byte

const (
	hello   kind = iota + 1 // data: a [greeting]; the first frame of both directions
	welcome                 // to a rank that was let in
	later                   // to a rank that shall come again. data: why
	beat                    // up: progress. down: what: whom an exchange waits for, data: who is behind
	part                    // up: what, and data of this rank. down: those of a rank. number: of the exchange
	leaving                 // rank leaves. what: its name
	failed                  // the run has failed by rank. what: its name, data: why
	numKinds
)

// message is one frame: kind, rank, number, the lengths of what and data, what, data;
// numbers are big-endian.
type message struct {
	kind   kind
	rank   int
	number int64
	what   string
	data   []byte
}

const (
	headerSize = 1 + 4 + 8 + 2 + 4
	maxWhat    = 4 << 10
	maxData    = 1 << 20
	maxHello   = 16 << 10
	maxName    = 1 << 10 // of a rank or job, in a greeting
)

// appendHead appends all of the frame but its data. Texts that are too long are cut.
func (m message) appendHead(b []byte) []byte {
	what := m.what[:min(len(m.what), maxWhat)]
	b = append(b, byte(m.kind))
	b = binary.BigEndian.AppendUint32(b, uint32(m.rank))
	b = binary.BigEndian.AppendUint64(b, uint64(m.number))
	b = binary.BigEndian.AppendUint16(b, uint16(len(what)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(m.body())))
	return append(b, what...)
}

func (m message) body() []byte { return m.data[:min(len(m.data), maxData)] }

// appendTo appends the frame.
func (m message) appendTo(b []byte) []byte { return append(m.appendHead(b), m.body()...) }

// readMessage reads a frame with at most limit bytes of data. It allocates no more than
// that, whatever the frame says.
func readMessage(r io.Reader, limit int) (message, error) {
	var head [headerSize]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return message{}, err
	}
	m := message{
		kind:   kind(head[0]),
		rank:   int(binary.BigEndian.Uint32(head[1:])),
		number: int64(binary.BigEndian.Uint64(head[5:])),
	}
	what, data := binary.BigEndian.Uint16(head[13:]), binary.BigEndian.Uint32(head[15:])
	switch {
	case m.kind == 0 || m.kind >= numKinds || m.rank < 0:
		return message{}, fmt.Errorf("%w: a message of kind %d", errs.ErrFormat, m.kind)
	case what > maxWhat || int64(data) > int64(limit):
		return message{}, fmt.Errorf("%w: a message of %d and %d bytes, of %d and %d", errs.ErrTooLarge, what, data, maxWhat, limit)
	}
	body := make([]byte, int(what)+int(data))
	if _, err := io.ReadFull(r, body); err != nil {
		return message{}, fmt.Errorf("%w: a message was cut short: %w", errs.ErrDamaged, err)
	}
	m.what, m.data = string(body[:what]), body[what:]
	return m, nil
}
