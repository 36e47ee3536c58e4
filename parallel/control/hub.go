package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pinion-gpu/pinion/internal/errs"
)

// beats is how many of its own beats a rank waits for a sign of life. Beats are counted,
// not time, so that a process which was stopped itself does not take others for lost.
const beats = 8

// hub is what rank 0 knows of all. Ranks are told of by their links, and rank 0 itself
// by calls.
type hub struct {
	own  greeting
	size int
	lost time.Duration

	mu     sync.Mutex
	peers  []peer
	err    *RankError // why the run has failed
	joined bool       // all had come
	met    int        // ranks that were let in or refused, whichever they said they are
	gone   message    // of the first rank that left

	number  int64     // of the exchange that is collected
	parts   []message // by rank; kind 0: it has not come
	what    string    // of the first that has come
	odd     bool      // the ranks that have come are at different places
	oddFor  int       // beats since then
	arrived int
}

// peer is one rank.
type peer struct {
	name string
	send func(message) // nil: it has not come
	link *link         // nil for rank 0, and behind its end
	left bool
	at   progress
}

func newHub(g *Group, own greeting) *hub {
	size := own.Size
	h := &hub{own: own, size: size, lost: g.lost, peers: make([]peer, size), parts: make([]message, size), number: 1, met: 1}
	h.peers[0] = peer{name: g.name, send: func(m message) {
		m.data = slices.Clone(m.data) // others' links may still send it
		_ = g.receive(m)
	}}
	return h
}

// receive takes what a rank sent.
func (h *hub) receive(r int, m message) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := &h.peers[r]
	switch m.kind {
	case beat:
		p.at = progress{m.number, m.what}
	case part:
		return h.collect(r, m)
	case leaving:
		h.leave(r)
	case failed:
		h.fail(&RankError{Rank: r, Name: p.name, Reason: string(m.data)})
	default:
		return fmt.Errorf("%w: a message of kind %d", errs.ErrFormat, m.kind)
	}
	return nil
}

// collect takes a rank's part of an exchange, and sends all when they are there.
func (h *hub) collect(r int, m message) error {
	switch {
	case h.err != nil:
		return nil
	case h.gone.kind != 0:
		h.peers[r].send(h.gone)
		return nil
	case m.number != h.number || h.parts[r].kind != 0:
		return fmt.Errorf("%w: a part of exchange %d, while %d is collected", errs.ErrFormat, m.number, h.number)
	}
	if h.arrived == 0 {
		h.what = m.what
	}
	h.parts[r] = m
	h.odd = h.odd || m.what != h.what
	if h.arrived++; h.arrived < h.size {
		return nil
	}
	if h.odd {
		h.failOdd()
		return nil
	}
	h.joined = true
	for from, m := range h.parts {
		h.tell(message{kind: part, rank: from, number: h.number, data: m.data})
	}
	h.number++
	h.clear()
	return nil
}

func (h *hub) clear() { clear(h.parts); h.arrived, h.odd, h.oddFor = 0, false, 0 }

// failOdd ends the run because ranks are at different places. The rank that it names is
// of the smallest group.
func (h *hub) failOdd() {
	all := h.places()
	least := slices.MinFunc(all, func(a, b camp) int { return len(a.ranks) - len(b.ranks) })
	r := least.ranks[0]
	h.fail(&RankError{Rank: r, Name: h.peers[r].name, Reason: "is not where others are: " + h.where()})
}

func (h *hub) places() []camp {
	return camps(h.ranks(func(r int) bool { return h.parts[r].kind != 0 }), func(r int) string { return fmt.Sprintf("%q", h.parts[r].what) })
}

// where says which ranks are at the exchange, and who is missing: "" if none is.
func (h *hub) where() string {
	if h.arrived == 0 {
		return ""
	}
	missing := h.ranks(func(r int) bool { return h.parts[r].kind == 0 })
	if !h.joined {
		return fmt.Sprintf("%d of %d ranks have come, missing: %s", h.arrived, h.size, ranksText(missing))
	}
	text := campsText(h.places(), "is at", "are at")
	if len(missing) > 0 {
		text += ", missing: " + ranksText(missing)
	}
	return text
}

// ranks are those of which a condition holds.
func (h *hub) ranks(holds func(r int) bool) []int {
	var list []int
	for r := range h.size {
		if holds(r) {
			list = append(list, r)
		}
	}
	return list
}

// tell sends a message to all ranks.
func (h *hub) tell(m message) {
	for r := range h.peers {
		if send := h.peers[r].send; send != nil {
			send(m)
		}
	}
}

// fail ends the run, if nothing has ended it before, and tells everybody.
func (h *hub) fail(err *RankError) {
	if h.err != nil {
		return
	}
	h.err = err
	h.clear()
	h.tell(message{kind: failed, rank: err.Rank, what: err.Name, data: []byte(err.Reason)})
}

// leave notes that a rank has finished: exchanges that need it fail, now and later.
func (h *hub) leave(r int) {
	h.peers[r].left = true
	if h.gone.kind == 0 {
		h.gone = message{kind: leaving, rank: r, what: h.peers[r].name}
	}
	for i, m := range h.parts {
		if m.kind != 0 {
			h.peers[i].send(h.gone)
		}
	}
	h.clear()
}

// ended notes that a rank's connection is no more, and why.
func (h *hub) ended(r int, why error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := &h.peers[r]
	p.send, p.link = func(message) {}, nil
	if !p.left {
		h.fail(&RankError{Rank: r, Name: p.name, Reason: endText(why)})
	}
}

// endText says what the end of a connection means.
func endText(err error) string {
	if errors.Is(err, errs.ErrFormat) || errors.Is(err, errs.ErrTooLarge) {
		return "it sent what no rank sends: " + err.Error()
	}
	return fmt.Sprintf("its connection ended without a word, as that of a process that was killed or has crashed (%v)", err)
}

// beat looks for ranks without a sign of life, and gives one to all, which tells whom
// the others wait for.
func (h *hub) beat(own progress) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.peers[0].at = own
	if h.odd {
		if h.oddFor++; h.oddFor > 2 { // those that have not come may never do
			h.failOdd()
		}
	}
	m := message{kind: beat, what: h.where(), data: []byte(h.behind())}
	for r := range h.peers {
		switch p := &h.peers[r]; {
		case r == 0:
			p.send(m)
		case p.link == nil:
		case p.link.silent.Add(1) > beats:
			if !p.left {
				h.fail(&RankError{Rank: r, Name: p.name, Reason: silentText(h.lost)})
			}
			p.link.stop()
		default:
			p.link.beat(m)
		}
	}
}

func silentText(lost time.Duration) string {
	return fmt.Sprintf("no sign of life for %v: the process hangs as a whole, or its host cannot be reached", lost)
}

// await waits until a condition holds, ctx ends, or for as long as a rank may be silent.
// It looks from time to time: who waits here has nothing else to do.
func (h *hub) await(ctx context.Context, holds func() bool) {
	ctx, cancel := context.WithTimeout(ctx, h.lost)
	defer cancel()
	for {
		h.mu.Lock()
		over := holds()
		h.mu.Unlock()
		if over {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// linger waits, when ranks could not join because of one of them, until those that had
// not come yet have heard of it too.
func (h *hub) linger(ctx context.Context) {
	h.await(ctx, func() bool { return h.err == nil || h.met >= h.size })
}

// depart lets rank 0 leave, behind the others if they do so soon.
func (h *hub) depart(ctx context.Context) error {
	h.mu.Lock()
	h.leave(0)
	h.mu.Unlock()
	staying := func() []int { return h.ranks(func(r int) bool { return !h.peers[r].left }) }
	h.await(ctx, func() bool { return h.err != nil || len(staying()) == 0 })
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil {
		return fmt.Errorf("control: while rank 0 left: %w", h.err)
	}
	stay := staying()
	if len(stay) == 0 {
		return nil
	}
	h.tell(message{kind: leaving, rank: 0, what: h.own.Name})
	return fmt.Errorf("control: rank 0 leaves, but %v later not yet %s: nobody tells them of each other's end any more", h.lost, ranksText(stay))
}

// links are those to other ranks.
func (h *hub) links() []*link {
	h.mu.Lock()
	defer h.mu.Unlock()
	var list []*link
	for _, p := range h.peers {
		if p.link != nil {
			list = append(list, p.link)
		}
	}
	return list
}
