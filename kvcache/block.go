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

	worth  float64 // when nobody has it
	heapAt int     // in the tenant's heap of that place, or none
}

// tenant is one who shares with himself alone.
type tenant struct {
	name  string
	id    uint64
	live  int  // sequences and blocks
	most  int  // blocks on the device
	have  int  // of them
	onDev heap // blocks that can leave the device
	onHst heap // and the host
}

// key is how a block is found.
type key struct {
	parent uint64
	hash   uint64
}

// heap has blocks with that which is worth least in front. It keeps their heapAt.
type heap []*block

func (h *heap) push(b *block) {
	b.heapAt = len(*h)
	*h = append(*h, b)
	h.up(b.heapAt)
}

func (h *heap) remove(b *block) {
	list, i := *h, b.heapAt
	last := len(list) - 1
	h.swap(i, last)
	list[last] = nil
	*h = list[:last]
	if b.heapAt = none; i < last {
		h.down(i)
		h.up(i)
	}
}

func (h *heap) swap(i, j int) {
	list := *h
	list[i], list[j] = list[j], list[i]
	list[i].heapAt, list[j].heapAt = i, j
}

func (h *heap) up(i int) {
	for i > 0 && (*h)[i].worth < (*h)[(i-1)/2].worth {
		h.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
}

func (h *heap) down(i int) {
	for {
		least := i
		for k := 2*i + 1; k <= 2*i+2 && k < len(*h); k++ {
			if (*h)[k].worth < (*h)[least].worth {
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
