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
	"github.com/pinion-gpu/pinion/tier/internal/spans"
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
	removed   int

	mu   sync.Mutex
	room *spans.List
}

// file is one file: a stripe of every so many.
type file struct {
	name    string // where it was
	file    *os.File
	in, out *directio.File
	busy    chan struct{} // a token for each part under way
	named   bool          // it has its name still
}

// Piece is memory in the store. Its spans are ranges of the store's addresses, which
// run through the stripes of all files in turn.
type Piece struct {
	bytes int64
	spans []spans.Span
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
	bytes := (o.Bytes + unit - 1) / unit * unit
	s.room = spans.New(bytes)
	for _, folder := range o.Folders {
		s.removed += sweep(folder)
		f, err := create(folder, bytes/int64(len(o.Folders)), o.Cached)
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
	return s.room.Usage()
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

// Alloc takes room for n > 0 bytes, in as many parts as it takes. It fails with
// ErrFull.
func (s *Store) Alloc(n int64) (*Piece, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.room.Take(roundUp(n))
	if list == nil {
		bytes, _ := s.room.Usage()
		return nil, fmt.Errorf("%w: %s asked for, %s of %s left", ErrFull, units.Bytes(n), units.Bytes(s.room.Left()), units.Bytes(bytes))
	}
	return &Piece{bytes: n, spans: list}, nil
}

func roundUp(n int64) int64 { return (n + align - 1) / align * align }

// Free gives the room of a piece back.
func (s *Store) Free(p *Piece) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.room.Give(p.spans)
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
		for x.N > 0 {
			number, inside := x.At/stripe, x.At%stripe
			n := min(x.N, stripe-inside)
			k := int64(len(s.files))
			list = append(list, part{s.files[number%k], number/k*stripe + inside, at, n})
			x.At, x.N, at = x.At+n, x.N-n, at+n
		}
	}
	return list
}

// memory is a piece's content, in one place or several: whole pages, and the last
// with room for them.
type memory [][]byte

// check checks that a piece fits, and counts the last place as whole pages.
func (m memory) check(p *Piece) (memory, error) {
	have, last := int64(0), len(m)-1
	for i, b := range m {
		if have += int64(len(b)); i < last && len(b)%align != 0 {
			return nil, fmt.Errorf("file tier: %w: place %d of %d has %d bytes, which are no whole pages", errs.ErrArgument, i, len(m), len(b))
		}
	}
	if have != p.bytes || last < 0 || have-int64(len(m[last]))+int64(cap(m[last])) < roundUp(p.bytes) {
		return nil, fmt.Errorf("file tier: %w: %d bytes for a piece of %d, or no room for whole pages behind them", errs.ErrArgument, have, p.bytes)
	}
	m = slices.Clone(m)
	m[last] = m[last][:roundUp(int64(len(m[last])))]
	return m, nil
}

// each calls do with the places of n bytes at an address of the memory, in order, and
// with where in those bytes each is.
func (m memory) each(at, n int64, do func(b []byte, offset int64) error) error {
	offset := int64(0)
	for _, b := range m {
		if size := int64(len(b)); at >= size {
			at -= size
			continue
		}
		b = b[at:min(int64(len(b)), at+n-offset)]
		if err := do(b, offset); err != nil {
			return err
		}
		if offset, at = offset+int64(len(b)), 0; offset == n {
			break
		}
	}
	return nil
}

var table = crc32.MakeTable(crc32.Castagnoli)

// Write writes a piece from memory in one or several places: each begins on a page and
// is whole pages, and the last has room for them. When it fails, or ctx ends, the
// piece has any content.
func (s *Store) Write(ctx context.Context, p *Piece, from [][]byte) error {
	m, err := memory(from).check(p)
	if err != nil {
		return err
	}
	list := s.parts(p)
	if s.checksums {
		p.sums = make([]uint32, len(list))
	}
	return s.each(ctx, list, func(i int, x part) error {
		return m.each(x.at, x.n, func(b []byte, offset int64) error {
			if s.checksums {
				p.sums[i] = crc32.Update(p.sums[i], table, b)
			}
			if err := x.file.out.Write(b, x.offset+offset); err != nil {
				return fmt.Errorf("file tier: %s: %w", x.file.name, err)
			}
			return nil
		})
	})
}

// Read reads a piece into memory such as Write takes. With checksums it fails with
// errs.ErrDamaged when the bytes are not those that were written.
func (s *Store) Read(ctx context.Context, p *Piece, to [][]byte) error {
	m, err := memory(to).check(p)
	if err != nil {
		return err
	}
	return s.each(ctx, s.parts(p), func(i int, x part) error {
		sum := uint32(0)
		err := m.each(x.at, x.n, func(b []byte, offset int64) error {
			got, err := x.file.in.Read(b, x.offset+offset, int64(len(b)))
			if err != nil {
				return fmt.Errorf("file tier: %s: %w", x.file.name, err)
			}
			if &got[0] != &b[0] {
				copy(b, got)
			}
			if p.sums != nil {
				sum = crc32.Update(sum, table, b)
			}
			return nil
		})
		if err == nil && p.sums != nil && sum != p.sums[i] {
			err = fmt.Errorf("file tier: %s: %w: %d bytes at %d are not those that were written", x.file.name, errs.ErrDamaged, x.n, x.offset)
		}
		return err
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
