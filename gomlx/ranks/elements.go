package ranks

import (
	"fmt"
	"slices"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/pinion-gpu/pinion/gomlx"
)

// see looks at what the inner optimizer has added to a graph that had so many nodes before:
// it has to go element by element where ranks have shares, and what it keeps of a weight,
// such as moments, is noted.
func (o *Optimizer) see(scope *model.Scope, g *graph.Graph, weights []*weight, before int) {
	u := &update{before: graph.NodeId(before), seen: map[*graph.Node]bool{}, up: map[*graph.Node]*graph.Node{}, other: map[*graph.Node]*graph.Node{}}
	for v := range scope.Store().IterVariables() {
		if v.ChangedInGraph(g) {
			u.visit(v.NodeValue(g))
		}
	}
	group := map[*graph.Node]*weight{}
	for _, w := range weights {
		if w.share != nil {
			u.unite(w.mean, w.own)
		}
	}
	for _, w := range weights {
		root := u.root(w.mean)
		switch n := u.other[root]; {
		case n == nil:
			group[root] = w
		case w.share != nil:
			panic(fmt.Errorf("ranks: %w: %T does not update %s element by element, so that ranks cannot share that: %v makes %v of %v",
				gomlx.ErrArgument, o.inner, w.Path(), n.Type(), n.Shape(), shapesOf(n.Inputs())))
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for v := range scope.Store().IterVariables() {
		p := g.GetParameterByName(v.Path())
		if v.Trainable || p == nil || !v.InUseByGraph(g) || p.Shape().Size() < 2 {
			continue
		}
		w := group[u.root(p)]
		if w != nil && w.mean.DType().IsFloat() && slices.Equal(p.Shape().Dimensions, w.mean.Shape().Dimensions) {
			o.kept[v.Path()] = slices.Clone(w.shape.Dimensions)
		}
	}
}

// update is what an optimizer has added to a graph. Nodes of more than one element that
// operations combine are a group.
type update struct {
	before graph.NodeId                // the first node that may be its own
	seen   map[*graph.Node]bool        // it was visited
	up     map[*graph.Node]*graph.Node // another node of the group; none: the node stands for the group
	other  map[*graph.Node]*graph.Node // what does not go element by element in a group, by who stands for it
}

func (u *update) root(n *graph.Node) *graph.Node {
	for u.up[n] != nil {
		n = u.up[n]
	}
	return n
}

func (u *update) unite(a, b *graph.Node) {
	x, y := u.root(a), u.root(b)
	if x == y {
		return
	}
	u.up[y] = x
	if u.other[x] == nil {
		u.other[x] = u.other[y]
	}
}

// visit looks at a node, and what it is made of.
func (u *update) visit(n *graph.Node) {
	if u.seen[n] || n.Id() < u.before {
		return
	}
	u.seen[n] = true
	inputs := n.Inputs()
	many := slices.DeleteFunc(append([]*graph.Node{n}, inputs...), func(n *graph.Node) bool { return n.NumOutputs() == 1 && n.Shape().Size() < 2 })
	for _, m := range many {
		u.unite(many[0], m)
	}
	if len(many) > 0 && !elementByElement(n, many) {
		u.other[u.root(many[0])] = n
	}
	for _, in := range inputs {
		u.visit(in)
	}
}

// elementByElement reports whether a node has each element of those at the same place. many
// are the node and its inputs, those of more than one element.
func elementByElement(n *graph.Node, many []*graph.Node) bool {
	switch n.Type() {
	case graph.NodeTypeParameter:
		return true
	case graph.NodeTypeBroadcastInDim:
		return len(many) == 1 // of one element
	}
	return operations[n.Type()] && !slices.ContainsFunc(many, func(m *graph.Node) bool {
		return m.NumOutputs() != 1 || !slices.Equal(m.Shape().Dimensions, many[0].Shape().Dimensions)
	})
}

// operations go element by element.
var operations = func() map[graph.NodeType]bool {
	m := map[graph.NodeType]bool{}
	for _, t := range []graph.NodeType{
		graph.NodeTypeAbs, graph.NodeTypeAdd, graph.NodeTypeAtan2, graph.NodeTypeBitwiseAnd, graph.NodeTypeBitwiseNot,
		graph.NodeTypeBitwiseOr, graph.NodeTypeBitwiseXor, graph.NodeTypeCeil, graph.NodeTypeClamp, graph.NodeTypeConvertDType,
		graph.NodeTypeCos, graph.NodeTypeDiv, graph.NodeTypeEqual, graph.NodeTypeErf, graph.NodeTypeExp, graph.NodeTypeExpm1,
		graph.NodeTypeFloor, graph.NodeTypeGreaterOrEqual, graph.NodeTypeGreaterThan, graph.NodeTypeIdentity,
		graph.NodeTypeIsFinite, graph.NodeTypeIsNaN, graph.NodeTypeLessOrEqual, graph.NodeTypeLessThan, graph.NodeTypeLog,
		graph.NodeTypeLog1p, graph.NodeTypeLogicalAnd, graph.NodeTypeLogicalNot, graph.NodeTypeLogicalOr, graph.NodeTypeLogicalXor,
		graph.NodeTypeLogistic, graph.NodeTypeMax, graph.NodeTypeMin, graph.NodeTypeMul, graph.NodeTypeNeg, graph.NodeTypeNotEqual,
		graph.NodeTypePow, graph.NodeTypeRem, graph.NodeTypeRound, graph.NodeTypeRsqrt, graph.NodeTypeSign, graph.NodeTypeSin,
		graph.NodeTypeSqrt, graph.NodeTypeSub, graph.NodeTypeTanh, graph.NodeTypeWhere,
	} {
		m[t] = true
	}
	return m
}()

func shapesOf(nodes []*graph.Node) (list []string) {
	for _, n := range nodes {
		list = append(list, n.Shape().String())
	}
	return list
}
