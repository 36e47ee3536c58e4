package spill

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/pinion-gpu/pinion/internal/directio"
	"github.com/pinion-gpu/pinion/internal/errs"
	"github.com/pinion-gpu/pinion/internal/units"
)

// ErrFull: the store has no room for a piece.
var ErrFull = errors.New("file tier is full")

// Options configure a [Store]. Folders and Bytes are needed.
type Options struct {
	Folders   []string // one file is made in each
	Bytes     int64    // of all files together; rounded up to whole stripes
	Checksums bool     // of every part, kept in memory, compared when it is read
	Cached    bool     // go through the page cache; for tests, and for comparison
}

const (
	align  = directio.Align
	stripe = 4 << 20 // bytes of a piece that lie in one file together; also the size of a part

	workersPerFile = 8 // parts of one file under way
)

// Store is files with pieces of memory. Its methods are safe for concurrent use;
// those on one piece must not run beside each other, but reads.
type Store struct {
	files     []*file
	checksums bool
	bytes     int64
	removed   int

	mu   sync.Mutex
	free []span // by address, no two adjacent
	used int64
}

// file is one file: a stripe of every so many.
type file struct {
	name    string // where it was
	file    *os.File
	in, out *directio.File
	busy    chan struct{} // a token for each part under way
	named   bool          // it has its name still
}

// span is a range of the store's addresses, which run through the stripes of all
// files in turn.
type span struct{ at, n int64 }

// Piece is memory in the store.
type Piece struct {
	bytes int64
	spans []span
	sums  []uint32 // of each part, once it was written
}

// Bytes is the size that was asked for.
func (p *Piece) Bytes() int64 { return p.bytes }

// prefix begins the name of every file of a store.
const prefix = "pinion-tier-"

// Open makes the files of a store, and removes those that others left when they were
// killed. It fails when a folder cannot be written, and when the disk has not the
// room.
func Open(o Options) (s *Store, err error) {
	if len(o.Folders) == 0 || o.Bytes <= 0 {
		return nil, fmt.Errorf("file tier: %w: %d bytes in %d folders", errs.ErrArgument, o.Bytes, len(o.Folders))
	}
	s = &Store{checksums: o.Checksums}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("file tier: %w", err), s.Close())
			s = nil
		}
	}()
	unit := int64(stripe * len(o.Folders))
	s.bytes = (o.Bytes + unit - 1) / unit * unit
	s.free = []span{{0, s.bytes}}
	for _, folder := range o.Folders {
		s.removed += sweep(folder)
		f, err := create(folder, s.bytes/int64(len(o.Folders)), o.Cached)
		if err != nil {
			return s, err
		}
		s.files = append(s.files, f)
	}
	return s, nil
}

func create(folder string, bytes int64, cached bool) (*file, error) {
	f, err := os.CreateTemp(folder, prefix+strconv.Itoa(os.Getpid())+"-*")
	if err != nil {
		return nil, err
	}
	x := &file{name: f.Name(), file: f, busy: make(chan struct{}, workersPerFile), named: true}
	err = lock(f)
	if nameless {
		// Another store that sweeps the folder may hold the lock, or have removed
		// the file: then it has lost its name too, as it should.
		if err = os.Remove(f.Name()); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		x.named = err != nil
	}
	if err == nil {
		err = directio.Reserve(f, bytes)
	}
	if err == nil {
		err = f.Truncate(bytes)
	}
	if err == nil {
		err = x.open(cached)
	}
	if err != nil {
		return nil, errors.Join(err, x.close())
	}
	return x, nil
}

// open prepares the file for reads and writes past the page cache, or through it.
func (x *file) open(cached bool) error {
	for _, path := range []directio.Path{directio.Direct, directio.Cached} {
		if cached && path == directio.Direct {
			continue
		}
		in, err := directio.Open(x.file, directio.Options{Path: path})
		if err == nil {
			x.in = in
			x.out, err = directio.Open(x.file, directio.Options{Path: path, Write: true})
		}
		if err == nil || path == directio.Cached || !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
	}
	return nil
}

func (x *file) close() error {
	var list []error
	for _, d := range []*directio.File{x.in, x.out} {
		if d != nil {
			list = append(list, d.Close())
		}
	}
	list = append(list, x.file.Close())
	if x.named {
		list = append(list, os.Remove(x.name))
	}
	return errors.Join(list...)
}

// sweep removes the files in a folder that belong to nobody any more.
func sweep(folder string) (removed int) {
	names, err := filepath.Glob(filepath.Join(escape(folder), prefix+"*"))
	if err != nil {
		return 0
	}
	for _, name := range names {
		if abandoned(name) && os.Remove(name) == nil {
			removed++
		}
	}
	return removed
}

// escape makes a folder's name a pattern that only it matches.
func escape(folder string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(folder)
}

// Close removes the files. No call may be under way.
func (s *Store) Close() error {
	var list []error
	for _, f := range s.files {
		list = append(list, f.close())
	}
	s.files = nil
	return errors.Join(list...)
}

// Usage is the room of the store: all of it, and what pieces take.
func (s *Store) Usage() (bytes, used int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes, s.used
}

// Removed is how many files of processes that were killed Open found and removed.
func (s *Store) Removed() int { return s.removed }

// Notes says in a sentence each why a file is not used past the page cache.
func (s *Store) Notes() (notes []string) {
	for _, f := range s.files {
		for _, d := range []*directio.File{f.in, f.out} {
			for _, n := range d.Notes() {
				if !slices.Contains(notes, n) {
					notes = append(notes, n)
				}
			}
		}
	}
	return notes
}

// Alloc takes room for n > 0 bytes: the first that is free, in as many parts as it
// takes, so that room in pieces is room too. It fails with ErrFull.
func (s *Store) Alloc(n int64) (*Piece, error) {
	size := (n + align - 1) / align * align
	s.mu.Lock()
	defer s.mu.Unlock()
	if size > s.bytes-s.used {
		return nil, fmt.Errorf("%w: %s asked for, %s of %s left", ErrFull, units.Bytes(size), units.Bytes(s.bytes-s.used), units.Bytes(s.bytes))
	}
	s.used += size
	p := &Piece{bytes: n}
	for i := range s.free { // one span that is large enough
		if f := &s.free[i]; f.n >= size {
			p.spans = []span{{f.at, size}}
			if f.at, f.n = f.at+size, f.n-size; f.n == 0 {
				s.free = slices.Delete(s.free, i, i+1)
			}
			return p, nil
		}
	}
	for size > 0 {
		f := &s.free[0]
		take := min(size, f.n)
		p.spans = append(p.spans, span{f.at, take})
		size -= take
		if f.at, f.n = f.at+take, f.n-take; f.n == 0 {
			s.free = s.free[1:]
		}
	}
	return p, nil
}

// Free gives the room of a piece back.
func (s *Store) Free(p *Piece) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range p.spans {
		s.used -= x.n
		i, _ := slices.BinarySearchFunc(s.free, x.at, func(f span, at int64) int { return int(min(max(f.at-at, -1), 1)) })
		s.free = slices.Insert(s.free, i, x)
		if i+1 < len(s.free) && x.at+x.n == s.free[i+1].at {
			s.free[i].n += s.free[i+1].n
			s.free = slices.Delete(s.free, i+1, i+2)
		}
		if i > 0 && s.free[i-1].at+s.free[i-1].n == x.at {
			s.free[i-1].n += s.free[i].n
			s.free = slices.Delete(s.free, i, i+1)
		}
	}
	p.spans = nil
}

// part is what one read or write moves: bytes of one stripe.
type part struct {
	file   *file
	offset int64 // in the file
	at, n  int64 // in the memory
}

// parts cuts a piece.
func (s *Store) parts(p *Piece) (list []part) {
	at := int64(0)
	for _, x := range p.spans {
		for x.n > 0 {
			number, inside := x.at/stripe, x.at%stripe
			n := min(x.n, stripe-inside)
			k := int64(len(s.files))
			list = append(list, part{s.files[number%k], number/k*stripe + inside, at, n})
			x.at, x.n, at = x.at+n, x.n-n, at+n
		}
	}
	return list
}

// room is b as far as whole units go.
func room(p *Piece, b []byte) ([]byte, error) {
	size := (p.bytes + align - 1) / align * align
	if int64(len(b)) < p.bytes || int64(cap(b)) < size {
		return nil, fmt.Errorf("file tier: %w: %d bytes, with room for %d, for a piece of %d", errs.ErrArgument, len(b), cap(b), p.bytes)
	}
	return b[:size], nil
}

var table = crc32.MakeTable(crc32.Castagnoli)

// Write writes a piece from b, whose capacity is whole units of 4096 bytes. When it
// fails, or ctx ends, the piece has any content.
func (s *Store) Write(ctx context.Context, p *Piece, b []byte) error {
	b, err := room(p, b)
	if err != nil {
		return err
	}
	list := s.parts(p)
	if s.checksums {
		p.sums = make([]uint32, len(list))
	}
	return s.each(ctx, list, func(i int, x part) error {
		data := b[x.at : x.at+x.n]
		if s.checksums {
			p.sums[i] = crc32.Checksum(data, table)
		}
		if err := x.file.out.Write(data, x.offset); err != nil {
			return fmt.Errorf("file tier: %s: %w", x.file.name, err)
		}
		return nil
	})
}

// Read reads a piece into b, whose capacity is whole units of 4096 bytes. With
// checksums it fails with errs.ErrDamaged when the bytes are not those that were
// written.
func (s *Store) Read(ctx context.Context, p *Piece, b []byte) error {
	b, err := room(p, b)
	if err != nil {
		return err
	}
	return s.each(ctx, s.parts(p), func(i int, x part) error {
		data := b[x.at : x.at+x.n]
		got, err := x.file.in.Read(data, x.offset, x.n)
		if err != nil {
			return fmt.Errorf("file tier: %s: %w", x.file.name, err)
		}
		if &got[0] != &data[0] {
			copy(data, got)
		}
		if p.sums != nil && crc32.Checksum(data, table) != p.sums[i] {
			return fmt.Errorf("file tier: %s: %w: %d bytes at %d are not those that were written", x.file.name, errs.ErrDamaged, x.n, x.offset)
		}
		return nil
	})
}

// each does all parts, several at once, until one fails or ctx ends.
func (s *Store) each(ctx context.Context, list []part, do func(int, part) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for i, x := range list {
		select {
		case x.file.busy <- struct{}{}:
		case <-ctx.Done():
			all.Wait()
			return context.Cause(ctx)
		}
		all.Go(func() {
			defer func() { <-x.file.busy }()
			if err := do(i, x); err != nil {
				cancel(err)
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}
