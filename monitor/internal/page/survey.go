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
	list   call[[]holder]
	mu     sync.Mutex
	pools  map[any]*surveyor // by the key of the holder
	last   int64             // number given to a pool
	forget *time.Timer       // nil: nobody asked yet
}

// surveyor surveys one holder, which is called a pool here.
type surveyor struct {
	number int64 // of the pool, from 1 on
	call   call[*survey]

	mu     sync.Mutex
	holder holder  // as of the latest look
	last   *survey // nil: none was taken lately
}

// survey is the blocks of a pool at one moment. Offsets count mapped memory alone, from
// the lowest address on.
type survey struct {
	at       time.Time
	took     time.Duration
	expected int    // blocks
	source   string // of the holder
	totals   totals
	age      *time.Duration // of the pool; nil: not known, nor since when blocks are there
	bytes    int64
	segments []segment // by address
	blocks   []vram.BlockInfo
	texts    map[int][]string // stacks of other allocators, by index of the block

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
	for key := range s.pools {
		if !same(open, key) {
			delete(s.pools, key)
		}
	}
	all := []*surveyor{}
	for _, h := range open {
		v := s.pools[h.key()]
		if v == nil {
			if s.pools == nil {
				s.pools = map[any]*surveyor{}
			}
			s.last++
			v = &surveyor{number: s.last}
			v.call.do = v.take
			s.pools[h.key()] = v
		}
		v.mu.Lock()
		v.holder = h
		v.mu.Unlock()
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
	for key, v := range s.pools {
		if err == nil && !same(open, key) {
			delete(s.pools, key)
			continue
		}
		v.mu.Lock()
		v.last = nil
		v.mu.Unlock()
	}
}

// get returns a recent survey.
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
	v.mu.Lock()
	h := v.holder
	s := &survey{source: h.source()}
	if v.last != nil {
		s.expected = len(v.last.blocks)
	}
	v.mu.Unlock()
	h.fill(s)
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

// begin says that blocks come now.
func (s *survey) begin() { s.at = time.Now() }

// add adds a block; first says that it begins a segment.
func (s *survey) add(b vram.BlockInfo, first bool) {
	if first {
		s.segments = append(s.segments, segment{address: b.Address, first: len(s.blocks)})
	}
	g := &s.segments[len(s.segments)-1]
	g.bytes += b.Bytes
	g.count++
	s.blocks = append(s.blocks, b)
}

// each calls f for the blocks that have bytes between two offsets, in order, with the
// offset at which each begins. They are named by their index.
func (s *survey) each(from, to int64, f func(i int, offset int64)) {
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
			f(g.first+k, offset)
		}
	}
}
