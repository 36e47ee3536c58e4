package spill

import (
	"os"
	"testing"
)

// Smash changes a byte of a piece behind the store's back.
func (s *Store) Smash(p *Piece, at int64) {
	for _, x := range s.parts(p) {
		if at >= x.at && at < x.at+x.n {
			b := []byte{0}
			x.file.file.ReadAt(b, x.offset+at-x.at)
			b[0] ^= 0x80
			x.file.file.WriteAt(b, x.offset+at-x.at)
		}
	}
}

// Hold uses a file as a store of another process does, until it is called.
func Hold(t testing.TB, name string) (release func()) {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err == nil {
		err = lock(f)
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() { f.Close() }
}
