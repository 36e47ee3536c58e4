package kvcache

// kind is where a copy goes.
type kind uint8

const (
	toHost kind = iota
	toDevice
	within // the device
	kinds
)

func kindOf(c Copy) kind {
	switch {
	case c.To.Host:
		return toHost
	case c.From.Host:
		return toDevice
	}
	return within
}

// order cuts copies that have an order into groups that can be queued on two streams, one of
// which takes blocks to the host, and the other first those to the device and then those
// within it. In a group, copies of a kind go in any order.
type order struct {
	places [2][]uses // on the device, and on the host
	most   int       // copies of a kind in a group
	group  int64     // number of the next, from 1
	// Of which groups the stream out has waited for what is on the stream in, and the other
	// way round.
	outSaw, inSaw int64
}

// uses is which groups used a place last, or 0.
type uses struct {
	wrote, wroteOut int64   // on the stream in, and the stream out
	read, readOut   int64   // likewise
	by              [2]kind // which kind wrote and read in group wrote and read
}

// group is the first copies that can go together.
type group struct {
	n                 int
	outWaits, inWaits bool // for all that is queued on the other stream
}

func newOrder(device, host, most int) order {
	return order{places: [2][]uses{make([]uses, device), make([]uses, host)}, most: most, group: 1}
}

func (o *order) at(p Place) *uses {
	return &o.places[b2i(p.Host)][p.Number]
}

// has reports whether there is such a place.
func (o *order) has(p Place) bool {
	return p.Number >= 0 && int(p.Number) < len(o.places[b2i(p.Host)])
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// reset forgets what was queued: all that follows waits for it.
func (o *order) reset() {
	o.outSaw, o.inSaw = o.group-1, o.group-1
}

// next takes the first copies that can go together.
func (o *order) next(copies []Copy) (g group) {
	var count [kinds]int
	now := o.group
	o.group++
	for _, c := range copies {
		from, to, k := o.at(c.From), o.at(c.To), kindOf(c)
		// The newest of what has to be done before, on each stream.
		in, out := max(from.wrote, to.wrote, to.read), max(from.wroteOut, to.wroteOut, to.readOut)
		same := func(group int64, by kind) bool { return group == now && by >= k }
		if count[k] == o.most && g.n > 0 {
			break
		}
		if k == toHost {
			if in == now || out == now {
				break // those are behind, or beside
			}
			g.outWaits = g.outWaits || in > o.outSaw
			from.readOut, to.wroteOut = now, now
		} else {
			if same(from.wrote, from.by[0]) || same(to.wrote, to.by[0]) || same(to.read, to.by[1]) {
				break
			}
			g.inWaits = g.inWaits || out > o.inSaw
			from.read, from.by[1] = now, k
			to.wrote, to.by[0] = now, k
		}
		count[k]++
		g.n++
	}
	if g.outWaits {
		o.outSaw = now - 1
	}
	if g.inWaits {
		o.inSaw = now
	}
	return g
}
