package tier

import (
	"context"
	"sync/atomic"

	"github.com/pinion-gpu/pinion/tier/internal/spill"
)

// FailFiles has writes to the files of s, or reads, fail as long as the values are
// not zero.
func (s *Store) FailFiles(writes, reads *atomic.Int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files.store = &badPieces{s.files.store, writes, reads, err}
}

type badPieces struct {
	pieces
	writes, reads *atomic.Int64
	err           error
}

func (b *badPieces) Write(ctx context.Context, p *spill.Piece, data [][]byte) error {
	if b.writes.Load() != 0 {
		return b.err
	}
	return b.pieces.Write(ctx, p, data)
}

func (b *badPieces) Read(ctx context.Context, p *spill.Piece, data [][]byte) error {
	if b.reads.Load() != 0 {
		return b.err
	}
	return b.pieces.Read(ctx, p, data)
}

// PeakHostBytes is the most pinned memory that s ever had.
func (s *Store) PeakHostBytes() (bytes int64) {
	for _, p := range s.memory {
		bytes += p.pool.Stats().PeakReservedBytes
	}
	return bytes
}

// Marks is how many events of work on the device's copy an array has.
func (a *Array) Marks() int {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	return len(a.marks.reads)
}
