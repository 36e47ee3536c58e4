package page

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/vram"
)

var ctx = context.Background()

// fill makes a pool with live, pending and free blocks of all sizes.
func fill(t testing.TB, source vram.Source, blocks int) *vram.Pool {
	t.Helper()
	dev := devicetest.Open(t)
	pool, err := vram.New(dev, vram.Options{Source: source, Stacks: vram.StacksAll})
	testkit.OK(t, err)
	r := rand.New(rand.NewPCG(3, 4))
	var held []vram.Block
	for i := range blocks {
		n := 1 + r.Int64N(4000)
		if i%50 == 0 {
			n = 1 + r.Int64N(3<<20)
		}
		b, err := pool.Alloc(ctx, n, vram.Use{Purpose: vram.Purposes()[r.IntN(5)], Name: []string{"layer 1", "layer 2", "table 7", ""}[r.IntN(4)]})
		testkit.OK(t, err)
		held = append(held, b)
		if r.IntN(3) == 0 {
			k := r.IntN(len(held))
			testkit.OK(t, held[k].Free())
			held = slices.Delete(held, k, k+1)
		}
	}
	t.Cleanup(func() {
		for _, b := range held {
			testkit.OK(t, b.Free())
		}
		testkit.OK(t, pool.Close())
	})
	return pool
}

func servePool(t testing.TB, pools ...*vram.Pool) *httptest.Server {
	s := fake()
	s.Pools = func() []*vram.Pool { return pools }
	server := httptest.NewServer(New(s))
	t.Cleanup(server.Close)
	return server
}

func get[T any](t *testing.T, url string) (d T) {
	t.Helper()
	r, text := ask(t, "GET", url, nil)
	if r.StatusCode != 200 || r.Header.Get("Content-Type") != "application/json" {
		t.Fatalf("%s: %s %s", url, r.Status, text)
	}
	testkit.OK(t, json.Unmarshal([]byte(text), &d))
	return d
}

// The map shows what the pool's own snapshot has, whatever part of it is asked for, in
// however many cells; so do the blocks and the holders.
func TestMap(t *testing.T) {
	for _, source := range []vram.Source{vram.SourceChunks, vram.SourceSegments, vram.SourceDriver} {
		pool := fill(t, source, 600)
		server := servePool(t, pool)
		all := get[memoryDocument](t, server.URL+"/api/memory")
		snapshot := pool.Snapshot()
		type placed struct {
			vram.BlockInfo
			offset int64
		}
		var blocks []placed
		total := int64(0)
		for _, g := range snapshot.Segments {
			for _, b := range g.Blocks {
				blocks = append(blocks, placed{b, total})
				total += b.Bytes
			}
		}
		if all.Map.Bytes != total || all.Map.To != total || len(all.Pools) != 1 || all.Pools[0].Blocks != snapshot.Stats.Blocks.Current ||
			all.Pools[0].AllocatedBytes != snapshot.Stats.Allocated.Current || len(all.Map.Segments)+all.Map.More != len(snapshot.Segments) {
			t.Fatalf("%+v, of %d bytes", all, total)
		}
		r := rand.New(rand.NewPCG(5, 6))
		for range 40 {
			from, to, cells := r.Int64N(total), r.Int64N(total), 1+r.Int64N(300)
			m := get[memoryDocument](t, fmt.Sprintf("%s/api/memory?from=%d&to=%d&cells=%d", server.URL, from, to, cells)).Map
			to = max(from, to)
			if m.From != from || m.To != to || int64(len(m.Cells)) > cells || int64(len(m.Cells))*m.CellBytes < to-from {
				t.Fatalf("%+v", m)
			}
			for i, cell := range m.Cells {
				begin, end := from+int64(i)*m.CellBytes, min(from+int64(i+1)*m.CellBytes, to)
				shares, used, begins := make([]int64, 16), int64(0), false
				for _, b := range blocks {
					n := min(b.offset+b.Bytes, end) - max(b.offset, begin)
					if n <= 0 || b.State == vram.BlockFree {
						continue
					}
					used += n
					begins = begins || b.offset >= begin
					if b.State == vram.BlockPending {
						shares[statePending] += n
					} else {
						shares[firstPurpose+int(b.Purpose)] += n
					}
				}
				size := end - begin
				if got := int64(cell >> 4 & 7); got != (used*7+size-1)/size || used > 0 && shares[cell&15] != slices.Max(shares) || used == 0 && cell != 0 || (cell>>7 == 1) != begins {
					t.Fatalf("cell %d at %d of %d bytes is %08b, of %d used, %v, begins %v", i, begin, size, cell, used, shares, begins)
				}
			}

			d := get[blocksDocument](t, fmt.Sprintf("%s/api/blocks?from=%d&to=%d&limit=5", server.URL, from, to))
			var want []placed
			for _, b := range blocks {
				if b.offset < to && b.offset+b.Bytes > from {
					want = append(want, b)
				}
			}
			slices.SortStableFunc(want, func(a, b placed) int { return int(b.Bytes - a.Bytes) })
			if d.Count != len(want) || len(d.Blocks) != min(5, len(want)) {
				t.Fatalf("%d blocks, %d of them, want %d", d.Count, len(d.Blocks), len(want))
			}
			for i, b := range d.Blocks {
				w := want[i]
				if b.Offset != w.offset || b.Bytes != w.Bytes || b.RequestedBytes != w.Requested || b.Name != w.Name || b.Address != fmt.Sprintf("%#x", uint64(w.Address)) ||
					(b.State == "live") != (w.State == vram.BlockLive) {
					t.Fatalf("%+v, want %+v", b, w)
				}
				if b.State == "live" && (len(b.Stack) == 0 || !strings.Contains(b.Stack[0], "page.fill")) {
					t.Errorf("stack %q", b.Stack)
				}
			}
		}

		h := get[holdersDocument](t, server.URL+"/api/holders?limit=3")
		sums := map[string]int64{}
		for _, b := range blocks {
			if b.State == vram.BlockLive {
				name := b.Name
				if strings.HasPrefix(name, "layer") {
					name = "layer #"
				}
				sums[b.Purpose.String()+"/"+name] += b.Bytes
			}
		}
		var most []int64
		for _, n := range sums {
			most = append(most, n)
		}
		slices.Sort(most)
		slices.Reverse(most)
		if h.Count != len(sums) || len(h.Holders) != 3 {
			t.Fatalf("%+v, want 3 of %d", h, len(sums))
		}
		for i, x := range h.Holders {
			if x.AllocatedBytes != most[i] || sums[x.Purpose+"/"+x.Name] != most[i] || x.RequestedBytes > x.AllocatedBytes || x.Blocks == 0 {
				t.Errorf("holder %d: %+v, want %d bytes", i, x, most[i])
			}
		}
	}
}

// Pools keep their numbers while others come and go, and where there is none that is
// said.
func TestPools(t *testing.T) {
	a, b := fill(t, vram.SourceAuto, 10), fill(t, vram.SourceAuto, 20)
	open := []*vram.Pool{a, b}
	s := fake()
	s.Pools = func() []*vram.Pool { return open }
	server := serve(t, s)
	if d := get[memoryDocument](t, server.URL+"/api/memory"); len(d.Pools) != 2 || d.Map.Pool != 1 || d.Pools[1].Pool != 2 {
		t.Errorf("%+v", d)
	}
	open = []*vram.Pool{b}
	if d := get[memoryDocument](t, server.URL+"/api/memory"); len(d.Pools) != 1 || d.Map.Pool != 2 {
		t.Errorf("%+v", d)
	}
	if r, _ := ask(t, "GET", server.URL+"/api/memory?pool=1", nil); r.StatusCode != 404 {
		t.Error(r.Status)
	}
	open = []*vram.Pool{a, b}
	if d := get[memoryDocument](t, server.URL+"/api/memory?pool=2"); d.Pools[0].Pool != 3 || d.Map.Pool != 2 {
		t.Errorf("%+v", d)
	}
	open = nil
	if d := get[memoryDocument](t, server.URL+"/api/memory"); d.Map != nil || len(d.Pools) != 0 || len(d.States) < 9 {
		t.Errorf("%+v", d)
	}
	if d := get[blocksDocument](t, server.URL+"/api/blocks"); d.Count != 0 || d.Blocks == nil {
		t.Errorf("%+v", d)
	}
}

// A survey is kept for a while, and given up when nobody asks.
func TestSurveyIsKept(t *testing.T) {
	p := fill(t, vram.SourceAuto, 10)
	s := surveys{list: call[[]holder]{do: func() []holder { return []holder{pool{p}} }}}
	defer func() { s.forget.Stop() }()
	all, err := s.look(ctx)
	testkit.OK(t, err)
	a, err := all[0].get(ctx)
	testkit.OK(t, err)
	all[0].last.took = time.Hour // it held the pool up that long
	if b, _ := all[0].get(ctx); b != a {
		t.Error("a new survey at once")
	}
	s.drop()
	if b, _ := all[0].get(ctx); b == a {
		t.Error("the survey was kept")
	}
}

// One that lost its device says so, and one that hangs holds nothing up.
func TestHealth(t *testing.T) {
	open := func(memory func() (device.Memory, error)) device.Device {
		return sick{device.Wrapper{Device: devicetest.Open(t)}, memory}
	}
	release := make(chan struct{})
	defer close(release)
	var list []device.Device
	h := newHealth(func() []device.Device { return list })
	for _, c := range []struct {
		device device.Device
		says   string
	}{
		{open(func() (device.Memory, error) { return device.Memory{TotalBytes: 7, FreeBytes: 3}, nil }), ""},
		{open(func() (device.Memory, error) { return device.Memory{}, fmt.Errorf("fell off the bus") }), "fell off the bus"},
		{open(func() (device.Memory, error) { <-release; return device.Memory{}, nil }), "it does not answer"},
	} {
		list = []device.Device{c.device}
		clear(h.asked)
		testkit.Eventually(t, fmt.Sprintf("it says %q", c.says), func() bool {
			got := h.look(ctx)
			return len(got) == 1 && got[0].Error == c.says && (c.says == "") == (got[0].TotalBytes == 7) && got[0].Device == c.device.Info().ID
		})
	}
	list = nil
	testkit.Eventually(t, "nothing is open", func() bool { return len(h.look(ctx)) == 0 && len(h.asked) == 0 })
}

type sick struct {
	device.Wrapper
	memory func() (device.Memory, error)
}

func (s sick) Memory() (device.Memory, error) { return s.memory() }

// What a map of many blocks costs: the survey, and then each request.
func BenchmarkSurvey(b *testing.B) {
	p := fill(b, vram.SourceAuto, 300_000)
	v := &surveyor{holder: pool{p}}
	b.Run("take", func(b *testing.B) {
		for b.Loop() {
			v.take()
		}
		b.ReportMetric(float64(v.last.took.Microseconds())/1000, "ms-held")
	})
	b.Run("draw", func(b *testing.B) {
		for b.Loop() {
			v.last.draw(0, v.last.bytes, maxCells)
		}
	})
	b.Run("holders", func(b *testing.B) {
		for b.Loop() {
			v.last.holders()
		}
	})
}

// What was closed can be freed: its survey goes with those that nobody asks for. Pools
// that are open keep their numbers.
func TestDrop(t *testing.T) {
	first, second := fill(t, vram.SourceChunks, 3), fill(t, vram.SourceChunks, 3)
	open := []holder{pool{first}, pool{second}}
	s := surveys{list: call[[]holder]{do: func() []holder { return open }}}
	for range 2 {
		all, err := s.look(ctx)
		testkit.OK(t, err)
		if len(all) != len(open) || all[len(all)-1].number != 2 {
			t.Fatalf("%d pools, the last with number %d", len(all), all[len(all)-1].number)
		}
		_, err = all[0].get(ctx)
		testkit.OK(t, err)
		open = open[1:]
		s.drop()
		if len(s.pools) != len(open) {
			t.Errorf("%d of %d pools", len(s.pools), len(open))
		}
		for _, v := range s.pools {
			if v.last != nil {
				t.Error("a survey is kept")
			}
		}
	}
	s.forget.Stop()
}

// The memory of another allocator is shown like that of a pool: as one purpose, with
// the names and stacks that it tells.
func TestOther(t *testing.T) {
	blocks := []vram.BlockInfo{
		{Address: 0x9000, Bytes: 3000, Requested: 2500, Name: "layer.py:17"},
		{Address: 0x9000 + 3000, Bytes: 1000, State: vram.BlockFree},
		{Address: 0x4000, Bytes: 512, Requested: 500, Name: "layer.py:18"},
		{Address: 0x4000 + 512, Bytes: 512, Requested: 1, State: vram.BlockPending},
		{Address: 0x6000, Bytes: 2048, State: vram.BlockFree},
	}
	s := fake()
	s.Pools = func() []*vram.Pool { return nil }
	s.Others = func() []Other {
		return []Other{{Source: "pytorch", Device: "cuda:0", Visit: func(f func(vram.BlockInfo, bool, []string)) {
			for i, b := range blocks {
				var stack []string
				if b.Name != "" {
					stack = []string{"forward " + b.Name, hostileName}
				}
				f(b, i%2 == 0, stack)
			}
		}}}
	}
	server := httptest.NewServer(New(s))
	defer server.Close()
	d := get[memoryDocument](t, server.URL+"/api/memory?cells=1")
	want := totals{ReservedBytes: 7072, AllocatedBytes: 3512, RequestedBytes: 3000, FreeBytes: 3048, FragmentedBytes: 1000, Blocks: 2}
	if len(d.Pools) != 1 || d.Pools[0].Source != "pytorch" || d.Pools[0].Device != "cuda:0" || d.Pools[0].totals != want || len(d.Map.Segments) != 3 {
		t.Errorf("%+v, %+v", d.Pools, d.Map)
	}
	if state := d.States[d.Map.Cells[0]&15]; state != "pytorch" {
		t.Errorf("most of it is %q of %q", state, d.States)
	}
	list := get[blocksDocument](t, server.URL+"/api/blocks").Blocks
	if b := list[0]; len(list) != 5 || b.Purpose != "pytorch" || b.Name != "layer.py:17" || b.Offset != 512+512+2048 || b.AgeSeconds != nil ||
		!slices.Equal(b.Stack, []string{"forward layer.py:17", hostileName}) {
		t.Errorf("%+v", list)
	}
	// Names that differ in a number are two lines of code here.
	if h := get[holdersDocument](t, server.URL+"/api/holders").Holders; len(h) != 2 || h[0].Name != "layer.py:17" || h[0].Purpose != "pytorch" || h[0].AllocatedBytes != 3000 ||
		h[0].OldestSeconds != nil || len(h[1].Stack) != 2 {
		t.Errorf("%+v", h)
	}
}

const hostileName = "<b>\u202e"
