package timeline

import (
	"cmp"
	"slices"
)

// interval is a time from one moment to a later one, in nanoseconds.
type interval struct{ from, to int64 }

// union makes one interval of those that overlap or touch, in order. It changes list.
func union(list []interval) []interval {
	slices.SortFunc(list, func(a, b interval) int { return cmp.Compare(a.from, b.from) })
	out := list[:0]
	for _, x := range list {
		switch last := len(out) - 1; {
		case x.to <= x.from: // nothing
		case last >= 0 && x.from <= out[last].to:
			out[last].to = max(out[last].to, x.to)
		default:
			out = append(out, x)
		}
	}
	return out
}

// total is how long the intervals of a union are together.
func total(list []interval) (n int64) {
	for _, x := range list {
		n += x.to - x.from
	}
	return n
}

// shared is for how long there are intervals of both unions.
func shared(a, b []interval) (n int64) {
	for len(a) > 0 && len(b) > 0 {
		n += max(min(a[0].to, b[0].to)-max(a[0].from, b[0].from), 0)
		if a[0].to < b[0].to {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return n
}

// between are the gaps of at least so long between the intervals of a union.
func between(list []interval, least int64) (gaps []interval) {
	for i := 1; i < len(list); i++ {
		if g := (interval{list[i-1].to, list[i].from}); g.to-g.from >= least {
			gaps = append(gaps, g)
		}
	}
	return gaps
}
