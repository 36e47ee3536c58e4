package models

import (
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/step/graph"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/host"
)

// weights are parameters of a model in float64, by name.
type weights map[string][]float64

// rowTimes is a row times a matrix, and an offset.
func (w weights) rowTimes(x []float64, name string) []float64 {
	y := slices.Clone(w[name+" offset"])
	for i, v := range x {
		for j := range y {
			y[j] += v * w[name][i*len(y)+j]
		}
	}
	return y
}

func (w weights) norm(x []float64, name string) []float64 {
	mean, square := 0.0, 0.0
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		square += (v - mean) * (v - mean) / float64(len(x))
	}
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = (v-mean)/math.Sqrt(square+1e-5)*w[name+": scale"][i] + w[name+": offset"][i]
	}
	return y
}

func plus(x, y []float64) []float64 {
	for i, v := range y {
		x[i] += v
	}
	return x
}

// next is the token that comes after tokens, computed from the beginning.
func (w weights) next(c GPT2, tokens []int) int {
	x := make([][]float64, len(tokens))
	for i, t := range tokens {
		x[i] = plus(slices.Clone(w["tokens' table"][t*c.Width:][:c.Width]), w["places' table"][i*c.Width:][:c.Width])
	}
	each := c.Width / c.Heads
	for l := range c.Layers {
		layer := string(rune('0'+l)) + ": "
		qkv := make([][]float64, len(x))
		for i := range x {
			qkv[i] = w.rowTimes(w.norm(x[i], layer+"norm 1"), layer+"attention")
		}
		for i := range x {
			a := make([]float64, c.Width)
			for h := range c.Heads {
				scores, sum := make([]float64, i+1), 0.0
				for j := range scores {
					for e := range each {
						scores[j] += qkv[i][h*each+e] * qkv[j][c.Width+h*each+e] / math.Sqrt(float64(each))
					}
					scores[j] = math.Exp(scores[j])
					sum += scores[j]
				}
				for j, s := range scores {
					for e := range each {
						a[h*each+e] += s / sum * qkv[j][2*c.Width+h*each+e]
					}
				}
			}
			plus(x[i], w.rowTimes(a, layer+"out"))
			up := w.rowTimes(w.norm(x[i], layer+"norm 2"), layer+"up")
			for k, v := range up {
				up[k] = v / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(v+0.044715*v*v*v)))
			}
			plus(x[i], w.rowTimes(up, layer+"down"))
		}
	}
	last, best := w.norm(x[len(x)-1], "norm"), 0
	most := math.Inf(-1)
	for t := range c.Vocabulary {
		sum := 0.0
		for i, v := range last {
			sum += v * w["tokens' table"][t*c.Width+i]
		}
		if sum > most {
			best, most = t, sum
		}
	}
	return best
}

// One token after the other, with a cache, gives what all of them from the beginning do.
func TestGPT2(t *testing.T) {
	dev := testkit.Must(device.Open("host"))(t)
	defer dev.Close()
	exec := testkit.Must(host.Open(dev))(t)
	defer exec.Close()
	memory := testkit.Must(step.OpenMemory(dev, nil))(t)
	defer memory.Close()
	c := GPT2{Layers: 2, Width: 8, Heads: 2, Length: 6, Vocabulary: 31, Type: dtype.F64}
	m := testkit.Must(c.Model())(t)
	tensors := testkit.Must(m.Start(context.Background(), exec, memory, 1))(t)
	w := weights{}
	for i, p := range m.Graph.Parameters() {
		defer tensors[i].Free()
		name := p.Node().Attr.(*graph.Input).Name
		if p.Shape().Type != dtype.F64 || strings.Contains(name, "keys") || strings.Contains(name, "values") {
			continue
		}
		// Offsets, and larger weights than a model begins with: all of them count.
		rng := rand.New(rand.NewPCG(1, uint64(i)))
		scale := 1.0
		if strings.HasSuffix(name, "offset") {
			scale = 0.3
		}
		v := make([]float64, p.Shape().Size())
		data := make([]byte, p.Shape().Bytes())
		for k := range v {
			v[k] = scale * rng.NormFloat64()
			binary.LittleEndian.PutUint64(data[8*k:], math.Float64bits(v[k]))
		}
		testkit.OK(t, tensors[i].Write(data))
		w[name] = v
	}
	s := testkit.Must(m.Session(exec, tensors))(t)
	defer s.Close()
	tokens, seen := []int{5, 9, 1, 30, 2, 17}, map[int]bool{}
	for i, token := range tokens {
		binary.LittleEndian.PutUint32(s.Inputs()[0], uint32(token))
		_, err := s.Run(context.Background(), nil, nil)
		testkit.OK(t, err)
		got := int(binary.LittleEndian.Uint32(s.Outputs()[0]))
		if want := w.next(c, tokens[:i+1]); got != want {
			t.Errorf("behind %v comes %d, want %d", tokens[:i+1], got, want)
		}
		seen[got] = true
	}
	if len(seen) < 3 {
		t.Errorf("only %v come next", seen)
	}
}
