package collreport

import (
	"fmt"
	"slices"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/collbench"
	"github.com/pinion-gpu/pinion/internal/units"
)

// advice is what to do, and the numbers that say so.
type advice struct{ Do, Because string }

// rules look at a report; a rule that has nothing to say returns false.
var rules = []func(*Report) (advice, bool){bucket, queue, inPlace, shard}

func (r *Report) advice() (list []advice) {
	for _, rule := range rules {
		if a, ok := rule(r); ok {
			list = append(list, a)
		}
	}
	return list
}

// bucket finds the size from which on all-reduce has half of its best bandwidth.
func bucket(r *Report) (advice, bool) {
	rows := r.rows(collbench.AllReduce)
	best, ok := r.fastest(collbench.AllReduce)
	if !ok {
		return advice{}, false
	}
	half := slices.IndexFunc(rows, func(x collbench.Row) bool { return x.Best().Bus >= best.Best().Bus/2 })
	if half < 1 {
		return advice{}, false
	}
	first, from := rows[0], rows[half]
	return advice{fmt.Sprintf("Bucket gradients below %s.", units.Bytes(from.Bytes)),
		fmt.Sprintf("Small sizes are latency: an all-reduce of %s takes %s, one of %s takes %s. From there on all-reduce has at least half of its best bus bandwidth, %s.",
			units.Bytes(first.Bytes), units.Seconds(first.Best().Mean), units.Bytes(from.Bytes), units.Seconds(from.Best().Mean), units.Rate(best.Best().Bus))}, true
}

// queue compares calls that are waited for with calls back to back.
func queue(r *Report) (advice, bool) {
	rows := r.rows(collbench.AllReduce)
	if len(rows) == 0 {
		return advice{}, false
	}
	t := rows[0].Best()
	if t.Single < 1.25*t.Mean {
		return advice{}, false
	}
	return advice{"Queue calls, and wait once.",
		fmt.Sprintf("An all-reduce of %s takes %s where each is waited for, and %s back to back.", units.Bytes(rows[0].Bytes), units.Seconds(t.Single), units.Seconds(t.Mean))}, true
}

// inPlace compares the two for the largest size.
func inPlace(r *Report) (advice, bool) {
	rows := r.rows(collbench.AllReduce)
	if len(rows) == 0 {
		return advice{}, false
	}
	x := rows[len(rows)-1]
	if x.Apart == nil || x.InPlace == nil || x.Apart.Mean < 1.1*x.InPlace.Mean {
		return advice{}, false
	}
	return advice{"Reduce in place.",
		fmt.Sprintf("An all-reduce of %s takes %s in place and %s into another buffer, which it needs as well.", units.Bytes(x.Bytes), units.Seconds(x.InPlace.Mean), units.Seconds(x.Apart.Mean))}, true
}

// shard compares what sharded optimizer states communicate with an all-reduce.
func shard(r *Report) (advice, bool) {
	var last [3]collbench.Row
	for i, name := range []string{collbench.AllReduce, collbench.ReduceScatter, collbench.AllGather} {
		rows := r.rows(name)
		if len(rows) == 0 {
			return advice{}, false
		}
		last[i] = rows[len(rows)-1]
	}
	one, two := last[0].Best().Mean, last[1].Best().Mean+last[2].Best().Mean
	do := "Sharding the optimizer’s state (ZeRO) takes no more communication here."
	if two > 1.1*one {
		do = "Shard the optimizer’s state (ZeRO) for memory, not for time."
	}
	return advice{do, fmt.Sprintf("A reduce-scatter and an all-gather of %s take %s together, an all-reduce %s.",
		units.Bytes(last[0].Bytes), units.Seconds(two), units.Seconds(one))}, true
}
