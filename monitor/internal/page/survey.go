package page

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/vram"
)

// errNoPool: a request asks for a pool that there is not.
var errNoPool = errors.New("there is no such pool")

// A survey is as old as this at least before there is a new one, and takes at most
// this share of the time: it holds its pool up, the longer the more blocks there are.
// Who asks for none for forgetAfter frees its memory.
const (
	surveyEvery = 2 * time.Second
	surveyShare = 1.0 / 200
	forgetAfter = time.Minute
)

// surveys are what the pools of the process hold, as of a moment ago.
type surveys struct {
	list   call[[]*vram.Pool]
	mu     sync.Mutex
	pools  map[*vram.Pool]*surveyor
	last   int64       // number given to a pool
	forget *time.Timer // nil: nobody asked yet
}

// surveyor surveys one pool.
type surveyor struct {
	pool   *vram.Pool
	number int64 // of the pool, from 1 on
	call   call[*survey]

	mu   sync.Mutex
	last *survey // nil: none was taken lately
}

// survey is the blocks of a pool at one moment. Offsets count mapped memory alone, from
// the lowest address on.
type survey struct {
	at       time.Time
	took     time.Duration
	stats    vram.Stats
	bytes    int64
	segments []segment // by address
	blocks   []vram.BlockInfo

	summed sync.Once
	sums   []holderState // by allocated bytes
}

// segment is a range of mapped addresses.
type segment struct {
	address device.Ptr
	bytes   int64
	offset  int64
	first   int // of its blocks
	count   int
}

// look finds the open pools by their numbers.
func (s *surveys) look(ctx context.Context) ([]*surveyor, error) {
	open, err := s.list.get(ctx, patience)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for p := range s.pools {
		if !slices.Contains(open, p) {
			delete(s.pools, p)
		}
	}
	all := []*surveyor{}
	for _, p := range open {
		v := s.pools[p]
		if v == nil {
			s.last++
			v = &surveyor{pool: p, number: s.last}
			v.call.do = v.take
			s.pools[p] = v
		}
		all = append(all, v)
	}
	if s.forget == nil {
		s.forget = time.AfterFunc(forgetAfter, s.drop)
	}
	s.forget.Reset(forgetAfter)
	return all, nil
}

// drop frees the surveys, and the pools that were closed meanwhile. Those that are
// open keep their numbers.
func (s *surveys) drop() {
	open, err := s.list.get(context.Background(), patience)
	s.mu.Lock()
	defer s.mu.Unlock()
	for p, v := range s.pools {
		if err == nil && !slices.Contains(open, p) {
			delete(s.pools, p)
			continue
		}
		v.mu.Lock()
		v.last = nil
		v.mu.Unlock()
	}
}

// get returns a survey of late.
func (v *surveyor) get(ctx context.Context) (*survey, error) {
	v.mu.Lock()
	last := v.last
	v.mu.Unlock()
	if last != nil && time.Since(last.at) < max(surveyEvery, time.Duration(float64(last.took)/surveyShare)) {
		return last, nil
	}
	return v.call.get(ctx, patience)
}

// take surveys the pool.
func (v *surveyor) take() *survey {
	s := &survey{stats: v.pool.Stats()}
	room := s.stats.Blocks.Current // live ones; of others there are mostly few
	v.mu.Lock()
	if v.last != nil {
		room = max(room, int64(len(v.last.blocks)))
	}
	v.mu.Unlock()
	// The pool waits while it is visited: let there be room by then, in pages that are
	// there.
	s.blocks = make([]vram.BlockInfo, room+room/8+1024)
	clear(s.blocks)
	s.blocks = s.blocks[:0]
	s.at = time.Now()
	v.pool.Visit(func(b vram.BlockInfo, first bool) {
		if first {
			s.segments = append(s.segments, segment{address: b.Address, first: len(s.blocks)})
		}
		g := &s.segments[len(s.segments)-1]
		g.bytes += b.Bytes
		g.count++
		s.blocks = append(s.blocks, b)
	})
	s.took = time.Since(s.at)
	slices.SortFunc(s.segments, func(a, b segment) int { return cmp.Compare(a.address, b.address) })
	for i := range s.segments {
		s.segments[i].offset = s.bytes
		s.bytes += s.segments[i].bytes
	}
	v.mu.Lock()
	v.last = s
	v.mu.Unlock()
	return s
}

// each calls f for the blocks that have bytes between two offsets, in order, with the
// offset at which each begins.
func (s *survey) each(from, to int64, f func(b *vram.BlockInfo, offset int64)) {
	i, _ := slices.BinarySearchFunc(s.segments, from, func(g segment, at int64) int { return cmp.Compare(g.offset+g.bytes, at+1) })
	for ; i < len(s.segments) && s.segments[i].offset < to; i++ {
		g := s.segments[i]
		blocks := s.blocks[g.first : g.first+g.count]
		at := g.address.Add(max(from-g.offset, 0))
		k, _ := slices.BinarySearchFunc(blocks, at, func(b vram.BlockInfo, at device.Ptr) int { return cmp.Compare(b.Address.Add(b.Bytes), at+1) })
		for ; k < len(blocks); k++ {
			offset := g.offset + int64(blocks[k].Address-g.address)
			if offset >= to {
				return
			}
			f(&blocks[k], offset)
		}
	}
}
