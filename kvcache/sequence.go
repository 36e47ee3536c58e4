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
	resets int // of the cache, when it was opened
	closed bool
}

// Open begins a sequence with tokens. What the tenant's other sequences have computed of them
// is shared, in whole blocks from the beginning on, without the last token: something has to be
// computed. Blocks on the host come back. The others are room for what is to be computed, from
// [Sequence.Cached] on. It fails with [ErrFull] or [ErrTenant] where there are not enough
// blocks, and evicts nothing then. Close the sequence.
func (c *Cache) Open(tenant string, tokens []int32) (*Sequence, error) {
	t := c.tenant(tenant)
	t.live++
	parent, size := t.id, c.o.BlockTokens
	// With room for the tokens to come.
	blocks := len(tokens)/size + 32
	s := &Sequence{
		c: c, tenant: t, tokens: append(make([]int32, 0, blocks*size), tokens...), resets: c.resets,
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
		s.blocks, s.table, s.chain = append(s.blocks, i), append(s.table, c.blocks[i].slot), append(s.chain, parent)
		s.cached = n
	}
	s.done = s.cached
	s.pass()
	need := (len(tokens) - s.cached + size - 1) / size
	for k, i := range s.blocks {
		if i >= 0 && s.table[k] < 0 {
			need++
		}
	}
	err := s.room(need)
	for k, i := range s.blocks {
		if err == nil && i >= 0 && s.table[k] < 0 {
			err = c.bring(i)
			s.table[k] = c.blocks[i].slot
		}
	}
	if err == nil {
		err = s.grow(s.cached, len(tokens))
	}
	if err != nil {
		err = s.explain(err, need)
		s.Close()
		return nil, err
	}
	c.stats.AskedTokens += int64(len(tokens))
	c.stats.HitTokens += int64(s.cached)
	return s, nil
}

// room fails where so many blocks cannot be had.
func (s *Sequence) room(need int) error {
	switch {
	case need > s.c.o.Blocks-s.c.used:
		return ErrFull
	case need > s.tenant.device.most-s.tenant.used:
		return ErrTenant
	}
	return nil
}

func (s *Sequence) explain(err error, need int) error {
	return fmt.Errorf("kvcache: %w: a sequence of %d tokens needs %d blocks of %d tokens more; of %d blocks, sequences have %d, and of the tenant's %d, %d",
		err, len(s.tokens), need, s.c.o.BlockTokens, s.c.o.Blocks, s.c.used, s.tenant.device.most, s.tenant.used)
}

// grow makes room for tokens from one on up to n, or none.
func (s *Sequence) grow(from, n int) error {
	size, before := s.c.o.BlockTokens, len(s.blocks)
	for at := before * size; at < n; at += size {
		i, err := s.c.newBlock(s.tenant, at)
		if err != nil {
			s.cut(before)
			return err
		}
		s.blocks, s.table = append(s.blocks, i), append(s.table, s.c.blocks[i].slot)
	}
	for k := from / size; k*size < n; k++ { // how many tokens blocks have then
		s.c.blocks[s.blocks[k]].filled = min(n-k*size, size)
	}
	return nil
}

// cut lets go of all blocks but the first, the last first: it is worth least.
func (s *Sequence) cut(blocks int) {
	for k := len(s.blocks) - 1; k >= blocks; k-- {
		if s.blocks[k] >= 0 {
			s.c.drop(s.blocks[k])
		}
	}
	s.blocks, s.table = s.blocks[:blocks], s.table[:blocks]
}

// Len is how many tokens there are.
func (s *Sequence) Len() int { return len(s.tokens) }

// Cached is how many of the tokens that the sequence was opened with were computed before.
func (s *Sequence) Cached() int { return s.cached }

// Table is the places of blocks on the device, in the order of tokens: -1 is one that the
// window has passed. It is the sequence's, and changes with its next call.
func (s *Sequence) Table() []int32 { return s.table }

// Append adds tokens, and room for them: one for a decode step, several for a chunk of a prompt
// or a guess. A last block that others have, or can find, is copied first: see
// [Cache.TakeCopies]. It fails with [ErrFull] or [ErrTenant] where there are not enough blocks,
// and the sequence is as it was.
func (s *Sequence) Append(tokens ...int32) error {
	if s.closed {
		return fmt.Errorf("kvcache: %w: the sequence", ErrClosed)
	}
	c, n := s.c, len(s.tokens)
	size, last := c.o.BlockTokens, len(s.blocks)-1
	need := (n+len(tokens)+size-1)/size - len(s.blocks)
	write := false // to a block that is not this sequence's alone
	if n%size > 0 && len(tokens) > 0 {
		b := &c.blocks[s.blocks[last]]
		if write = b.refs > 1 || b.shown; write {
			need++
		}
	}
	if err := s.room(need); err != nil {
		return s.explain(err, need)
	}
	if write {
		i, err := c.newBlock(s.tenant, last*size)
		if err != nil {
			return s.explain(err, need)
		}
		old, own := &c.blocks[s.blocks[last]], &c.blocks[i]
		c.copies = append(c.copies, Copy{Place{false, old.slot}, Place{false, own.slot}})
		c.stats.Copied++
		c.drop(s.blocks[last])
		s.blocks[last], s.table[last] = i, own.slot
	}
	if err := s.grow(n, n+len(tokens)); err != nil {
		return s.explain(err, need)
	}
	s.tokens = append(s.tokens, tokens...)
	return nil
}

// Computed says that the first n tokens are computed, or that the work is queued. Blocks that
// are full of such tokens can be found by other sequences from now on.
func (s *Sequence) Computed(n int) error {
	c := s.c
	switch {
	case s.closed:
		return fmt.Errorf("kvcache: %w: the sequence", ErrClosed)
	case n < s.done || n > len(s.tokens):
		return fmt.Errorf("kvcache: %w: %d tokens are computed, of %d, and were %d before", ErrArgument, n, len(s.tokens), s.done)
	}
	s.done = n
	for k := len(s.chain); (k+1)*c.o.BlockTokens <= n && s.resets == c.resets && s.show(k); k++ {
	}
	s.pass()
	return nil
}

// show lets others find a block, and reports whether they can.
func (s *Sequence) show(k int) bool {
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
		if other.slot < 0 {
			if b.refs > 1 { // later, when no fork has it
				return false
			}
			c.take(at)
			c.land(other, b.slot)
			b.tenant.device.have--
			c.use(b.tenant, -1)
			b.slot = none
		} else {
			c.take(at)
		}
		s.blocks[k], s.table[k], s.chain = at, other.slot, append(s.chain, other.id)
		c.drop(i)
		return true
	}
	s.chain = append(s.chain, b.id)
	return true
}

// pass lets go of blocks that the window has passed.
func (s *Sequence) pass() {
	o := s.c.o
	if o.Window == 0 {
		return
	}
	s.passed = max(s.passed, (o.Sinks+o.BlockTokens-1)/o.BlockTokens)
	for ; (s.passed+1)*o.BlockTokens <= s.done-o.Window && s.passed < len(s.blocks); s.passed++ {
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
	s.cut(blocks)
	s.tokens = s.tokens[:n]
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
		cached: s.cached, done: s.done, passed: s.passed, resets: s.resets,
	}, nil
}

// Close lets go of the blocks. Those that can be found stay until their room is needed. A
// second Close does nothing.
func (s *Sequence) Close() {
	if s.closed {
		return
	}
	s.closed = true
	s.cut(0)
	s.c.less(s.tenant)
}
