package shard

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/pinion-gpu/pinion/dataset/internal/labels"
)

// Set is the samples of one or more shards, in the order of the shards. It is
// safe for concurrent use.
type Set struct {
	opts    Options
	shards  []shard
	starts  []int    // number of the first sample of each shard, and of all at the end
	classes []string // nil: none
	files   *files
	blocks  *blocks
	cache   *cache
	scans   chan struct{} // a slot for each shard whose index is made
	closed  atomic.Bool

	ownClient bool // its connections end with the set
}

// shard is a tar and what is in it.
type shard struct {
	name string
	place
	index *index
	fault error // why it cannot be read: it is one sample, which fails with that
}

// place is where a shard is.
type place interface {
	source
	// bytes is the size of the shard.
	bytes() int64
	// identity changes when the shard does, and differs from that of any
	// other shard.
	identity() string
	// sidecar returns the content of the index beside the shard, nil for
	// none.
	sidecar(ctx context.Context) ([]byte, error)
}

// Open opens the shards at a location:
//
//	train-000.tar                               one file
//	train-{000..127}.tar                        files by number
//	train                                       a folder: its *.tar, by name
//	https://example.org/train-{000..127}.tar    a server that serves ranges
//
// What is in a shard is found by reading its headers, in several shards at
// once, unless there is an index: beside the shard, or in the cache from the
// last time. A shard of a server without either is fetched once from start to
// end, but for members larger than a block.
//
// Of several files, one that cannot be read (it is damaged, too large, no tar, or a
// link to nothing) stands for one sample, which fails when it is read;
// [Set.Warnings] tells of it. How many samples it had, nobody knows.
//
// Close closes the set. Open fails with [ErrEmpty], [ErrFormat],
// [ErrDamaged], [ErrTooLarge], [ErrUnavailable] or [ErrArgument], or with the
// error of the file system.
func Open(ctx context.Context, location string, opts Options) (*Set, error) {
	own := opts.Client == nil
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	list, err := locate(location)
	if err != nil {
		return nil, err
	}
	c, err := opts.cache()
	if err != nil {
		return nil, fmt.Errorf("the cache of shards: %w", err)
	}
	s := &Set{opts: opts, files: newFiles(), blocks: newBlocks(opts.blockBytes, c), cache: c, ownClient: own}
	if err := s.open(ctx, list); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// open opens the shards of a list, several at once.
func (s *Set) open(ctx context.Context, list []string) error {
	s.shards = make([]shard, len(list))
	client := newRetryClient(s.opts)
	classes := classList{texts: make([]bool, len(list))}
	workers := max(8, runtime.GOMAXPROCS(0)) // disks and networks answer several at once
	s.scans = make(chan struct{}, workers)
	if remoteLocation(list[0]) {
		workers = s.opts.Connections
		// What is fetched ahead for all of them fits the memory.
		s.scans = make(chan struct{}, memoryBlocks/(1+readAhead))
	}
	err := each(ctx, len(list), workers, func(ctx context.Context, i int) error {
		d := &s.shards[i]
		err := s.openShard(ctx, i, list[i], client)
		if err != nil && len(list) > 1 && isFault(list[i], err) {
			d.fault, d.index = d.named(err), &index{samples: []sample{{label: -1}}}
			return nil
		}
		if err == nil {
			err = classes.add(i, d.index)
		}
		return d.named(err)
	})
	if err != nil {
		return err
	}
	s.starts = make([]int, 1, len(list)+1)
	var last *remote
	for i, d := range s.shards {
		s.starts = append(s.starts, s.starts[i]+len(d.index.samples))
		if r, ok := d.place.(*remote); ok {
			if r.last.Store(-1); last != nil {
				last.next = r
			}
			last = r
		}
	}
	faults := s.faults()
	switch {
	case s.Len() > len(faults):
	case len(faults) > 0:
		return faults[0]
	default:
		return fmt.Errorf("%s: %w: no samples in %d shards; %d members have names of another kind", s.shards[0].name, ErrEmpty, len(list), s.Skipped())
	}
	s.classes, err = s.commonClasses(&classes)
	return err
}

// isFault reports whether a file has an error of its own, which says nothing about
// the other shards. A file that is not there at all is a mistake in a pattern.
func isFault(location string, err error) bool {
	if remoteLocation(location) {
		return false
	}
	if errors.Is(err, fs.ErrNotExist) {
		_, gone := os.Lstat(location)
		return gone == nil // a link to nothing
	}
	return slices.ContainsFunc([]error{ErrDamaged, ErrFormat, ErrTooLarge, fs.ErrPermission}, func(kind error) bool { return errors.Is(err, kind) })
}

// faults returns why shards cannot be read.
func (s *Set) faults() (list []error) {
	for _, d := range s.shards {
		if d.fault != nil {
			list = append(list, d.fault)
		}
	}
	return list
}

// Warnings implements what [dataset.Warnings] asks for.
func (s *Set) Warnings() []string {
	faults := s.faults()
	if len(faults) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%d of %d shards cannot be read, and stand for one bad sample each; the first: %v", len(faults), len(s.shards), faults[0])}
}

// named puts the name of the shard before an error that does not have it.
func (d *shard) named(err error) error {
	var path *fs.PathError
	if err == nil || errors.As(err, &path) {
		return err
	}
	return fmt.Errorf("%s: %w", d.name, err)
}

// memberName names a member: "train-000.tar/n01/0017.jpg".
func (d *shard) memberName(m int) string {
	if d.fault != nil {
		return d.name
	}
	return d.name + "/" + d.index.name(m)
}

// openShard opens shard i.
func (s *Set) openShard(ctx context.Context, i int, location string, client *client) (err error) {
	d := &s.shards[i]
	d.name = location
	if remoteLocation(location) {
		u, err := url.Parse(location)
		if err != nil {
			d.name = "a shard"
			return fmt.Errorf("%w: not a URL: %w", ErrArgument, withoutURL(err))
		}
		d.name = display(u)
		if d.place, err = openRemote(ctx, u, client, s.blocks); err != nil {
			return err
		}
	} else if d.place, err = openFile(location, s.files); err != nil {
		return err
	}
	d.index, err = s.loadIndex(ctx, d.place)
	return err
}

// loadIndex gets an index from the cache, from beside the shard, or from the
// shard itself.
func (s *Set) loadIndex(ctx context.Context, p place) (*index, error) {
	from := labels.NewSource(s.opts.Label, s.opts.LabelField)
	// The identity may hold a password or a signature, which do not belong in
	// a file.
	key := cacheName(p.identity() + "\x00" + from.String())
	name := key + IndexSuffix
	if x, err := decodeIndex(s.cache.get(name), key, p.bytes()); err == nil {
		return x, nil
	}
	content, err := p.sidecar(ctx)
	if err != nil {
		return nil, err
	}
	x, err := decodeIndex(content, from.String(), p.bytes())
	if err != nil {
		s.scans <- struct{}{}
		x, err = scan(ctx, p, p.bytes(), from)
		if <-s.scans; err != nil {
			return nil, err
		}
	}
	if s.cache != nil {
		s.cache.put(name, x.encode(key))
	}
	return x, nil
}

// each calls f with 0 to n-1, several at once, and returns the first error.
func each(ctx context.Context, n, workers int, f func(ctx context.Context, i int) error) error {
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	errs := make([]error, n)
	for i := 0; i < n && inner.Err() == nil; i++ {
		group.Go(func() error {
			errs[i] = f(inner, i)
			return errs[i]
		})
	}
	err := group.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	// The first shard that is at fault, not the one that was found first; those
	// that were stopped are not the reason.
	if i := slices.IndexFunc(errs, func(err error) bool { return err != nil && !errors.Is(err, context.Canceled) }); i >= 0 {
		return errs[i]
	}
	return err
}

// Len returns the number of samples, at least 1.
func (s *Set) Len() int { return s.starts[len(s.shards)] }

// Shards returns the number of samples of each shard.
func (s *Set) Shards() []int {
	var list []int
	for _, d := range s.shards {
		list = append(list, len(d.index.samples))
	}
	return list
}

// Skipped returns the number of members that are in no sample: hidden ones,
// those without an extension, and those called __like this__.
func (s *Set) Skipped() int {
	n := 0
	for _, d := range s.shards {
		n += d.index.skipped
	}
	return n
}

// at returns the shard of sample i and the number it has there.
func (s *Set) at(i int) (*shard, int) {
	n, _ := slices.BinarySearch(s.starts, i+1)
	return &s.shards[n-1], i - s.starts[n-1]
}

// Name names sample i: "train-000.tar/n01/0017".
func (s *Set) Name(i int) string {
	d, k := s.at(i)
	if d.fault != nil {
		return d.name
	}
	return d.name + "/" + string(d.index.key(k))
}

// Label returns the label of sample i, or -1 where there is none.
func (s *Set) Label(i int) int32 {
	d, k := s.at(i)
	return d.index.samples[k].label
}

// Extensions returns the extensions of the members of sample i, in their
// order.
func (s *Set) Extensions(i int) []string {
	d, k := s.at(i)
	var list []string
	first, end := d.index.run(k)
	for m := first; m < end; m++ {
		list = append(list, d.index.extensions[d.index.extension[m]])
	}
	return list
}

// someExtensions shows the first extensions of sample i in messages.
func (s *Set) someExtensions(i int) string {
	const most = 16
	list := s.Extensions(i)
	if len(list) > most {
		list = append(list[:most], fmt.Sprintf("and %d more", len(list)-most))
	}
	return strings.Join(list, ", ")
}

// Read returns the content of the member of sample i with that extension, in
// buf where its capacity is enough, and else in new memory. The result is the
// caller's. Without such a member it fails with [fs.ErrNotExist].
func (s *Set) Read(ctx context.Context, i int, extension string, buf []byte) ([]byte, error) {
	if i < 0 || i >= s.Len() {
		return nil, fmt.Errorf("%w: sample %d of %d", ErrArgument, i, s.Len())
	}
	d, k := s.at(i)
	if d.fault != nil {
		return nil, d.fault
	}
	m := d.index.find(k, extension)
	if m < 0 {
		return nil, fmt.Errorf("%s: %w: no member with extension %q, but %s", s.Name(i), fs.ErrNotExist, extension, s.someExtensions(i))
	}
	return s.read(ctx, d, m, buf)
}

// read returns the content of a member.
func (s *Set) read(ctx context.Context, d *shard, m int, buf []byte) ([]byte, error) {
	if d.fault != nil {
		return nil, d.fault
	}
	content, err := s.content(ctx, d, d.index.members[m], buf)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.memberName(m), err)
	}
	return content, nil
}

func (s *Set) content(ctx context.Context, d *shard, m member, buf []byte) ([]byte, error) {
	switch {
	case s.closed.Load():
		return nil, fs.ErrClosed
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case m.size > s.opts.MaxMemberBytes:
		return nil, fmt.Errorf("%w: a member of %d bytes, the limit is %d", ErrTooLarge, m.size, s.opts.MaxMemberBytes)
	}
	size := int(m.size)
	if need := max(size, blockBytes); cap(buf) < need {
		buf = make([]byte, need+need/4)
	}
	// An index beside a shard may be that of an older one.
	header := buf[:blockBytes]
	if err := d.readAt(ctx, header, m.offset()-blockBytes); err != nil {
		return nil, err
	}
	if crc32.Checksum(header, castagnoli) != m.check {
		return nil, fmt.Errorf("%w: the header at byte %d is not the one that was indexed: the shard changed, or its index is old", ErrDamaged, m.offset()-blockBytes)
	}
	if size == 0 {
		return buf[:0], nil
	}
	if err := d.readAt(ctx, buf[:size], m.offset()); err != nil {
		return nil, err
	}
	return buf[:size], nil
}

// Stats counts what a set has done so far.
type Stats struct {
	Fetched      int64 // blocks that servers sent
	FetchedBytes int64
	FromCache    int64 // reads of blocks in the cache
	FromMemory   int64 // reads of blocks in memory
	Repaired     int64 // blocks in the cache with wrong checksums
	NotCached    int64 // files that could not be written to the cache
}

// Stats returns the counts.
func (s *Set) Stats() Stats {
	b := s.blocks
	t := Stats{
		Fetched: b.fetched.Load(), FetchedBytes: b.fetchedBytes.Load(),
		FromCache: b.fromCache.Load(), FromMemory: b.fromMemory.Load(),
	}
	if s.cache != nil {
		t.Repaired, t.NotCached = s.cache.repaired.Load(), s.cache.failed.Load()
	}
	return t
}

// Close ends all requests and closes the shards. Later reads fail with
// [fs.ErrClosed].
func (s *Set) Close() error {
	s.closed.Store(true)
	s.blocks.close()
	s.files.close()
	if s.ownClient {
		s.opts.Client.CloseIdleConnections()
	}
	return nil
}
