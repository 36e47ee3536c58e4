package kvcache

// none is no block, and no place.
const none = -1

// block is what some tokens of a tenant have: a place on the device or on the host.
type block struct {
	self   int32  // its number among all blocks
	id     uint64 // which no other ever had
	parent uint64 // id of the block before, or of the tenant
	before int32  // that block, if it still has that id; or none
	hash   uint64 // of its tokens

	tenant   *tenant
	position int  // of its first token
	refs     int  // sequences that have it
	shown    bool // it is full and computed, and can be found
	filled   int  // tokens in it

	slot, host  int32 // places, or none
	kids, kidOn int32 // blocks that continue it and can be found, and those of them on the device

	worth float64 // when nobody has it
	at    [2]int  // in the heap of all blocks in such a place, and in the tenant's own; or none
}

// tenant is one who shares with himself alone.
type tenant struct {
	name string
	id   uint64
	live int // sequences and blocks
	used int // blocks on the device that sequences have

	device, host share
}

// share is what a tenant has of the device, or of the host.
type share struct {
	most, have int  // blocks
	own        heap // blocks that can leave, if most is less than there are
}

// key is how a block is found.
type key struct {
	parent uint64
	hash   uint64
}

// heap has blocks with that which is worth least in front. It keeps where they are in it.
type heap struct {
	which int // of block.at
	list  []*block
}

func (h *heap) push(b *block) {
	b.at[h.which] = len(h.list)
	h.list = append(h.list, b)
	h.up(len(h.list) - 1)
}

func (h *heap) remove(b *block) {
	i, last := b.at[h.which], len(h.list)-1
	h.swap(i, last)
	h.list[last] = nil
	h.list = h.list[:last]
	if b.at[h.which] = none; i < last {
		h.down(i)
		h.up(i)
	}
}

func (h *heap) swap(i, j int) {
	h.list[i], h.list[j] = h.list[j], h.list[i]
	h.list[i].at[h.which], h.list[j].at[h.which] = i, j
}

func (h *heap) up(i int) {
	for i > 0 && h.list[i].worth < h.list[(i-1)/2].worth {
		h.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
}

func (h *heap) down(i int) {
	for {
		least := i
		for k := 2*i + 1; k <= 2*i+2 && k < len(h.list); k++ {
			if h.list[k].worth < h.list[least].worth {
				least = k
			}
		}
		if least == i {
			return
		}
		h.swap(i, least)
		i = least
	}
}

// least is what is worth least, or nil.
func (h *heap) least() *block {
	if len(h.list) == 0 {
		return nil
	}
	return h.list[0]
}
