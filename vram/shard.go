package vram

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/pinion-gpu/pinion/device"
)

// shard caches freed blocks for the next allocation of the same size on the same
// stream, and counts. A processor stays with one shard as long as it can
// (sync.Pool sees to that; nothing is lost when it drops one), so goroutines on
// different processors rarely meet in one.
type shard struct {
	mu    sync.Mutex
	lines [shardLines]line
	live  tally[gauge]

	stream device.Stream // the last one seen
	owner  *owner

	_ [64]byte // the next shard is in another cache line
}

// line caches blocks of one size and owner.
type line struct {
	bytes int64
	owner *owner
	first *block
	count int
}

const (
	shardLines = 128
	lineBlocks = 64 // capacity of a line
)

// at returns the line for blocks of a size and owner.
func (s *shard) at(bytes int64, o *owner) *line {
	h := uint64(bytes/unit)*0x9e3779b97f4a7c15 + o.hash()
	return &s.lines[h>>32%shardLines]
}

// get takes a block of exactly that size, or returns nil.
func (s *shard) get(bytes int64, o *owner) *block {
	l := s.at(bytes, o)
	b := l.first
	if b == nil || l.bytes != bytes || l.owner != o {
		return nil
	}
	l.first, b.kept = b.kept, nil
	l.count--
	return b
}

// put caches b, and returns a list of the blocks that have to leave for it.
func (s *shard) put(b *block) (evicted *block) {
	l := s.at(b.bytes, b.owner)
	if l.first != nil && (l.bytes != b.bytes || l.owner != b.owner || l.count == lineBlocks) {
		evicted = l.first
		l.first, l.count = nil, 0
	}
	b.kept = l.first
	*l = line{b.bytes, b.owner, b, l.count + 1}
	return evicted
}

// drain empties the shard, and returns its blocks as a list.
func (s *shard) drain() (list *block) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.lines {
		l := &s.lines[i]
		for b := l.first; b != nil; {
			next := b.kept
			b.kept, list = list, b
			b = next
		}
		*l = line{}
	}
	s.stream, s.owner = nil, nil
	return list
}

// shards are those of a pool. All of them are made with the pool, so that locking
// all of them keeps everyone out.
type shards struct {
	near sync.Pool // of *shard, by processor
	all  []*shard
	next atomic.Uint64 // how many were handed out; it must not wrap, or seen would miss some
}

func newShards(n int) []*shard {
	if n == 0 {
		n = 2 * runtime.GOMAXPROCS(0)
	}
	all := make([]*shard, n)
	for i := range all {
		all[i] = new(shard)
	}
	return all
}

// lock returns the shard of this processor, locked; it goes back with release.
func (s *shards) lock() *shard {
	x, _ := s.near.Get().(*shard)
	if x == nil {
		// A new one, one that sync.Pool dropped, or one in use, which is then
		// shared.
		x = s.all[(s.next.Add(1)-1)%uint64(len(s.all))]
	}
	x.mu.Lock()
	return x
}

func (s *shards) release(x *shard) {
	x.mu.Unlock()
	s.near.Put(x)
}

// seen returns the shards that were ever used: the others are empty.
func (s *shards) seen() []*shard { return s.all[:min(s.next.Load(), uint64(len(s.all)))] }

// list returns all shards.
func (s *shards) list() []*shard { return s.all }
