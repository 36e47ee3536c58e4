package step

import (
	"github.com/pinion-gpu/pinion/parallel"
	"github.com/pinion-gpu/pinion/step/graph"
)

// Predict is how many seconds a step takes if its tasks take so many, and ranks are so many
// and so fast; and how many of these it waits for what ranks do together. Waits for copies
// to the host and back are not in it. Another number of ranks can be asked for than that the
// step was compiled for; where ranks have shares, these are taken to be as large.
func (x *Executable) Predict(seconds func(*Task) float64, ranks int, speed parallel.Speed) (total, waited float64) {
	there := map[int]float64{} // when what ranks make is there
	now, free := 0.0, 0.0
	for _, r := range x.plan.Runs {
		u := x.unit(r.Op)
		if n := u.task.together(); n != nil {
			free = max(free, now) + takes(n, ranks, speed)
			for _, b := range u.out {
				there[b] = free
			}
			continue
		}
		begin := now
		for _, b := range u.in {
			begin = max(begin, there[b])
		}
		waited += begin - now
		now = begin + seconds(u.task)
	}
	total = max(now, free)
	return total, waited + total - now
}

// takes is how many seconds ranks take for what they do together.
func takes(n *graph.Node, ranks int, speed parallel.Speed) float64 {
	var bytes int64 // of the larger buffer
	for i, shape := range n.Shapes {
		if n.Op == graph.ReduceScatter {
			shape = n.Inputs[i].Shape()
		}
		bytes += shape.Bytes()
	}
	if n.Op == graph.AllReduce {
		return speed.AllReduce(bytes, ranks).Seconds()
	}
	return speed.AllGather(bytes, ranks).Seconds()
}
