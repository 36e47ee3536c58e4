package control

import (
	"fmt"
	"strings"
)

// progress is how far a rank has come.
type progress struct {
	n    int64
	what string
}

// Progress notes how many operations this rank has begun, and what the newest one is.
// It goes out with the next sign of life. It costs one allocation and no lock, so it may
// be called for each operation.
func (g *Group) Progress(n int64, what string) { g.at.Store(&progress{n, what}) }

// Behind names the ranks that have begun the fewest operations, as "rank 2 (host b, pid
// 71) has begun 16 operations (all-gather of 8 B), others up to 17 (all-reduce of 4 MiB)".
// It
// is "" while all have begun as many. What it says is up to two signs of life old, which
// is a fourth of Options.Lost; whoever asks it has waited longer.
func (g *Group) Behind() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.behind
}

// behind is what Behind says on all ranks.
func (h *hub) behind() string {
	here := h.ranks(func(r int) bool { return h.peers[r].send != nil && !h.peers[r].left })
	if len(here) < 2 {
		return ""
	}
	least, most := here[0], here[0]
	for _, r := range here {
		if h.peers[r].at.n < h.peers[least].at.n {
			least = r
		}
		if h.peers[r].at.n > h.peers[most].at.n {
			most = r
		}
	}
	low, high := h.peers[least].at, h.peers[most].at
	if low.n == high.n {
		return ""
	}
	slow := h.ranks(func(r int) bool { return h.peers[r].send != nil && !h.peers[r].left && h.peers[r].at.n == low.n })
	names := make([]string, 0, len(slow))
	for _, r := range slow {
		names = append(names, called(r, h.peers[r].name))
	}
	who := strings.Join(names, " and ") + " has"
	switch {
	case len(slow) == 2:
		who = strings.Join(names, " and ") + " have"
	case len(slow) > 2:
		who = ranksText(slow) + " have"
	}
	return fmt.Sprintf("%s begun %s, others up to %s", who, low.text(" operations"), high.text(""))
}

func (p progress) text(noun string) string {
	if p.what == "" {
		return fmt.Sprintf("%d%s", p.n, noun)
	}
	return fmt.Sprintf("%d%s (%s)", p.n, noun, clip(p.what))
}
