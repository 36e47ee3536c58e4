// Package mincut finds the cheapest way to divide nodes in two.
//
//	g := mincut.New(2)
//	g.Add(mincut.Source, 0, mincut.Always) // node 0 is on the source's side
//	g.Add(0, 1, 3)                         // it costs 3 if node 1 is not
//	g.Add(1, mincut.Sink, 5)               // and 5 if it is
//	side := g.Cut()                        // true, false: a cost of 3
package mincut

import "math"

// Source and Sink are the nodes that every cut divides.
const (
	Source = -1
	Sink   = -2
)

// Always is the cost of an edge that no cut takes.
const Always = math.MaxInt64 / 4

// Graph has nodes numbered from 0, besides [Source] and [Sink].
type Graph struct {
	edges []edge // each beside its reverse, which is at the index with the last bit flipped
	of    [][]int
	level []int
	next  []int // of each node, the first edge that may still carry something
}

type edge struct {
	to       int
	capacity int64
}

// New makes a graph of n nodes without edges.
func New(n int) *Graph { return &Graph{of: make([][]int, n+2)} }

// Node adds a node, and returns its number.
func (g *Graph) Node() int {
	g.of = append(g.of, nil)
	return len(g.of) - 3
}

// Add adds an edge: a cost, at least 0, if from is on the source's side and to is not.
func (g *Graph) Add(from, to int, cost int64) {
	if cost <= 0 {
		return
	}
	g.edges = append(g.edges, edge{to + 2, cost}, edge{from + 2, 0})
	g.of[from+2] = append(g.of[from+2], len(g.edges)-2)
	g.of[to+2] = append(g.of[to+2], len(g.edges)-1)
}

// Cut returns for each node whether it is on the source's side in a cut of the least
// cost. Of several, it is the one with the fewest nodes on that side, which is unique.
// The algorithm is Dinic's (1970).
func (g *Graph) Cut() []bool {
	for g.levels() {
		g.next = make([]int, len(g.of))
		for g.push(Source+2, Always) > 0 {
		}
	}
	side := make([]bool, len(g.of)-2)
	for i := range side {
		side[i] = g.level[i+2] > 0
	}
	return side
}

// levels finds how far nodes are from the source, and whether the sink can be reached.
func (g *Graph) levels() bool {
	g.level = make([]int, len(g.of))
	g.level[Source+2] = 1
	queue := []int{Source + 2}
	for len(queue) > 0 {
		n := queue[0]
		queue = queue[1:]
		for _, i := range g.of[n] {
			if e := g.edges[i]; e.capacity > 0 && g.level[e.to] == 0 {
				g.level[e.to] = g.level[n] + 1
				queue = append(queue, e.to)
			}
		}
	}
	return g.level[Sink+2] > 0
}

// push carries what it can from a node to the sink, along one path.
func (g *Graph) push(n int, most int64) int64 {
	if n == Sink+2 {
		return most
	}
	for ; g.next[n] < len(g.of[n]); g.next[n]++ {
		i := g.of[n][g.next[n]]
		e := &g.edges[i]
		if e.capacity == 0 || g.level[e.to] != g.level[n]+1 {
			continue
		}
		if sent := g.push(e.to, min(most, e.capacity)); sent > 0 {
			g.edges[i].capacity -= sent
			g.edges[i^1].capacity += sent
			return sent
		}
	}
	return 0
}
