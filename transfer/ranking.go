package transfer

import (
	"cmp"
	"slices"
)

// preferred is the order of paths that take about the same time: the kernel
// is the steadiest.
var preferred = []BatchPath{BatchKernel, BatchBox, BatchDriver, BatchLoop}

// aboutTheSame is how much slower than the fastest a preferred path may be:
// measured at other times the order may be another.
const aboutTheSame = 1.08

// rowsRanking lists the paths for rows of pinned memory, the best first.
func (e *Engine) rowsRanking(d direction, r rows) []BatchPath {
	n := int64(r.count())
	bytes := r.mean()
	type ranked struct {
		path    BatchPath
		seconds float64
	}
	var list []ranked
	if e.options.Model != nil {
		for _, b := range e.options.Model.Batches {
			if b.Direction == d.String() {
				list = append(list, ranked{BatchPath(b.Path), b.Seconds(n, bytes)})
			}
		}
	}
	if len(list) == 0 { // a rule of thumb
		if bytes >= 1<<20 {
			return []BatchPath{BatchLoop}
		}
		return preferred
	}
	slices.SortStableFunc(list, func(a, b ranked) int { return cmp.Compare(a.seconds, b.seconds) })
	least := list[0].seconds
	slices.SortStableFunc(list, func(a, b ranked) int {
		if a.seconds > least*aboutTheSame || b.seconds > least*aboutTheSame {
			return cmp.Compare(a.seconds, b.seconds)
		}
		return cmp.Compare(slices.Index(preferred, a.path), slices.Index(preferred, b.path))
	})
	paths := make([]BatchPath, len(list))
	for i, r := range list {
		paths[i] = r.path
	}
	return paths
}
