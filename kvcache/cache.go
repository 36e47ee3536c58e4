package kvcache

import (
	"encoding/binary"
	"hash/maphash"
	"math"
	"slices"
)

// Cache is the books of one cache. It is not safe for concurrent use: see the package.
type Cache struct {
	o Options

	blocks  []block
	tokens  []int32 // of blocks that can be found
	unused  []int32 // blocks
	used    int     // blocks on the device that sequences have
	resets  int
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

// TakeCopies appends to list what has to be copied since the last call, in order, and returns
// it. One that reads or writes what another one before it writes, or writes what that reads,
// has to wait for it.
func (c *Cache) TakeCopies(list []Copy) []Copy {
	list = append(list, c.copies...)
	c.copies = c.copies[:0]
	return list
}

// Free is how many blocks sequences of a tenant can get, those that are evicted for it among
// them. With forks, a few of these may stay until the forks are closed.
func (c *Cache) Free(tenant string) int {
	if t := c.tenants[tenant]; t != nil {
		return min(c.o.Blocks-c.used, t.device.most-t.used)
	}
	return min(c.o.Blocks-c.used, limit(c.o.Blocks, c.o.TenantBlocks, tenant))
}

// Match tells what Open would find: how many tokens are computed, and how many blocks it needs
// of those that are free. It changes nothing.
func (c *Cache) Match(tenant string, tokens []int32) (cached, blocks int) {
	size := c.o.BlockTokens
	blocks = (len(tokens) + size - 1) / size
	t := c.tenants[tenant]
	if t == nil {
		return 0, blocks
	}
	parent := t.id
	for n := size; n < len(tokens); n += size {
		part := tokens[n-size : n]
		i := c.find(parent, c.hash(part), part)
		if i < 0 {
			break
		}
		if c.blocks[i].refs > 0 {
			blocks--
		}
		parent, cached = c.blocks[i].id, n
	}
	return cached, blocks
}

// Reset forgets what is cached, as new weights need it. Open sequences keep their blocks, which
// nobody else finds any more.
func (c *Cache) Reset() {
	c.resets++
	for i := range c.blocks {
		b := &c.blocks[i]
		switch {
		case b.id == 0:
		case b.refs == 0:
			c.forget(int32(i))
		case b.shown:
			delete(c.found, key{b.parent, b.hash})
			b.shown, b.before, b.kids, b.kidOn = false, none, 0, 0
		}
	}
}

func (c *Cache) id() uint64 {
	c.lastID++
	return c.lastID
}

// tenant is a tenant, who is new if he has nothing.
func (c *Cache) tenant(name string) *tenant {
	t := c.tenants[name]
	if t == nil {
		t = &tenant{name: name, id: c.id()}
		t.device = share{most: limit(c.o.Blocks, c.o.TenantBlocks, name), own: heap{which: 1}}
		t.host = share{most: limit(c.o.HostBlocks, c.o.TenantHostBlocks, name), own: heap{which: 1}}
		c.tenants[name] = t
	}
	return t
}

// limit is how many of so many blocks a tenant may have.
func limit(blocks int, of func(string) int, name string) int {
	if of == nil {
		return blocks
	}
	return max(0, min(blocks, of(name)))
}

// less counts a sequence or a block of a tenant less, and forgets one who has none.
func (c *Cache) less(t *tenant) {
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

// newBlock makes a block with a place on the device, for one sequence.
func (c *Cache) newBlock(t *tenant, position int) (int32, error) {
	slot, err := c.slot(t)
	if err != nil {
		return none, err
	}
	i := c.unused[len(c.unused)-1]
	c.unused = c.unused[:len(c.unused)-1]
	c.blocks[i] = block{self: i, id: c.id(), before: none, tenant: t, position: position, refs: 1, slot: slot, host: none, at: nowhere}
	t.device.have++
	t.live++
	c.use(t, 1)
	return i, nil
}

// take has one sequence more have a block.
func (c *Cache) take(i int32) {
	b := &c.blocks[i]
	if b.refs++; b.refs == 1 {
		c.keep(b)
		if b.slot >= 0 {
			c.use(b.tenant, 1)
		}
	}
}

// drop has one sequence less have a block.
func (c *Cache) drop(i int32) {
	b := &c.blocks[i]
	if b.refs--; b.refs > 0 {
		return
	}
	if b.slot >= 0 {
		c.use(b.tenant, -1)
	}
	if !b.shown {
		c.forget(i)
		return
	}
	b.worth = c.worth(b.position)
	c.offer(i)
}

// use counts blocks on the device that sequences have.
func (c *Cache) use(t *tenant, n int) {
	c.used += n
	t.used += n
}

// worth is that of a block that is used now.
func (c *Cache) worth(position int) float64 {
	if c.o.Cost != nil {
		if cost := c.o.Cost(position); cost > 0 && cost <= math.MaxFloat64 {
			return c.clock + cost
		}
		return c.clock
	}
	c.clock++
	return c.clock
}

// nowhere is in no heap.
var nowhere = [2]int{none, none}

// offer has a block leave its place when the room is needed, if it can: nobody has it, and no
// block that continues it is as near.
func (c *Cache) offer(i int32) {
	b := &c.blocks[i]
	ahead := b.kidOn
	if b.slot < 0 {
		ahead = b.kids
	}
	if b.refs > 0 || b.at[0] >= 0 || !b.shown || ahead > 0 && c.o.Window == 0 {
		return
	}
	all, own := c.near(b)
	all.push(b)
	if own != nil {
		own.push(b)
	}
}

// keep has a block stay where it is.
func (c *Cache) keep(b *block) {
	if b.at[0] < 0 {
		return
	}
	all, own := c.near(b)
	all.remove(b)
	if own != nil {
		own.remove(b)
	}
}

// near is where blocks are that can leave the place where b is: all of them, and those of its
// tenant if he may not have all there is of it.
func (c *Cache) near(b *block) (all, own *heap) {
	all, of, n := &c.onDev, &b.tenant.device, c.o.Blocks
	if b.slot < 0 {
		all, of, n = &c.onHost, &b.tenant.host, c.o.HostBlocks
	}
	if of.most < n {
		own = &of.own
	}
	return all, own
}

// slot finds a place on the device.
func (c *Cache) slot(t *tenant) (int32, error) {
	var victim *block
	switch {
	case t.device.most < c.o.Blocks && t.device.have >= t.device.most:
		if victim = t.device.own.least(); victim == nil {
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
	if !c.hasHost(b) {
		c.stats.Forgotten++
		c.forget(b.self)
		c.slots = c.slots[:len(c.slots)-1] // which is the caller's
		return
	}
	c.keep(b)
	b.host = c.hosts[len(c.hosts)-1]
	c.hosts = c.hosts[:len(c.hosts)-1]
	b.tenant.host.have++
	c.copies = append(c.copies, Copy{Place{false, b.slot}, Place{true, b.host}})
	c.stats.Out++
	c.off(b)
	b.slot = none
	c.offer(b.self)
}

// hasHost reports whether there is a place on the host for a block, which one that is worth less
// may leave for it: one of the tenant's, if he has all that he may have.
func (c *Cache) hasHost(b *block) bool {
	of := &b.tenant.host
	var old *block
	switch {
	case of.most < c.o.HostBlocks && of.have >= of.most:
		old = of.own.least()
	case len(c.hosts) > 0:
		return true
	default:
		old = c.onHost.least()
	}
	if old == nil || old.worth > b.worth && b.kids == 0 { // with those that continue it, they would never be found
		return false
	}
	c.stats.Forgotten++
	c.forget(old.self)
	return true
}

// off counts a block as one that is not on the device any more.
func (c *Cache) off(b *block) {
	b.tenant.device.have--
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
	b.tenant.host.have--
	b.host, b.slot = none, slot
	b.tenant.device.have++
	c.use(b.tenant, 1) // a sequence has it
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
		b.tenant.host.have--
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
	c.less(b.tenant)
	*b = block{self: i, before: none, slot: none, host: none, at: nowhere}
	c.unused = append(c.unused, i)
}
