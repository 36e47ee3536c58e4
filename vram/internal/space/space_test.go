package space

import (
	"errors"
	"flag"
	"math/rand/v2"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/host"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

var (
	seed  = flag.Uint64("seed", 1, "of the random operations")
	steps = flag.Int("steps", 150, "random operations in each case")
)

// TestRandom does random things for several owners, with plenty of memory and hardly
// any in turn, and compares with a model: who has which addresses, and what is free
// for whom. After each step everything that must be true of a space is.
func TestRandom(t *testing.T) {
	small := func(r *rand.Rand) int64 { return 1 + r.Int64N(1<<(1+r.IntN(22))) }
	medium := func(r *rand.Rand) int64 { return 1<<20 + r.Int64N(8<<20) }
	any := func(r *rand.Rand) int64 { return 1 + r.Int64N(1<<(1+r.IntN(29))) }
	large := func(r *rand.Rand) int64 { return 33<<20 + r.Int64N(2<<30) }
	for _, c := range []struct {
		name   string
		config Config
		size   func(*rand.Rand) int64
		low    int // eighths of the memory that are in use at least, once there were
		high   int // and at most
	}{
		{"chunks", Config{Most: 3 << 30, Slack: 0.1, Unit: 2 << 20, Largest: 32 << 20}, any, 4, 8},
		{"no slack", Config{Most: 3 << 30, Unit: 2 << 20, Largest: 32 << 20}, any, 4, 8},
		{"roomy", Config{Most: 16 << 30, Slack: 0.5, Unit: 2 << 20, Largest: 128 << 20}, any, 1, 8},
		{"small blocks", Config{Most: 64 << 20, Slack: 0.1, Unit: 2 << 20, Largest: 2 << 20}, small, 2, 8},
		{"stitched", Config{Most: 128 << 20, Slack: 0.1, Unit: 2 << 20, Largest: 2 << 20}, medium, 8, 8},
		{"fixed chunks", Config{Most: 256 << 20, Slack: 0.1, Unit: 2 << 20, Fixed: 4 << 20, Largest: 4 << 20}, medium, 8, 8},
		{"ample", Config{Most: 64 << 30, Slack: 0.1, Unit: 2 << 20, Largest: 512 << 20}, large, 1, 1},
		{"segments", Config{Most: 1 << 30}, any, 4, 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			dev, err := host.Open(c.config.Most)
			testkit.OK(t, err)
			defer dev.Close()
			if c.config.Unit > 0 {
				m, ok := device.As[device.Mapper](dev)
				if !ok || !m.CanReserve() {
					t.Skip("no virtual memory here")
				}
				c.config.Mapper = m
			}
			var ledger Ledger
			var mapped int64
			c.config.Device, c.config.Ledger = dev, &ledger
			c.config.Mapped = func(_ device.Ptr, bytes int64, there bool) {
				if mapped += bytes; !there {
					mapped -= 2 * bytes
				}
			}
			random(t, New(c.config), c.size, c.low, c.high, &mapped)
			if free, err := dev.Memory(); err != nil || free.FreeBytes != free.TotalBytes {
				t.Errorf("after all was given back, the device has %+v, %v", free, err)
			}
		})
	}
}

func random(t *testing.T, s *Space, size func(*rand.Rand) int64, low, high int, mapped *int64) {
	r := rand.New(rand.NewPCG(*seed, 5))
	owners := []*Owner{{ID: 1}, {ID: 2}, {ID: 3}}
	var list []*Block
	var used, stitched, stale int64
	var number uint64
	full := 0
	give := func(i int) {
		b := list[i]
		list[i] = list[len(list)-1]
		list = list[:len(list)-1]
		used -= b.Bytes()
		number++
		if i := r.IntN(4); i < 3 {
			s.Give(b, owners[i], number)
		} else {
			s.Give(b, nil, 0)
		}
	}
	take := func(n int64, o *Owner) (*Block, error) {
		if s.Scarce(n) {
			if b, err := s.Squeeze(n, o); b != nil || err != nil {
				return b, err
			}
		}
		b, waits := s.Fit(n, o, r.IntN(2) == 0)
		if waits {
			for _, o := range owners {
				s.Settle(o, number)
			}
			b, _ = s.Fit(n, o, true)
		}
		if b != nil {
			return b, nil
		}
		return s.Grow(n, o, s.Most)
	}
	for step := 0; step < *steps && !t.Failed(); step++ {
		switch most := s.Most * int64(low+r.IntN(high+1-low)) / 8; {
		case used < most:
			n := (size(r) + Unit - 1) &^ (Unit - 1)
			var o *Owner
			if i := r.IntN(4); i < 3 {
				o = owners[i]
			}
			b, err := take(n, o)
			if Short(err) {
				for full++; len(list) > 0 && r.IntN(8) > 0; {
					give(r.IntN(len(list)))
				}
				break
			}
			testkit.OK(t, err)
			if b.Bytes() != n || b.Free() {
				t.Fatalf("a block of %d bytes, free %t, for %d", b.Bytes(), b.Free(), n)
			}
			used += n
			list = append(list, b)
		case len(list) > 0:
			for range 1 + r.IntN(len(list)) {
				give(r.IntN(len(list)))
			}
		}
		if o := owners[r.IntN(3)]; r.IntN(4) == 0 {
			found := s.Settle(o, number-min(number, r.Uint64N(4)))
			if again := s.Settle(o, 0); again {
				t.Errorf("settled %t, and again", found)
			}
		}
		stale = max(stale, staleBytes(s))
		if r.IntN(2) == 0 {
			testkit.OK(t, s.Prepare())
		}
		switch r.IntN(100) {
		case 0:
			testkit.Must(s.Trim())(t)
		case 1:
			testkit.Must(s.TrimFor(size(r)))(t)
		case 2:
			for left := s.Untidy(); left > 0; {
				n := testkit.Must(s.Tidy())(t)
				if left -= n; n == 0 {
					break
				}
			}
		}
		places, err := s.Check(owners...)
		testkit.OK(t, err)
		stitched = max(stitched, int64(places))
		if s.Used() != used || s.Ledger.Current() > s.Most || *mapped > s.Ledger.Current() {
			t.Fatalf("%d bytes are used, want %d; %d reserved of %d, %d mapped", s.Used(), used, s.Ledger.Current(), s.Most, *mapped)
		}
		apart(t, s, list)
	}
	for len(list) > 0 {
		give(0)
	}
	for _, o := range owners {
		s.Settle(o, number)
	}
	testkit.Must(s.Trim())(t)
	if s.Ledger.Current() != 0 || s.Ledger.Taken != s.Ledger.Returned {
		t.Errorf("%d bytes reserved at the end; %+v", s.Ledger.Current(), s.Ledger.Calls)
	}
	if calls := s.Ledger.Calls; calls.Create != calls.Release || calls.Map != calls.Unmap {
		t.Errorf("%+v at the end", calls)
	}
	testkit.OK(t, s.Close())
	if high == 1 && stale == 0 {
		t.Error("no chunk was mapped at its new place first")
	}
	t.Logf("%d times full, up to %d places of chunks that have several, and %d bytes stale; %+v", full, stitched, stale, s.Ledger.Calls)
}

// staleBytes is how many bytes of address space are stale.
func staleBytes(s *Space) int64 {
	if c, ok := s.heaps[largeHeap].backing.(*chunked); ok {
		return c.staleBytes
	}
	return 0
}

// apart checks that no two blocks have a byte in common, and that Visit shows all.
func apart(t *testing.T, s *Space, list []*Block) {
	t.Helper()
	want := map[*Block]bool{}
	for _, b := range list {
		want[b] = true
	}
	var at device.Ptr
	s.Visit(func(b *Block, first, _ bool) {
		if !first && b.Ptr() != at || !b.Free() != want[b] {
			t.Errorf("block at %#x, want %#x; free %t, taken %t", uint64(b.Ptr()), uint64(at), b.Free(), want[b])
		}
		delete(want, b)
		at = b.Ptr().Add(b.Bytes())
	})
	if len(want) > 0 {
		t.Errorf("%d blocks are not shown", len(want))
	}
}

// TestTidyStale tidies up again and again while chunks are mapped where they were
// before, next to the hole that one of them moves to, too.
func TestTidyStale(t *testing.T) {
	if testing.Short() {
		t.Skip("it only computes")
	}
	for n := range uint64(8) {
		dev, err := host.Open(64 << 30)
		testkit.OK(t, err)
		defer dev.Close()
		m, ok := device.As[device.Mapper](dev)
		if !ok || !m.CanReserve() {
			t.Skip("no virtual memory here")
		}
		s := New(Config{Device: dev, Mapper: m, Most: 64 << 30, Slack: 0.1, Unit: 2 << 20, Largest: 512 << 20, Ledger: new(Ledger)})
		r := rand.New(rand.NewPCG(*seed+n, 5))
		var list []*Block
		stale := int64(0)
		for step := range 2 * *steps {
			if s.Used() < 10<<30 && r.IntN(3) > 0 {
				n := (33<<20 + r.Int64N(2<<30)) &^ (Unit - 1)
				b, _ := s.Fit(n, nil, true)
				if b == nil {
					b, err = s.Grow(n, nil, s.Most)
					testkit.OK(t, err)
				}
				list = append(list, b)
			} else if len(list) > 0 {
				i := r.IntN(len(list))
				s.Give(list[i], nil, 0)
				list[i] = list[len(list)-1]
				list = list[:len(list)-1]
			}
			if r.IntN(10) == 0 {
				testkit.OK(t, s.Prepare())
			}
			if r.IntN(5) == 0 {
				stale = max(stale, staleBytes(s))
				testkit.Must(s.Tidy())(t)
			}
			if step%10 == 0 {
				testkit.Must(s.Check())(t)
			}
			apart(t, s, list)
		}
		if stale == 0 {
			t.Error("nothing was stale")
		}
		testkit.OK(t, s.Close())
	}
}

// TestFaults: a device that fails in the middle of whatever leaves the books right.
func TestFaults(t *testing.T) {
	t.Run("scarce", func(t *testing.T) {
		faults(t, Config{Most: 256 << 20, Slack: 0.1, Unit: 2 << 20, Largest: 16 << 20}, 17, 8)
	})
	t.Run("ample", func(t *testing.T) {
		if stale := faults(t, Config{Most: 64 << 30, Slack: 0.1, Unit: 2 << 20, Largest: 512 << 20}, 22, 1); stale == 0 {
			t.Error("no chunk was mapped at its new place first")
		}
	})
}

// faults takes blocks of up to 2^bits units, until more than so many eighths of the
// memory are in use. It reports how many bytes were stale at most.
func faults(t *testing.T, c Config, bits, eighths int) (stale int64) {
	dev, err := host.Open(c.Most)
	testkit.OK(t, err)
	defer dev.Close()
	m, ok := device.As[device.Mapper](dev)
	if !ok || !m.CanReserve() {
		t.Skip("no virtual memory here")
	}
	f := &faulty{Mapper: m}
	var ledger Ledger
	c.Device, c.Mapper, c.Ledger = dev, f, &ledger
	s := New(c)
	r := rand.New(rand.NewPCG(*seed, 6))
	var list []*Block
	failed := 0
	for range 4 * *steps {
		f.left = 1 + r.IntN(8)
		n := Unit * (1 + r.Int64N(1<<r.IntN(bits)))
		b, _ := s.Fit(n, nil, true)
		if b == nil {
			b, err = s.Grow(n, nil, s.Most)
			if errors.Is(err, errFaulty) {
				failed++
			} else if err != nil && !Short(err) {
				t.Fatal(err)
			}
		}
		if b != nil {
			list = append(list, b)
		}
		for len(list) > 0 && (b == nil || s.Used() > s.Most/8*int64(eighths) || r.IntN(3) == 0) {
			i := r.IntN(len(list))
			s.Give(list[i], nil, 0)
			list[i] = list[len(list)-1]
			list = list[:len(list)-1]
			if r.IntN(2) == 0 {
				break
			}
		}
		stale = max(stale, staleBytes(s))
		if err := s.Prepare(); errors.Is(err, errFaulty) {
			failed++
		} else {
			testkit.OK(t, err)
		}
		if _, err := s.Check(); err != nil {
			t.Fatal(err)
		}
	}
	if failed == 0 {
		t.Error("nothing failed")
	}
	f.left = 0
	testkit.OK(t, s.Close())
	if free, err := dev.Memory(); err != nil || free.FreeBytes != free.TotalBytes {
		t.Errorf("after Close, the device has %+v, %v", free, err)
	}
	return stale
}

// faulty fails once, after some calls have succeeded.
type faulty struct {
	device.Mapper
	left int
}

var errFaulty = errors.New("boom")

func (f *faulty) fails() error {
	if f.left--; f.left == 0 {
		return errFaulty
	}
	return nil
}

func (f *faulty) CreateChunk(n int64) (device.Chunk, error) {
	if err := f.fails(); err != nil {
		return 0, err
	}
	return f.Mapper.CreateChunk(n)
}

func (f *faulty) ReleaseChunk(c device.Chunk) error {
	if err := f.fails(); err != nil {
		return err
	}
	return f.Mapper.ReleaseChunk(c)
}

func (f *faulty) Map(p device.Ptr, c []device.Chunk, n int64) error {
	if err := f.fails(); err != nil {
		return err
	}
	return f.Mapper.Map(p, c, n)
}

func (f *faulty) Unmap(p device.Ptr, n int64) error {
	if err := f.fails(); err != nil {
		return err
	}
	return f.Mapper.Unmap(p, n)
}
