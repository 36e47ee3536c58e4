package kvcache

import (
	"fmt"
	"slices"
)

// Sequence is the tokens of one sequence and where their keys and values are. A sequence that
// stays open pins its blocks, such as those of a prefix that shall never leave.
type Sequence struct {
	c      *Cache
	tenant *tenant
	tokens []int32
	blocks []int32  // none: let go of
	table  []int32  // their places on the device
	chain  []uint64 // their ids, or those of the blocks that took their place, as far as they are shown
	cached int
	done   int // tokens that are computed
	passed int // blocks that the window has passed
	closed bool
}

// Open begins a sequence with tokens. What others of the tenant have computed of them is
// shared, from the first on, in whole blocks, but for the last token: something has to be
// computed. Blocks that are on the host come back. For the rest there is room then, to be
// computed from [Sequence.Cached] on. It fails with [ErrFull] or [ErrTenant] where there is
// none, and nothing has changed but what is where. Close the sequence.
func (c *Cache) Open(tenant string, tokens []int32) (*Sequence, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.of(tenant)
	t.live++
	parent, size := t.id, c.o.BlockTokens
	// With room for the tokens to come.
	blocks := len(tokens)/size + 32
	s := &Sequence{
		c: c, tenant: t, tokens: append(make([]int32, 0, blocks*size), tokens...),
		blocks: make([]int32, 0, blocks), table: make([]int32, 0, blocks), chain: make([]uint64, 0, blocks),
	}
	for n := size; n < len(tokens); n += size {
		part := tokens[n-size : n]
		i := c.find(parent, c.hash(part), part)
		if i < 0 {
			break
		}
		c.take(i)
		parent = c.blocks[i].id
		s.blocks, s.chain = append(s.blocks, i), append(s.chain, parent)
		s.cached = n
	}
	s.done = s.cached
	for _, i := range s.blocks {
		if c.blocks[i].slot < 0 {
			if err := c.bring(i); err != nil {
				s.leave()
				return nil, s.explain(err)
			}
		}
		s.table = append(s.table, c.blocks[i].slot)
	}
	for at := s.cached; at < len(tokens); at += size {
		if err := s.grow(at, min(size, len(tokens)-at)); err != nil {
			s.leave()
			return nil, s.explain(err)
		}
	}
	c.stats.AskedTokens += int64(len(tokens))
	c.stats.HitTokens += int64(s.cached)
	return s, nil
}

func (s *Sequence) explain(err error) error {
	return fmt.Errorf("kvcache: %w: a sequence of %d tokens, beside %d of %d blocks of %d tokens that the tenant has", err, len(s.tokens), s.tenant.have, s.tenant.most, s.c.o.BlockTokens)
}

// grow adds a block that begins at a token.
func (s *Sequence) grow(at, filled int) error {
	i, err := s.c.make(s.tenant, at)
	if err != nil {
		return err
	}
	b := &s.c.blocks[i]
	b.filled = filled
	s.blocks, s.table = append(s.blocks, i), append(s.table, b.slot)
	return nil
}

// Len is how many tokens there are.
func (s *Sequence) Len() int {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	return len(s.tokens)
}

// Cached is how many of the tokens that the sequence was opened with were computed before.
func (s *Sequence) Cached() int { return s.cached }

// Table is the places of blocks on the device, in the order of tokens: -1 is one that the
// window has passed. It is the sequence's, and changes with its next call.
func (s *Sequence) Table() []int32 { return s.table }

// Append adds a token, and room for it. A block that others have too, or can find, is copied
// before: see [Cache.Copies]. It fails with [ErrFull] or [ErrTenant] where there is no room,
// and the sequence is as it was.
func (s *Sequence) Append(token int32) error {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.closed {
		return fmt.Errorf("kvcache: %w: the sequence", ErrClosed)
	}
	n := len(s.tokens)
	if n%c.o.BlockTokens == 0 {
		if err := s.grow(n, 0); err != nil {
			return s.explain(err)
		}
	}
	last := len(s.blocks) - 1
	if b := &c.blocks[s.blocks[last]]; b.refs > 1 || b.shown {
		i, err := c.make(s.tenant, b.position)
		if err != nil {
			return s.explain(err)
		}
		own := &c.blocks[i]
		own.filled = n % c.o.BlockTokens
		c.copies = append(c.copies, Copy{Place{false, b.slot}, Place{false, own.slot}})
		c.stats.Copied++
		c.drop(s.blocks[last])
		s.blocks[last], s.table[last] = i, own.slot
	}
	c.blocks[s.blocks[last]].filled++
	s.tokens = append(s.tokens, token)
	return nil
}

// Computed says that the first n tokens are computed, or that the work is queued. Blocks that
// are full of such tokens can be found by other sequences from now on.
func (s *Sequence) Computed(n int) error {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case s.closed:
		return fmt.Errorf("kvcache: %w: the sequence", ErrClosed)
	case n < s.done || n > len(s.tokens):
		return fmt.Errorf("kvcache: %w: %d tokens are computed, of %d, and were %d before", ErrArgument, n, len(s.tokens), s.done)
	}
	s.done = n
	for k := len(s.chain); (k+1)*c.o.BlockTokens <= n; k++ {
		s.show(k)
	}
	s.pass()
	return nil
}

// show lets others find a block.
func (s *Sequence) show(k int) {
	c := s.c
	i := s.blocks[k]
	b, tokens := &c.blocks[i], s.tokens[k*c.o.BlockTokens:][:c.o.BlockTokens]
	before, parent := int32(none), s.tenant.id
	if k > 0 {
		before, parent = s.blocks[k-1], s.chain[k-1]
	}
	hash := c.hash(tokens)
	at, taken := c.found[key{parent, hash}]
	switch {
	case b.shown: // by a fork
	case !taken:
		b.parent, b.before, b.hash, b.shown = parent, before, hash, true
		copy(c.tokensOf(i), tokens)
		c.found[key{parent, hash}] = i
		if p := c.before(b); p != nil {
			p.kids++
			p.kidOn++
		}
	case slices.Equal(c.tokensOf(at), tokens): // somebody else has computed the same
		other := &c.blocks[at]
		s.chain = append(s.chain, other.id)
		if other.slot < 0 {
			if b.refs > 1 {
				return
			}
			c.take(at)
			c.land(other, b.slot)
			b.tenant.have--
			b.slot = none
		} else {
			c.take(at)
		}
		s.blocks[k], s.table[k] = at, other.slot
		c.drop(i)
		return
	}
	s.chain = append(s.chain, b.id)
}

// pass lets go of blocks that the window has passed.
func (s *Sequence) pass() {
	o := s.c.o
	if o.Window == 0 {
		return
	}
	s.passed = max(s.passed, (o.Sinks+o.BlockTokens-1)/o.BlockTokens)
	for ; (s.passed+1)*o.BlockTokens <= s.done-o.Window; s.passed++ {
		if i := s.blocks[s.passed]; i >= 0 {
			s.c.drop(i)
			s.blocks[s.passed], s.table[s.passed] = none, none
		}
	}
}

// Truncate takes tokens away, such as those that were guessed and wrong, so that n are left.
// It fails with [ErrArgument] where the window has passed what would be in it again.
func (s *Sequence) Truncate(n int) error {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	size := c.o.BlockTokens
	blocks := (n + size - 1) / size
	switch {
	case s.closed:
		return fmt.Errorf("kvcache: %w: the sequence", ErrClosed)
	case n < 0 || n > len(s.tokens):
		return fmt.Errorf("kvcache: %w: %d of %d tokens", ErrArgument, n, len(s.tokens))
	case c.o.Window > 0 && slices.Contains(s.blocks[max(n-c.o.Window, 0)/size:blocks], none):
		return fmt.Errorf("kvcache: %w: %d of %d tokens: the window of %d has passed some of the last ones", ErrArgument, n, len(s.tokens), c.o.Window)
	}
	for k := len(s.blocks) - 1; k >= blocks; k-- {
		if s.blocks[k] >= 0 {
			c.drop(s.blocks[k])
		}
	}
	s.tokens, s.blocks, s.table = s.tokens[:n], s.blocks[:blocks], s.table[:blocks]
	s.chain = s.chain[:min(len(s.chain), n/size)]
	s.done, s.cached = min(s.done, n), min(s.cached, n)
	s.passed = min(s.passed, blocks)
	if n%size > 0 {
		if b := &c.blocks[s.blocks[blocks-1]]; b.refs == 1 && !b.shown {
			b.filled = n % size
		}
	}
	return nil
}

// Fork is a sequence with the same tokens, which shares all blocks, such as a beam. Close it,
// too.
func (s *Sequence) Fork() (*Sequence, error) {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.closed {
		return nil, fmt.Errorf("kvcache: %w: the sequence", ErrClosed)
	}
	for _, i := range s.blocks {
		if i >= 0 {
			c.take(i)
		}
	}
	s.tenant.live++
	return &Sequence{
		c: c, tenant: s.tenant, tokens: slices.Clone(s.tokens), blocks: slices.Clone(s.blocks), table: slices.Clone(s.table), chain: slices.Clone(s.chain),
		cached: s.cached, done: s.done, passed: s.passed,
	}, nil
}

// Close lets go of the blocks. Those that can be found stay until somebody needs their room.
// A second Close does nothing.
func (s *Sequence) Close() {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if !s.closed {
		s.leave()
	}
}

// leave lets go of all blocks, the last first: it is worth least.
func (s *Sequence) leave() {
	s.closed = true
	for k := len(s.blocks) - 1; k >= 0; k-- {
		if s.blocks[k] >= 0 {
			s.c.drop(s.blocks[k])
		}
	}
	s.blocks, s.table = nil, nil
	s.c.part(s.tenant)
}
