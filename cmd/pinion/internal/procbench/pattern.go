package procbench

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
)

// fill writes the bytes of a seed, which no copy could leave by accident and
// no other process has.
func fill(b []byte, seed uint64) { random(seed).Read(b) }

func random(seed uint64) *rand.ChaCha8 {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	return rand.NewChaCha8(key)
}

// pattern compares bytes that come piece by piece with those of a seed.
type pattern struct {
	source *rand.ChaCha8
	want   []byte
}

// compareBytes is the size of a piece, a multiple of what the source makes at
// once.
const compareBytes = 1 << 20

func newPattern(seed uint64) *pattern {
	return &pattern{random(seed), make([]byte, compareBytes)}
}

var errBytes = errors.New("the bytes that arrived are not those that were sent")

// next compares the next bytes.
func (p *pattern) next(got []byte) error {
	for len(got) > 0 {
		n := min(len(got), len(p.want))
		p.source.Read(p.want[:n])
		if !bytes.Equal(got[:n], p.want[:n]) {
			return errBytes
		}
		got = got[n:]
	}
	return nil
}
