package plan

import (
	"cmp"
	"slices"
)

// bound is a time that no plan within target bytes can be below.
//
// At the moment when most is in use, values of so many bytes have to be away that the
// rest fits. Those that are wanted later are then written again, which takes at least
// the operation that writes them, or they were sent before, of which the link takes so
// many bytes in the time until then, and more only while the computation waits. What
// of that is cheapest, even if it takes parts of values, is a knapsack that is filled
// in the order of seconds for each byte.
func (p *problem) bound(whole *candidate, target int64) float64 {
	moment := 0
	for i, b := range whole.o.bytes {
		if b > whole.o.bytes[moment] {
			moment = i
		}
	}
	missing := float64(whole.o.bytes[moment] - target)
	if missing <= 0 {
		return whole.o.seconds
	}
	// Without decisions, each operation is one run.
	used := map[int]bool{}
	for _, list := range [][]int{p.Ops[moment].Reads, p.Ops[moment].Writes} {
		for _, v := range list {
			used[v] = true
		}
	}
	for _, v := range p.Ops[moment].Writes {
		for _, u := range p.Values[v].Over {
			delete(used, u) // its memory may be that of v
		}
	}
	type part struct{ bytes, seconds float64 } // of values that one operation writes
	var parts []part
	byOp := map[int]int{}
	for v, uses := range p.uses {
		if used[v] || len(uses) == 0 || uses[0] >= moment || uses[len(uses)-1] <= moment && !p.Values[v].Output {
			continue
		}
		w := p.writer[v]
		if w < 0 || p.lasts[w] <= moment {
			parts = append(parts, part{float64(p.Values[v].Bytes), -1})
			continue
		}
		k, ok := byOp[w]
		if !ok {
			k = len(parts)
			byOp[w] = k
			parts = append(parts, part{0, p.Ops[w].Seconds})
		}
		parts[k].bytes += float64(p.Values[v].Bytes)
	}
	parts = slices.DeleteFunc(parts, func(x part) bool { return x.bytes == 0 })
	price := func(x part) float64 { return x.seconds / x.bytes }
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(price(a), price(b)) })
	// The link takes the dearest ones for nothing, so they are left out.
	travels := p.Out * whole.o.start[moment]
	if p.HostBytes > 0 {
		travels = min(travels, float64(p.HostBytes))
	}
	missing -= travels
	extra := 0.0
	for _, x := range parts {
		switch {
		case missing <= 0:
			return whole.o.seconds + extra
		case x.seconds < 0: // it can only travel
		case p.Out > 0 && price(x) > 1/p.Out:
			return whole.o.seconds + extra + missing/p.Out
		default:
			bytes := min(missing, x.bytes)
			extra += bytes * price(x)
			missing -= bytes
		}
	}
	if p.Out > 0 {
		extra += max(missing, 0) / p.Out
	}
	return whole.o.seconds + extra
}
