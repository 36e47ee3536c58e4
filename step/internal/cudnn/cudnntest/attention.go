package cudnntest

import (
	"math"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/step/internal/cudnn"
)

// Attend computes an attention, of operands in the order of [cudnn.Attention], into those
// that it writes. Operands are the memory of whole arrays.
func Attend(a cudnn.Attention, operands ...[]byte) {
	width := a.Type.Size()
	array := func(i, heads, length int) rows {
		return rows{side{t: a.Type, data: operands[i]}, heads, length, a.Each, a.HeadsBehind}
	}
	q, k, v, out := array(0, a.Heads, a.Queries), array(1, a.KeyHeads, a.Keys), array(2, a.KeyHeads, a.Keys), array(3, a.Heads, a.Queries)
	sums := side{t: dtype.F32, data: operands[4]}
	scale, round := float64(a.Scale), func(x float64) float64 {
		s := side{t: a.Type, data: make([]byte, width)}
		s.put(0, x)
		return s.get(0)
	}
	var dout, dq, dk, dv rows
	var sumk, sumv []float64 // of gradients, as the arrays lie
	if a.Backward {
		dout, dq, dk, dv = array(5, a.Heads, a.Queries), array(6, a.Heads, a.Queries), array(7, a.KeyHeads, a.Keys), array(8, a.KeyHeads, a.Keys)
		sumk, sumv = make([]float64, len(operands[7])/width), make([]float64, len(operands[8])/width)
	}
	scores := make([]float64, a.Keys)
	each([]int{a.Batch, a.Heads, a.Queries}, func(at []int) {
		b, h, i := at[0], at[1], at[2]
		group := h / (a.Heads / a.KeyHeads)
		seen := a.Keys
		if a.Causal {
			seen = min(seen, i+1)
		}
		row := (b*a.Heads+h)*a.Queries + i
		largest := math.Inf(-1)
		for j := range seen {
			scores[j] = scale * dot(&q, &k, b, h, i, group, j)
			largest = max(largest, scores[j])
		}
		if !a.Backward {
			total := 0.0
			for j := range seen {
				total += math.Exp(scores[j] - largest)
			}
			if a.Sums {
				sums.put(row, largest+math.Log(total))
			}
			for e := range a.Each {
				x := 0.0
				for j := range seen {
					x += round(math.Exp(scores[j]-largest)/total) * v.get(v.at(b, group, j)+e)
				}
				out.put(out.at(b, h, i)+e, x)
			}
			return
		}
		own := dot(&out, &dout, b, h, i, h, i)
		gradient := make([]float64, a.Each)
		for j := range seen {
			p := math.Exp(scores[j] - sums.get(row))
			ds := round(scale * p * (dot(&dout, &v, b, h, i, group, j) - own))
			for e := range a.Each {
				gradient[e] += ds * k.get(k.at(b, group, j)+e)
				sumk[k.at(b, group, j)+e] += ds * q.get(q.at(b, h, i)+e)
				sumv[v.at(b, group, j)+e] += round(p) * dout.get(dout.at(b, h, i)+e)
			}
		}
		for e, x := range gradient {
			dq.put(dq.at(b, h, i)+e, x)
		}
	})
	for i := range sumk {
		dk.put(i, sumk[i])
		dv.put(i, sumv[i])
	}
}

// rows is an array of vectors, for each batch, head and place.
type rows struct {
	side
	heads, length, each int
	behind              bool
}

// at is where a vector begins.
func (r *rows) at(batch, head, i int) int {
	if r.behind {
		return ((batch*r.length+i)*r.heads + head) * r.each
	}
	return ((batch*r.heads+head)*r.length + i) * r.each
}

func dot(x, y *rows, batch, headx, i, heady, j int) (sum float64) {
	ox, oy := x.at(batch, headx, i), y.at(batch, heady, j)
	for e := range x.each {
		sum += x.get(ox+e) * y.get(oy+e)
	}
	return sum
}
