package kvcache

import (
	"encoding/binary"
	"hash/maphash"
	"slices"
	"sync"
)

// Cache is the books of one cache. Its methods, and those of its sequences, are safe for
// concurrent use; see the package about the order of what is queued.
type Cache struct {
	o Options

	mu      sync.Mutex
	blocks  []block
	tokens  []int32 // of blocks that can be found
	unused  []int32 // blocks
	slots   []int32 // places on the device that are free
	hosts   []int32 // and on the host
	onDev   heap    // blocks that can leave the device
	onHost  heap    // and the host
	tenants map[string]*tenant
	found   map[key]int32
	copies  []Copy
	seed    maphash.Seed
	bytes   []byte // of tokens to be hashed
	lastID  uint64
	clock   float64 // of what blocks are worth
	stats   Stats
}

// Place is a block on the device or on the host.
type Place struct {
	Host   bool
	Number int32
}

// Copy is a block that has to be copied.
type Copy struct{ From, To Place }

// New makes the books of a cache in which nothing is.
func New(o Options) (*Cache, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	n := o.Blocks + o.HostBlocks
	c := &Cache{
		o: o, blocks: make([]block, n), tokens: make([]int32, n*o.BlockTokens), tenants: map[string]*tenant{}, found: make(map[key]int32, n),
		seed: maphash.MakeSeed(), bytes: make([]byte, 4*o.BlockTokens),
	}
	for i := n - 1; i >= 0; i-- {
		c.blocks[i] = block{self: int32(i), before: none, slot: none, host: none, at: nowhere}
		c.unused = append(c.unused, int32(i))
	}
	for i := o.Blocks - 1; i >= 0; i-- {
		c.slots = append(c.slots, int32(i))
	}
	for i := o.HostBlocks - 1; i >= 0; i-- {
		c.hosts = append(c.hosts, int32(i))
	}
	return c, nil
}

// Copies appends to list what has to be copied since the last call, in order, and returns it.
// One that reads or writes what another one before it writes, or writes what that reads, has
// to wait for it.
func (c *Cache) Copies(list []Copy) []Copy {
	c.mu.Lock()
	defer c.mu.Unlock()
	list = append(list, c.copies...)
	c.copies = c.copies[:0]
	return list
}

func (c *Cache) id() uint64 {
	c.lastID++
	return c.lastID
}

// of is a tenant, who is new when nobody has heard of him.
func (c *Cache) of(name string) *tenant {
	t := c.tenants[name]
	if t == nil {
		t = &tenant{name: name, id: c.id(), most: c.o.Blocks, own: heap{which: 1}}
		if c.o.TenantBlocks != nil {
			t.most = min(t.most, c.o.TenantBlocks(name))
		}
		c.tenants[name] = t
	}
	return t
}

// part is called when a tenant has a sequence or a block less.
func (c *Cache) part(t *tenant) {
	if t.live--; t.live == 0 {
		delete(c.tenants, t.name)
	}
}

// hash is that of the tokens of a block.
func (c *Cache) hash(tokens []int32) uint64 {
	for i, t := range tokens {
		binary.LittleEndian.PutUint32(c.bytes[4*i:], uint32(t))
	}
	return maphash.Bytes(c.seed, c.bytes)
}

// find returns the block with these tokens behind another one, or none.
func (c *Cache) find(parent, hash uint64, tokens []int32) int32 {
	i, ok := c.found[key{parent, hash}]
	if !ok || !slices.Equal(c.tokensOf(i), tokens) {
		return none
	}
	return i
}

func (c *Cache) tokensOf(i int32) []int32 {
	return c.tokens[int(i)*c.o.BlockTokens:][:c.o.BlockTokens]
}

// make makes a block with a place on the device, for one sequence.
func (c *Cache) make(t *tenant, position int) (int32, error) {
	slot, err := c.slot(t)
	if err != nil {
		return none, err
	}
	i := c.unused[len(c.unused)-1]
	c.unused = c.unused[:len(c.unused)-1]
	c.blocks[i] = block{self: i, id: c.id(), before: none, tenant: t, position: position, refs: 1, slot: slot, host: none, at: nowhere}
	t.have++
	t.live++
	return i, nil
}

// take has one sequence more have a block.
func (c *Cache) take(i int32) {
	b := &c.blocks[i]
	if b.refs++; b.refs == 1 {
		c.keep(b)
	}
}

// drop has one sequence less have a block.
func (c *Cache) drop(i int32) {
	b := &c.blocks[i]
	if b.refs--; b.refs > 0 {
		return
	}
	if !b.shown {
		c.forget(i)
		return
	}
	b.worth = c.worth(b.position)
	c.offer(i)
}

// worth is that of a block that is used now.
func (c *Cache) worth(position int) float64 {
	if c.o.Cost != nil {
		return c.clock + c.o.Cost(position)
	}
	c.clock++
	return c.clock
}

// nowhere is in no heap.
var nowhere = [2]int{none, none}

// limited reports whether a tenant may not have all blocks.
func (c *Cache) limited(t *tenant) bool { return t.most < c.o.Blocks }

// offer has a block leave its place when the room is needed, if it can: nobody has it, and no
// block that continues it is as near.
func (c *Cache) offer(i int32) {
	b := &c.blocks[i]
	h, ahead := &c.onDev, b.kidOn
	if b.slot < 0 {
		h, ahead = &c.onHost, b.kids
	}
	if b.refs > 0 || b.at[0] >= 0 || !b.shown || ahead > 0 && c.o.Window == 0 {
		return
	}
	h.push(b)
	if b.slot >= 0 && c.limited(b.tenant) {
		b.tenant.own.push(b)
	}
}

// keep has a block stay where it is.
func (c *Cache) keep(b *block) {
	switch {
	case b.at[0] < 0:
	case b.slot >= 0:
		c.onDev.remove(b)
	default:
		c.onHost.remove(b)
	}
	if b.at[1] >= 0 {
		b.tenant.own.remove(b)
	}
}

// slot finds a place on the device.
func (c *Cache) slot(t *tenant) (int32, error) {
	var victim *block
	switch {
	case c.limited(t) && t.have >= t.most:
		if victim = t.own.least(); victim == nil {
			return none, ErrTenant
		}
	case len(c.slots) > 0:
		slot := c.slots[len(c.slots)-1]
		c.slots = c.slots[:len(c.slots)-1]
		return slot, nil
	default:
		if victim = c.onDev.least(); victim == nil {
			return none, ErrFull
		}
	}
	slot := victim.slot
	c.leave(victim)
	return slot, nil
}

// leave has a block leave the device, and puts it onto the host, if there is room.
func (c *Cache) leave(b *block) {
	if c.o.Cost != nil {
		c.clock = max(c.clock, b.worth)
	}
	if len(c.hosts) == 0 {
		if old := c.onHost.least(); old != nil && old.worth <= b.worth {
			c.stats.Forgotten++
			c.forget(old.self)
		}
	}
	if len(c.hosts) == 0 {
		c.stats.Forgotten++
		c.forget(b.self)
		c.slots = c.slots[:len(c.slots)-1] // which is the caller's
		return
	}
	c.keep(b)
	b.host = c.hosts[len(c.hosts)-1]
	c.hosts = c.hosts[:len(c.hosts)-1]
	c.copies = append(c.copies, Copy{Place{false, b.slot}, Place{true, b.host}})
	c.stats.Out++
	c.off(b)
	b.slot = none
	c.offer(b.self)
}

// off counts a block as one that is not on the device any more.
func (c *Cache) off(b *block) {
	b.tenant.have--
	if p := c.before(b); p != nil && b.shown {
		if p.kidOn--; p.kidOn == 0 {
			c.offer(b.before)
		}
	}
}

// before is the block before another one, or nil.
func (c *Cache) before(b *block) *block {
	if b.before >= 0 && c.blocks[b.before].id == b.parent {
		return &c.blocks[b.before]
	}
	return nil
}

// bring brings a block that a sequence has back to the device.
func (c *Cache) bring(i int32) error {
	b := &c.blocks[i]
	slot, err := c.slot(b.tenant)
	if err != nil {
		return err
	}
	c.copies = append(c.copies, Copy{Place{true, b.host}, Place{false, slot}})
	c.stats.In++
	c.land(b, slot)
	return nil
}

// land gives a block of the host a place on the device.
func (c *Cache) land(b *block, slot int32) {
	c.hosts = append(c.hosts, b.host)
	b.host, b.slot = none, slot
	b.tenant.have++
	if p := c.before(b); p != nil {
		p.kidOn++
	}
}

// forget has a block that nobody has be no more.
func (c *Cache) forget(i int32) {
	b := &c.blocks[i]
	c.keep(b)
	if b.slot >= 0 {
		c.slots = append(c.slots, b.slot)
		c.off(b)
		b.slot = none
	}
	if b.host >= 0 {
		c.hosts = append(c.hosts, b.host)
		b.host = none
	}
	if b.shown {
		delete(c.found, key{b.parent, b.hash})
		if p := c.before(b); p != nil {
			if p.kids--; p.kids == 0 {
				c.offer(b.before)
			}
		}
	}
	c.part(b.tenant)
	*b = block{self: i, before: none, slot: none, host: none, at: nowhere}
	c.unused = append(c.unused, i)
}
