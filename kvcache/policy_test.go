package kvcache

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/pinion-gpu/pinion/internal/testkit"
)

// count is n tokens from one on.
func count(from, n int) (list []int32) {
	for i := range n {
		list = append(list, int32(from+i))
	}
	return list
}

// run opens a sequence, computes it, and closes it. It returns how many tokens were there.
func (m *memory) run(t *testing.T, tenant string, tokens []int32) int {
	t.Helper()
	s := testkit.Must(m.Open(tenant, tokens))(t)
	m.move()
	m.check(t, s)
	m.compute(t, s)
	s.Close()
	return s.Cached()
}

// known is how many tokens would be there.
func (m *memory) known(tenant string, tokens []int32) (n int) {
	parent := m.tenant(tenant).id
	for size := m.o.BlockTokens; n+size <= len(tokens); n += size {
		part := tokens[n : n+size]
		i := m.find(parent, m.hash(part), part)
		if i < 0 {
			break
		}
		parent = m.blocks[i].id
	}
	return n
}

// Sequences of a tenant share whole blocks that begin alike, and no others.
func TestShare(t *testing.T) {
	m := newMemory(t, Options{BlockTokens: 4, Blocks: 32})
	for i, c := range []struct {
		tenant string
		tokens []int32
		want   int
	}{
		{"a", count(0, 11), 0}, {"a", count(0, 11), 8}, {"a", count(0, 12), 8}, {"a", count(0, 13), 12},
		{"a", append(count(0, 6), 9, 9, 9), 4}, {"a", append(count(0, 6), 9, 9, 9), 8},
		{"a", count(1, 11), 0}, {"b", count(0, 11), 0}, {"b", count(0, 11), 8},
		{"a", count(0, 3), 0}, {"a", nil, 0},
	} {
		if got := m.run(t, c.tenant, c.tokens); got != c.want {
			t.Errorf("case %d: %d of %d tokens were there, want %d", i, got, len(c.tokens), c.want)
		}
	}
	// While it is open, too, and only what is computed.
	first := testkit.Must(m.Open("c", count(0, 16)))(t)
	defer first.Close()
	if got := m.run(t, "c", count(0, 16)); got != 0 {
		t.Errorf("%d tokens were there before they were computed", got)
	}
	m.compute(t, first) // becomes what the second has computed
	if s := m.Stats(); s.Used != 4 || s.Tokens != 16 || s.Waste() != 0 {
		t.Errorf("%+v", s)
	}
	second := testkit.Must(m.Open("c", count(0, 17)))(t)
	defer second.Close()
	if second.Cached() != 16 || !slices.Equal(first.Table(), second.Table()[:4]) {
		t.Errorf("%v and %v", first.Table(), second.Table())
	}
}

// What was not used for longest leaves first, the end of a sequence before its beginning; or
// what is computed again soonest.
func TestLeaves(t *testing.T) {
	m := newMemory(t, Options{BlockTokens: 2, Blocks: 6})
	m.run(t, "a", count(0, 6))
	m.run(t, "a", count(100, 4))
	m.run(t, "a", count(0, 3)) // the first block is used again; 1 token more finds a new block
	// 5 blocks are there: 0-1, 2-3, 4-5, 100-101, 102-103, and the one that was not full is gone.
	m.run(t, "a", count(200, 4)) // takes the free one, and that of 4-5
	for from, want := range map[int]int{0: 4, 100: 4, 200: 4} {
		if got := m.known("a", count(from, 6)); got != want {
			t.Errorf("%d tokens from %d on are there, want %d", got, from, want)
		}
	}
	m.sound(t, nil)

	// The beginning of a long prompt costs little, and its end much.
	m = newMemory(t, Options{BlockTokens: 2, Blocks: 8, Cost: func(position int) float64 { return float64(1 + position*position) }})
	m.run(t, "a", count(0, 8))
	for i := range 6 {
		m.run(t, "a", count(1000*(i+1), 4))
	}
	if got := m.known("a", count(0, 8)); got != 8 {
		t.Errorf("%d of 8 tokens of the long prompt are there", got)
	}
	m.sound(t, nil)
	// But not for ever, when nobody asks for it.
	for i := range 100 {
		m.run(t, "a", count(1000*(i+1), 4))
	}
	if got := m.known("a", count(0, 8)); got > 2 {
		t.Errorf("%d of 8 tokens of the long prompt are still there", got)
	}
}

// Blocks go to the host, what was not used for longest leaves it, and they come back.
func TestHost(t *testing.T) {
	m := newMemory(t, Options{BlockTokens: 2, Blocks: 4, HostBlocks: 6})
	for i := range 5 {
		m.run(t, "a", count(100*i, 4)) // two blocks each
	}
	m.sound(t, nil)
	if s := m.Stats(); s.Kept != 4 || s.HostKept != 6 || s.Out != 6 || s.Forgotten != 0 {
		t.Errorf("%+v", s)
	}
	for i := range 5 {
		if got := m.run(t, "a", count(100*i, 5)[:4]); got != 2 { // but for the last token's block
			t.Errorf("prompt %d: %d tokens are there", i, got)
		}
	}
	if s := m.Stats(); s.In == 0 {
		t.Errorf("%+v", s)
	}
	for i := range 3 {
		m.run(t, "a", count(1000*(i+1), 8))
	}
	if s := m.Stats(); s.Forgotten == 0 || s.HostKept != 6 {
		t.Errorf("%+v", s)
	}
	s := testkit.Must(m.Open("a", count(0, 5)))(t)
	defer s.Close()
	if s.Cached() != 0 {
		t.Errorf("%d tokens of the oldest prompt are there", s.Cached())
	}
}

// What computes the same as a block on the host takes that block's place.
func TestSame(t *testing.T) {
	m := newMemory(t, Options{BlockTokens: 2, Blocks: 4, HostBlocks: 4})
	s := testkit.Must(m.Open("a", count(0, 4)))(t)
	m.run(t, "a", count(0, 4)) // the same, in other blocks
	m.run(t, "a", count(50, 4))
	if st := m.Stats(); st.HostKept == 0 {
		t.Fatalf("%+v", st)
	}
	m.compute(t, s)
	m.check(t, s)
	m.sound(t, []*Sequence{s})
	if st := m.Stats(); st.Used != 2 || st.In != 0 {
		t.Errorf("%+v", st)
	}
	s.Close()
	m.sound(t, nil)
}

// A window keeps the last tokens and the first ones, however long a sequence becomes.
func TestWindow(t *testing.T) {
	m := newMemory(t, Options{BlockTokens: 4, Blocks: 6, Window: 8, Sinks: 2})
	s := testkit.Must(m.Open("a", count(0, 5)))(t)
	m.compute(t, s)
	for i := range 200 {
		testkit.OK(t, s.Append(int32(i%7)))
		m.compute(t, s)
		m.check(t, s)
		m.sound(t, []*Sequence{s})
		if st := m.Stats(); st.Used > 4 {
			t.Fatalf("%d tokens: %+v", s.Len(), st)
		}
	}
	testkit.WantError(t, "a long way back", s.Truncate(20), ErrArgument, "20 of 205 tokens")
	testkit.OK(t, s.Truncate(204))
	s.Close()
	m.sound(t, nil)
}

// A tenant gets no more than he may have, at the cost of his own blocks alone.
func TestTenants(t *testing.T) {
	m := newMemory(t, Options{BlockTokens: 2, Blocks: 10, TenantBlocks: func(tenant string) int {
		return map[string]int{"small": 3}[tenant] + map[string]int{"large": 10}[tenant]
	}})
	m.run(t, "large", count(0, 8))
	for i := range 5 {
		m.run(t, "small", count(100*i, 6))
		m.sound(t, nil)
	}
	if got := m.known("large", count(0, 8)); got != 8 {
		t.Errorf("%d tokens of the large tenant are left", got)
	}
	_, err := m.Open("small", count(0, 7))
	testkit.WantError(t, "more than he may have", err, ErrTenant, "a sequence of 7 tokens needs 4 blocks of 2 tokens more", "and of the tenant's 3, 0")
	m.sound(t, nil)
	_, err = m.Open("nobody", count(0, 1))
	testkit.WantError(t, "nothing", err, ErrTenant)
	m.sound(t, nil)
	_, err = m.Open("large", count(0, 21))
	testkit.WantError(t, "more than there is", err, ErrFull)
	m.sound(t, nil)
	m = newMemory(t, Options{BlockTokens: 2, Blocks: 4})
	s := testkit.Must(m.Open("a", count(0, 5)))(t)
	defer s.Close()
	_, err = m.Open("b", count(0, 4))
	testkit.WantError(t, "full", err, ErrFull)
	testkit.OK(t, s.Append(1))
	testkit.OK(t, s.Append(1))
	testkit.OK(t, s.Append(1))
	testkit.WantError(t, "full", s.Append(1), ErrFull, "a sequence of 8 tokens")
	if s.Len() != 8 || len(s.Table()) != 4 {
		t.Errorf("%d tokens in %v", s.Len(), s.Table())
	}
}

// A tenant has no more of the host than he may have, and makes room of his own alone.
func TestTenantsHost(t *testing.T) {
	m := newMemory(t, Options{BlockTokens: 2, Blocks: 4, HostBlocks: 8, TenantHostBlocks: func(tenant string) int {
		return map[string]int{"small": 2, "large": 9}[tenant]
	}})
	m.run(t, "large", count(0, 8))
	for i := range 5 {
		m.run(t, "small", count(100*i, 8))
		m.sound(t, nil)
	}
	if got := m.known("large", count(0, 8)); got != 8 {
		t.Errorf("%d tokens of the large tenant are left", got)
	}
	if s := m.Stats(); s.HostKept != 6 {
		t.Errorf("%+v", s)
	}
	m.run(t, "nobody", count(0, 8)) // of the host, that is
	m.run(t, "large", count(1000, 8))
	if got := m.known("nobody", count(0, 8)); got != 0 {
		t.Errorf("%d tokens of one who may have nothing are left", got)
	}
	m.sound(t, nil)
}

// What cannot fit evicts nothing.
func TestOpenFull(t *testing.T) {
	m := newMemory(t, Options{BlockTokens: 2, Blocks: 16, HostBlocks: 4})
	for i := range 6 {
		m.run(t, "a", count(100*i, 4))
	}
	before := m.Stats()
	s := testkit.Must(m.Open("b", count(0, 8)))(t)
	defer s.Close()
	_, err := m.Open("c", count(0, 25))
	testkit.WantError(t, "25 tokens in 12 blocks", err, ErrFull, "a sequence of 25 tokens needs 13 blocks of 2 tokens more; of 16 blocks, sequences have 4")
	testkit.WantError(t, "25 tokens more", s.Append(count(0, 25)...), ErrFull)
	if after := m.Stats(); after.Kept+after.HostKept != before.Kept+before.HostKept || after.Out != before.Out || s.Len() != 8 {
		t.Errorf("%+v, and before %+v", after, before)
	}
	testkit.OK(t, s.Append(count(0, 24)...))
	m.move()
	m.sound(t, []*Sequence{s})
}

// Where fewer blocks can be had than were counted, as with forks, an Append that fails midway
// leaves the sequence as it was.
func TestAppendMidway(t *testing.T) {
	m := newMemory(t, Options{BlockTokens: 2, Blocks: 4})
	s := testkit.Must(m.Open("a", count(0, 3)))(t)
	m.use(s.tenant, -1)
	testkit.WantError(t, "3 blocks of 2", s.Append(count(3, 6)...), ErrFull)
	m.use(s.tenant, 1)
	m.sound(t, []*Sequence{s})
	testkit.OK(t, s.Append(count(3, 5)...))
	m.compute(t, s)
	m.check(t, s)
	m.sound(t, []*Sequence{s})
	s.Close()
	m.sound(t, nil)
}

// What a window has passed is not needed to begin with what is cached.
func TestOpenWindow(t *testing.T) {
	m := newMemory(t, Options{BlockTokens: 4, Blocks: 12, HostBlocks: 20, Window: 8, Sinks: 2})
	s := testkit.Must(m.Open("a", count(0, 16)))(t)
	m.compute(t, s)
	for i := 16; i < 80; i += 16 { // in chunks
		testkit.OK(t, s.Append(count(i, 16)...))
		m.compute(t, s)
		m.check(t, s)
	}
	s.Close()
	other := testkit.Must(m.Open("b", count(0, 32)))(t) // 8 of 12 blocks
	defer other.Close()
	s = testkit.Must(m.Open("a", count(0, 81)))(t)
	defer s.Close()
	m.move()
	if s.Cached() < 60 {
		t.Errorf("%d tokens are there", s.Cached())
	}
	m.check(t, s)
	m.sound(t, []*Sequence{s, other})
}

// After a reset nothing is found that was computed before, also by who computes on.
func TestReset(t *testing.T) {
	m := newMemory(t, Options{BlockTokens: 2, Blocks: 16, HostBlocks: 8})
	for i := range 10 {
		m.run(t, "a", count(100*i, 4))
	}
	s := testkit.Must(m.Open("a", count(0, 5)))(t)
	m.compute(t, s)
	m.Reset()
	m.sound(t, []*Sequence{s})
	if st := m.Stats(); st.Kept != 0 || st.HostKept != 0 || st.Used != 3 || m.Free("a") != 13 {
		t.Errorf("%+v, %d are free", st, m.Free("a"))
	}
	testkit.OK(t, s.Append(5, 6, 7))
	m.compute(t, s)
	m.sound(t, []*Sequence{s})
	if got := m.run(t, "a", count(0, 9)); got != 0 {
		t.Errorf("%d tokens are there", got)
	}
	s.Close()
	m.sound(t, nil)
	if got := m.run(t, "a", count(0, 9)); got != 8 {
		t.Errorf("%d tokens are there", got)
	}
}

// Costs that are none do no harm.
func TestCosts(t *testing.T) {
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -5} {
		m := newMemory(t, Options{BlockTokens: 2, Blocks: 4, HostBlocks: 4, Cost: func(position int) float64 {
			if position == 2 {
				return bad
			}
			return 1
		}})
		for i := range 50 {
			m.run(t, "a", count(10*i, 6))
			m.sound(t, nil)
		}
		if s := m.Stats(); s.Out < 90 {
			t.Errorf("%v: %+v", bad, s)
		}
	}
}

func TestRefused(t *testing.T) {
	for want, o := range map[string]Options{
		"0 blocks of 16 tokens": {}, "5 blocks of -1 tokens": {Blocks: 5, BlockTokens: -1}, "and -1 on the host": {Blocks: 1, HostBlocks: -1},
		"a window of -1 tokens": {Blocks: 1, Window: -1}, "a window of 0 tokens, with 3 before it": {Blocks: 1, Sinks: 3},
		"4 blocks of 2305843009213693952 tokens": {Blocks: 4, BlockTokens: 1 << 61}, "with 9223372036854775807 before it": {Blocks: 4, Window: 3, Sinks: math.MaxInt},
	} {
		_, err := New(o)
		testkit.WantError(t, fmt.Sprint(o), err, ErrArgument, want)
	}
	c := testkit.Must(New(Options{Blocks: 4}))(t)
	s := testkit.Must(c.Open("a", count(0, 3)))(t)
	testkit.WantError(t, "computed", s.Computed(4), ErrArgument, "4 tokens are computed, of 3")
	testkit.OK(t, s.Computed(2))
	testkit.WantError(t, "computed", s.Computed(1), ErrArgument, "and were 2 before")
	testkit.WantError(t, "truncate", s.Truncate(4), ErrArgument, "4 of 3 tokens")
	s.Close()
	_, err := s.Fork()
	for what, err := range map[string]error{"append": s.Append(1), "computed": s.Computed(3), "truncate": s.Truncate(0), "fork": err} {
		testkit.WantError(t, what, err, ErrClosed)
	}
}
