package kvcache

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pinion-gpu/pinion/internal/testkit"
)

// memory is what a device and a host would hold: for each place of a token, what stands for
// its keys and values, which follow from the tenant, and all tokens up to it.
type memory struct {
	*Cache
	device, host [][]uint64
	copies       []Copy
}

func newMemory(t *testing.T, o Options) *memory {
	m := &memory{Cache: testkit.Must(New(o))(t)}
	m.device, m.host = make([][]uint64, o.Blocks), make([][]uint64, o.HostBlocks)
	for _, list := range [][][]uint64{m.device, m.host} {
		for i := range list {
			list[i] = make([]uint64, m.o.BlockTokens)
		}
	}
	return m
}

// move makes the copies.
func (m *memory) move() {
	at := func(p Place) []uint64 {
		if p.Host {
			return m.host[p.Number]
		}
		return m.device[p.Number]
	}
	m.copies = m.TakeCopies(m.copies[:0])
	for _, c := range m.copies {
		copy(at(c.To), at(c.From))
	}
}

// values are those of tokens.
func values(tenant string, tokens []int32) (list []uint64) {
	h := fnv.New64a()
	fmt.Fprint(h, tenant)
	for _, t := range tokens {
		fmt.Fprint(h, " ", t)
		list = append(list, h.Sum64())
	}
	return list
}

// compute computes the tokens of a sequence that are not.
func (m *memory) compute(t *testing.T, s *Sequence) {
	m.move()
	want := values(s.tenant.name, s.tokens)
	for i := s.done; i < len(s.tokens); i++ {
		m.device[s.table[i/m.o.BlockTokens]][i%m.o.BlockTokens] = want[i]
	}
	testkit.OK(t, s.Computed(len(s.tokens)))
	m.move()
}

// check fails unless a sequence reads what belongs to its tokens.
func (m *memory) check(t *testing.T, s *Sequence) {
	t.Helper()
	want := values(s.tenant.name, s.tokens)
	for i := range s.done {
		slot := s.table[i/m.o.BlockTokens]
		if slot < 0 {
			if m.o.Window == 0 || i >= s.done-m.o.Window || i < m.o.Sinks {
				t.Fatalf("token %d of %d is gone", i, len(s.tokens))
			}
			continue
		}
		if got := m.device[slot][i%m.o.BlockTokens]; got != want[i] {
			t.Fatalf("tenant %s: token %d of %v, in block %d at %d: another one's", s.tenant.name, i, s.tokens, i/m.o.BlockTokens, slot)
		}
	}
}

// sound fails unless the books agree with themselves.
func (m *memory) sound(t *testing.T, open []*Sequence) {
	t.Helper()
	refs, slots, hosts, have := map[int32]int{}, map[int32]bool{}, map[int32]bool{}, [2]map[*tenant]int{{}, {}}
	for _, s := range open {
		if n := (len(s.tokens) + m.o.BlockTokens - 1) / m.o.BlockTokens; len(s.blocks) != n || len(s.table) != n {
			t.Fatalf("%d tokens have %d blocks", len(s.tokens), len(s.blocks))
		}
		for k, i := range s.blocks {
			if i >= 0 {
				refs[i]++
				if m.blocks[i].slot != s.table[k] || s.table[k] < 0 {
					t.Fatalf("block %d of a sequence is at %d, and not %d", k, m.blocks[i].slot, s.table[k])
				}
			}
		}
	}
	found, idle := 0, 0
	kids, kidOn := map[int32]int32{}, map[int32]int32{}
	for i := range m.blocks {
		b := &m.blocks[i]
		if b.id == 0 {
			idle++
			continue
		}
		if b.refs != refs[int32(i)] || (b.slot >= 0) == (b.host >= 0) || slots[b.slot] && b.slot >= 0 || hosts[b.host] && b.host >= 0 {
			t.Fatalf("block %d: %+v, and %d sequences have it", i, b, refs[int32(i)])
		}
		if b.slot >= 0 {
			slots[b.slot] = true
			have[0][b.tenant]++
		} else {
			hosts[b.host] = true
			have[1][b.tenant]++
		}
		if b.shown {
			found++
			if m.found[key{b.parent, b.hash}] != int32(i) {
				t.Fatalf("block %d cannot be found", i)
			}
			if m.before(b) != nil {
				kids[b.before]++
				if b.slot >= 0 {
					kidOn[b.before]++
				}
			}
		} else if b.refs == 0 {
			t.Fatalf("block %d is nobody's", i)
		}
	}
	for i := range m.blocks {
		b := &m.blocks[i]
		if b.id == 0 {
			continue
		}
		if b.kids != kids[int32(i)] || b.kidOn != kidOn[int32(i)] {
			t.Fatalf("block %d: %+v, and %d blocks continue it, %d on the device", i, b, kids[int32(i)], kidOn[int32(i)])
		}
		ahead := b.kidOn
		if b.slot < 0 {
			ahead = b.kids
		}
		h := &m.onDev
		if b.slot < 0 {
			h = &m.onHost
		}
		_, own := m.near(b)
		if can := b.refs == 0 && (ahead == 0 || m.o.Window > 0); can != (b.at[0] >= 0) || can && h.list[b.at[0]] != b || (can && own != nil) != (b.at[1] >= 0) || can && own != nil && own.list[b.at[1]] != b {
			t.Fatalf("block %d: %+v, and it can leave: %v", i, b, can)
		}
	}
	if found != len(m.found) || idle != len(m.unused) || len(slots)-b2i(slots[none])+len(m.slots) != m.o.Blocks || len(hosts)-b2i(hosts[none])+len(m.hosts) != m.o.HostBlocks {
		t.Fatalf("%d of %d found, %d of %d unused, %d + %d slots, %d + %d on the host", found, len(m.found), idle, len(m.unused), len(slots), len(m.slots), len(hosts), len(m.hosts))
	}
	ordered := func(h *heap) {
		for i, b := range h.list {
			if b.worth < h.list[max(i-1, 0)/2].worth || b.at[h.which] != i {
				t.Fatalf("%+v is worth less than what is before it", b)
			}
		}
	}
	ordered(&m.onDev)
	ordered(&m.onHost)
	used, usedOf := 0, map[*tenant]int{}
	for i := range m.blocks {
		if b := &m.blocks[i]; b.refs > 0 && b.slot >= 0 {
			used++
			usedOf[b.tenant]++
		}
		if b := &m.blocks[i]; b.shown && m.before(b) == nil && b.parent != b.tenant.id && m.o.Window == 0 && m.resets == 0 {
			t.Fatalf("block %d, %+v, can never be found", i, b)
		}
	}
	if used != m.used {
		t.Fatalf("%d blocks are in use, and %d were counted", used, m.used)
	}
	for _, tn := range m.tenants {
		ordered(&tn.device.own)
		ordered(&tn.host.own)
		if tn.used != usedOf[tn] {
			t.Fatalf("tenant %s uses %d blocks, and %d were counted", tn.name, usedOf[tn], tn.used)
		}
		for i, of := range []*share{&tn.device, &tn.host} {
			if of.have != have[i][tn] || of.have > of.most {
				t.Fatalf("tenant %s has %d blocks, and %d were counted, of %d", tn.name, have[i][tn], of.have, of.most)
			}
		}
	}
}

// Random calls leave each sequence with what belongs to its tokens, and the books sound.
func TestRandom(t *testing.T) {
	seeds := uint64(150)
	if testing.Short() {
		seeds = 30
	}
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 1))
		o := Options{BlockTokens: 1 + rng.IntN(5), Blocks: 4 + rng.IntN(40)}
		if seed%2 == 0 {
			o.HostBlocks = 1 + rng.IntN(30)
		}
		if seed%3 == 0 {
			o.Cost = func(position int) float64 { return float64(1 + position) }
		}
		if seed%5 == 0 {
			o.Window, o.Sinks = 1+rng.IntN(20), rng.IntN(4)
		}
		if seed%7 == 0 {
			o.TenantBlocks = func(tenant string) int { return 3 + len(tenant)*o.Blocks/8 }
		}
		if seed%4 == 0 {
			o.TenantHostBlocks = func(tenant string) int { return (len(tenant) - 1) * o.HostBlocks / 3 }
		}
		m := newMemory(t, o)
		var open []*Sequence
		forked := false
		for range 400 {
			pick := func() int { return rng.IntN(len(open)) }
			switch k := rng.IntN(10); {
			case k < 3 || len(open) == 0:
				tenant := []string{"a", "bb", "ccc"}[rng.IntN(3)]
				tokens := make([]int32, rng.IntN(6*m.o.BlockTokens))
				for i := range tokens {
					tokens[i] = int32(rng.IntN(2)) // so that many begin alike
				}
				cached, need := m.Match(tenant, tokens)
				fits := need <= m.Free(tenant)
				kept := m.Stats()
				s, err := m.Open(tenant, tokens)
				// A block that a fork has shown may hold up what it continues for a while.
				if (err == nil) != fits && o.Window == 0 && (err == nil || !forked) {
					t.Fatalf("%d blocks of %d that are free, and %v", need, m.Free(tenant), err)
				}
				if after := m.Stats(); err != nil && !fits && (after.Kept != kept.Kept || after.HostKept != kept.HostKept) {
					t.Fatalf("%+v, and %+v before an Open that failed", after, kept)
				}
				if err != nil {
					if !errors.Is(err, ErrFull) && !errors.Is(err, ErrTenant) {
						t.Fatal(err)
					}
					break
				}
				m.move()
				if s.Cached() != cached || s.Cached() > max(len(tokens)-1, 0) || s.Cached()%m.o.BlockTokens != 0 {
					t.Fatalf("%d of %d are cached", s.Cached(), len(tokens))
				}
				open = append(open, s)
				m.check(t, s) // what is cached
				if rng.IntN(4) > 0 {
					m.compute(t, s)
				}
			case k < 7:
				s := open[pick()]
				before := slices.Clone(s.tokens)
				more := make([]int32, 1+rng.IntN(2)*rng.IntN(9))
				for i := range more {
					more[i] = int32(rng.IntN(2))
				}
				if err := s.Append(more...); err == nil && rng.IntN(3) > 0 {
					m.compute(t, s)
				} else if err != nil && (!slices.Equal(before, s.tokens) || !errors.Is(err, ErrFull) && !errors.Is(err, ErrTenant)) {
					t.Fatal(err)
				}
			case k == 7:
				s := open[pick()]
				n := rng.IntN(len(s.tokens) + 1)
				if err := s.Truncate(n); err != nil && (o.Window == 0 || !errors.Is(err, ErrArgument)) {
					t.Fatal(err)
				}
			case k == 8:
				open, forked = append(open, testkit.Must(open[pick()].Fork())(t)), true
			default:
				i := pick()
				open[i].Close()
				open[i].Close()
				open = slices.Delete(open, i, i+1)
			}
			m.move()
			m.sound(t, open)
			for _, s := range open {
				m.check(t, s)
			}
		}
		for _, s := range open {
			s.Close()
		}
		m.sound(t, nil)
		if s := m.Stats(); s.Used != 0 || s.Tokens != 0 || s.Waste() != 0 {
			t.Fatalf("%+v", s)
		}
	}
}
