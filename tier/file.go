package tier

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pinion-gpu/pinion/internal/probe"
	"github.com/pinion-gpu/pinion/tier/internal/spill"
)

// Files are the tier below host memory.
type Files struct {
	// Folders are where the files are made, one in each: on disks of their own,
	// the stripes of an array are read and written together. Default: no file
	// tier.
	Folders []string

	// Bytes is the size of all files together. It is taken from the disks when
	// the store is made, where the file system can do that: a disk that is too
	// full is an error then, and no surprise later.
	Bytes int64

	// Checksums compares what comes back from a file with what went there.
	Checksums bool
}

// fileCopy is an array's piece of the files.
type fileCopy struct {
	piece   *spill.Piece // nil: none
	version uint64
	writing bool
	reading bool
}

// fileTier is the files of a store. Everything is guarded by Store.mu but the store
// itself.
type fileTier struct {
	store   pieces
	bytes   int64
	ctx     context.Context
	reads   int64 // bytes of arrays being read
	writes  int64 // bytes of arrays being written
	refused error // why the latest write failed; until a use gives up, none begins
}

// pieces is what the tier needs of a spill.Store.
type pieces interface {
	Alloc(n int64) (*spill.Piece, error)
	Free(*spill.Piece)
	Write(ctx context.Context, p *spill.Piece, from [][]byte) error
	Read(ctx context.Context, p *spill.Piece, to [][]byte) error
	Usage() (bytes, used int64)
	Close() error
}

func openFiles(ctx context.Context, o Files) (*fileTier, error) {
	if len(o.Folders) == 0 {
		return nil, nil
	}
	s, err := spill.Open(spill.Options{Folders: o.Folders, Bytes: o.Bytes, Checksums: o.Checksums})
	if err != nil {
		return nil, err
	}
	bytes, _ := s.Usage()
	return &fileTier{store: s, bytes: bytes, ctx: ctx}, nil
}

func (f *fileTier) close() error {
	if f == nil {
		return nil
	}
	return f.store.Close()
}

// inFile reports whether the newest content is in a file.
func (a *Array) inFile() bool {
	return a.file.piece != nil && !a.file.writing && a.file.version == a.version
}

// fetch starts reading an array from its file to host memory. It reports false while
// that has to wait for room, or for other reads. s.mu is held for all that follows.
func (s *Store) fetch(a *Array) bool {
	if a.file.reading {
		return true
	}
	if a.mem.busy > 0 || s.files.reads > 0 && s.files.reads+a.bytes > s.window() || !s.takePlace(a) {
		return false
	}
	f, piece, version := s.files, a.file.piece, a.version
	a.file.reading = true
	a.mem.busy++
	a.mem.filling = true
	f.reads += a.bytes
	s.inflight++
	s.moves++
	s.counts.FetchedBytes += a.bytes
	go func() {
		row := s.row("reads of files")
		mark := probe.Begin(row, a.name)
		err := s.allocMemory(a)
		if err == nil {
			err = f.store.Read(f.ctx, piece, a.mem.parts)
		}
		mark.End(row, probe.Span{Name: a.name, Bytes: a.bytes})
		s.mu.Lock()
		defer s.mu.Unlock()
		a.file.reading = false
		a.mem.busy--
		a.mem.filling = false
		f.reads -= a.bytes
		s.inflight--
		if err == nil {
			a.mem.version = version
		} else {
			s.memoryFailed(a)
			err = fmt.Errorf("tier: read %v: %w", a, err)
			s.stuck, a.stuck = err, err
			if a.dev.state == reserved {
				s.unreserve(a)
			}
			s.failed(a, err)
		}
		s.forgetStale(a)
		s.settled(a)
	}()
	return true
}

// save starts writing an array from host memory to a file. It reports false when
// there is no room.
func (s *Store) save(a *Array) bool {
	f := s.files
	piece, err := f.store.Alloc(a.bytes)
	if errors.Is(err, spill.ErrFull) && s.dropFiles(a.size) {
		piece, err = f.store.Alloc(a.bytes)
	}
	if err != nil {
		return false
	}
	parts := a.mem.parts
	a.file = fileCopy{piece: piece, version: a.version, writing: true}
	a.mem.busy++
	f.writes += a.bytes
	s.inflight++
	s.moves++
	s.counts.SavedBytes += a.bytes
	go func() {
		row := s.row("writes of files")
		mark := probe.Begin(row, a.name)
		err := f.store.Write(f.ctx, piece, parts)
		mark.End(row, probe.Span{Name: a.name, Bytes: a.bytes})
		s.mu.Lock()
		defer s.mu.Unlock()
		a.mem.busy--
		a.file.writing = false
		f.writes -= a.bytes
		s.inflight--
		if err != nil {
			f.refused = fmt.Errorf("tier: write %v: %w", a, err)
			s.stuck = f.refused
			s.forgetFile(a)
		}
		s.forgetStale(a)
		s.settled(a)
	}()
	return true
}

// forgetFile gives the room of an array in the files back, once nothing uses it.
func (s *Store) forgetFile(a *Array) {
	if a.file.piece == nil || a.file.writing || a.file.reading {
		return
	}
	s.files.store.Free(a.file.piece)
	a.file = fileCopy{}
}

// stale reports whether an array's piece has an older content that is not wanted any
// more. Until the host saw that the array came to the device, what was written there
// may yet be lost, and the older content is the one that counts.
func (a *Array) stale() bool {
	return a.file.piece != nil && a.file.version != a.version && a.dev.state != launched
}

// forgetStale gives the room of an older content back.
func (s *Store) forgetStale(a *Array) {
	if a.stale() {
		s.forgetFile(a)
	}
}

// dropFiles makes room for n bytes in the files: copies of what is above as well are
// given up, those that stay there longest first, but only if that does. It reports
// whether it did.
func (s *Store) dropFiles(n int64) bool {
	var list []*Array
	bytes, used := s.files.store.Usage()
	room := bytes - used
	for a := range s.arrays {
		if a.mayDropFile() {
			list = append(list, a)
			room += a.size
		}
	}
	if room < n {
		return false
	}
	slices.SortFunc(list, func(x, y *Array) int { return cmp.Compare(s.next(x), s.next(y)) })
	for _, a := range list {
		if bytes, used := s.files.store.Usage(); bytes-used >= n {
			break
		}
		s.forgetFile(a)
	}
	return true
}

// mayDropFile reports whether the copy of an array in a file can be given up.
func (a *Array) mayDropFile() bool {
	if a.file.piece == nil || a.file.writing || a.file.reading {
		return false
	}
	return a.stale() || a.inFile() && (a.inMemory() || a.onDevice())
}

// memoryRoom makes room for n bytes in host memory: what is in a file too is
// forgotten, and what is not goes there. What uses wait for goes last. It reports
// whether something gave its place up at once.
func (s *Store) memoryRoom(n int64) bool {
	if s.files != nil {
		for _, wanted := range []bool{false, true} {
			if s.vacate(s.last(wanted, (*Array).spare)) {
				return true
			}
			for s.files.refused == nil && s.files.writes < n+s.window() {
				if a := s.last(wanted, (*Array).alone); a == nil || !s.save(a) {
					break
				}
			}
			if s.files.writes > 0 {
				return false
			}
		}
	}
	return s.vacate(s.memoryVictim(n))
}

// last is the array of a kind that is needed last, of those that uses wait for, or of
// the others; nil: there is none.
func (s *Store) last(wanted bool, kind func(*Array) bool) (last *Array) {
	for a := range s.arrays {
		if a.wanted() == wanted && kind(a) && (last == nil || s.next(a) > s.next(last)) {
			last = a
		}
	}
	return last
}

// spare reports whether the place of an array can be given up for nothing: what is
// there is old, or in a file too.
func (a *Array) spare() bool {
	if a.mem.parts == nil || a.mem.busy > 0 || a.dev.state == reserved {
		return false
	}
	return a.inMemory() && a.inFile() || !a.inMemory() && a.dev.state == absent
}

// alone reports whether the content of an array is in host memory and nowhere else, and
// can be saved to a file.
func (a *Array) alone() bool {
	return a.inMemory() && !a.inFile() && !a.file.writing && a.mem.busy == 0 && a.dev.state == absent
}

// vacate gives up the place of an array, if there is one.
func (s *Store) vacate(a *Array) bool {
	if a == nil {
		return false
	}
	s.release(a)
	return true
}
