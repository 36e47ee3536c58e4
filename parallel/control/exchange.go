package control

import (
	"context"
	"fmt"
	"slices"

	"github.com/pinion-gpu/pinion/internal/errs"
)

// exchange is one that this rank takes part in.
type exchange struct {
	number  int64
	parts   [][]byte
	missing int
	err     *RankError    // a rank has left
	over    chan struct{} // closed when all parts are there, or err is
}

// Exchange gives each rank the bytes of all, in order of rank: at most 1 MiB of each. It
// returns when every rank has called it, so it is a barrier as well. All ranks make the
// same exchanges in the same order; what says which one this is, and ranks that call
// different ones end the run with an error that says who is where.
//
// It fails with a [RankError] if the run does, or if a rank has left that it needs; with
// [ErrClosed]; and with ctx's error, after which this rank can make no other exchange,
// since the others' count of them is another.
func (g *Group) Exchange(ctx context.Context, what string, mine []byte) ([][]byte, error) {
	parts, err := g.exchange(ctx, what, mine)
	if err != nil {
		return nil, fmt.Errorf("control: exchange %q: %w", what, err)
	}
	return parts, nil
}

func (g *Group) exchange(ctx context.Context, what string, mine []byte) ([][]byte, error) {
	if len(mine) > maxData || len(what) > maxWhat {
		return nil, fmt.Errorf("%w: %d bytes of data and %d of a name, at most %d and %d", errs.ErrTooLarge, len(mine), len(what), maxData, maxWhat)
	}
	select {
	case g.turn <- struct{}{}:
		defer func() { <-g.turn }()
	case <-g.done:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	e, err := g.begin(ctx)
	if err != nil {
		return nil, err
	}
	g.tellHub(message{kind: part, rank: g.world.Rank, number: e.number, what: what, data: slices.Clone(mine)})
	select {
	case <-e.over:
	case <-g.done:
	case <-ctx.Done():
	}
	return g.conclude(ctx, e)
}

// begin counts an exchange, if there can be one.
func (g *Group) begin(ctx context.Context) (*exchange, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.err != nil:
		return nil, g.err
	case g.closed:
		return nil, ErrClosed
	case g.gone != nil:
		return nil, g.gone
	case g.broken != nil:
		return nil, g.broken
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	g.number++
	g.current = &exchange{number: g.number, parts: make([][]byte, g.world.Size), missing: g.world.Size, over: make(chan struct{})}
	return g.current, nil
}

// conclude says how an exchange has ended.
func (g *Group) conclude(ctx context.Context, e *exchange) ([][]byte, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.current = nil
	switch {
	case e.err != nil:
		return nil, e.err
	case e.missing == 0:
		return e.parts, nil
	case g.err != nil:
		return nil, g.err
	case g.closed:
		return nil, ErrClosed
	}
	g.broken = fmt.Errorf("an exchange before it was given up: %w", context.Cause(ctx))
	if g.waiting != "" {
		return nil, fmt.Errorf("%w (%s)", context.Cause(ctx), g.waiting)
	}
	return nil, context.Cause(ctx)
}

// tellHub sends rank 0 what concerns all.
func (g *Group) tellHub(m message) {
	switch {
	case g.hub != nil:
		_ = g.hub.receive(0, m)
	case g.up != nil:
		g.up.send(m)
	}
}

// collect takes a rank's part, with g.mu held.
func (g *Group) collect(m message) error {
	e := g.current
	if e == nil || m.number != e.number || e.err != nil {
		return nil // of an exchange that was given up
	}
	if m.rank >= len(e.parts) || e.missing == 0 || e.parts[m.rank] != nil {
		return fmt.Errorf("%w: a part of rank %d", errs.ErrFormat, m.rank)
	}
	e.parts[m.rank] = m.data
	if e.missing--; e.missing == 0 {
		close(e.over)
	}
	return nil
}

// left notes that a rank has left, with g.mu held: this exchange and all later ones
// that need it fail.
func (g *Group) left(m message) {
	g.headLeft = g.headLeft || m.rank == 0
	if g.gone == nil {
		g.gone = &RankError{Rank: m.rank, Name: m.what, Reason: "has finished and left the run"}
	}
	if e := g.current; e != nil && e.err == nil && e.missing > 0 {
		e.err = g.gone
		close(e.over)
	}
}

// Agree fails with [ErrDisagree] on every rank if not all have the same value, and names
// which ranks have which. what names the value, as "the model". It is an exchange, and
// fails as one.
func (g *Group) Agree(ctx context.Context, what, value string) error {
	parts, err := g.exchange(ctx, "agree on "+what, []byte(value))
	if err != nil {
		return fmt.Errorf("control: agree on %s: %w", what, err)
	}
	all := make([]int, len(parts))
	for r := range all {
		all[r] = r
	}
	if found := camps(all, func(r int) string { return string(parts[r]) }); len(found) > 1 {
		return fmt.Errorf("control: %w on %s: %s", ErrDisagree, what, campsText(found, "has", "have"))
	}
	return nil
}
