package pagemem_test

import (
	"bytes"
	"fmt"
	"log"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/pinion-gpu/pinion/internal/pagemem"
)

func Example() {
	b, err := pagemem.Map(1)
	if err != nil {
		log.Fatal(err)
	}
	defer pagemem.Unmap(b)

	pagemem.Huge(b)
	if err := pagemem.Populate(b, 0); err != nil {
		log.Fatal(err)
	}
	copy(b, "outside the Go heap")
	fmt.Println(int64(len(b)) == pagemem.PageSize(), b[len(b)-1])
	// Output: true 0
}

func TestRoundUp(t *testing.T) {
	page := pagemem.PageSize()
	most := int64(math.MaxInt64) &^ (page - 1)
	for _, c := range []struct{ n, want int64 }{
		{math.MinInt64, 0}, {-1, 0}, {0, 0},
		{1, page}, {page - 1, page}, {page, page}, {page + 1, 2 * page},
		{most - 1, most}, {most, most}, {most + 1, most}, {math.MaxInt64, most},
	} {
		if got := pagemem.RoundUp(c.n); got != c.want {
			t.Errorf("RoundUp(%d) = %d, want %d", c.n, got, c.want)
		}
	}
}

func TestMap(t *testing.T) {
	page := pagemem.PageSize()
	for _, n := range []int64{
		1, page, page + 1, pagemem.HugePage - 1, pagemem.HugePage, pagemem.HugePage + 1,
		7*pagemem.HugePage - page,
	} {
		b, err := pagemem.Map(n)
		if err != nil {
			t.Fatal(err)
		}
		if int64(len(b)) != pagemem.RoundUp(n) || cap(b) != len(b) {
			t.Errorf("Map(%d): len %d, cap %d", n, len(b), cap(b))
		}
		if !pagemem.Aligned(b) {
			t.Errorf("Map(%d): not whole pages", n)
		}
		base := uintptr(unsafe.Pointer(&b[0]))
		if n >= pagemem.HugePage && runtime.GOOS != "windows" && base%pagemem.HugePage != 0 {
			t.Errorf("Map(%d): base %#x is not on a huge page", n, base)
		}
		pagemem.Huge(b)
		for _, i := range []int{0, len(b) / 2, len(b) - 1} {
			if b[i] != 0 {
				t.Errorf("Map(%d): byte %d is %d", n, i, b[i])
			}
			b[i] = 0xA5
		}
		if err := pagemem.Unmap(b); err != nil {
			t.Error(err)
		}
	}
}

func TestBadArguments(t *testing.T) {
	for _, n := range []int64{0, -1, math.MinInt64, math.MaxInt64, math.MaxInt64 - 1<<20, 1 << 62} {
		if b, err := pagemem.Map(n); err == nil {
			t.Errorf("Map(%d) gave %d bytes", n, len(b))
		}
	}
	b, err := pagemem.Map(4 * pagemem.PageSize())
	if err != nil {
		t.Fatal(err)
	}
	defer pagemem.Unmap(b)
	for name, bad := range map[string][]byte{
		"nil": nil, "empty": b[:0], "start": b[1:], "length": b[:len(b)-1],
		"inside": b[1 : 1+pagemem.PageSize()],
	} {
		for what, f := range map[string]func([]byte) error{
			"unmap": pagemem.Unmap, "lock": pagemem.Lock, "unlock": pagemem.Unlock,
			"populate": func(b []byte) error { return pagemem.Populate(b, 1) },
		} {
			if err := f(bad); err == nil || !strings.Contains(err.Error(), "whole pages") {
				t.Errorf("%s of a bad slice (%s): %v", what, name, err)
			}
		}
		pagemem.Huge(bad)
	}
}

func TestPopulateKeepsContent(t *testing.T) {
	for _, workers := range []int{-1, 0, 1, 2, 3, 100} {
		b, err := pagemem.Map(3*pagemem.HugePage + pagemem.PageSize())
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(b); i += 1000 {
			b[i] = byte(i >> 4)
		}
		want := bytes.Clone(b)
		if err := pagemem.Populate(b, workers); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(b, want) {
			t.Errorf("Populate with %d workers changed the memory", workers)
		}
		if err := pagemem.Unmap(b); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLock(t *testing.T) {
	b, err := pagemem.Map(4 * pagemem.PageSize())
	if err != nil {
		t.Fatal(err)
	}
	defer pagemem.Unmap(b)
	if err := pagemem.Lock(b); err != nil {
		limit, unlimited := pagemem.LockLimit()
		if unlimited || limit >= 1<<20 {
			t.Errorf("limit %d, unlimited %t: %v", limit, unlimited, err)
		}
		t.Skip(err)
	}
	b[0] = 1
	if err := pagemem.Unlock(b); err != nil {
		t.Error(err)
	}
}

func TestConcurrent(t *testing.T) {
	var group sync.WaitGroup
	for g := range 4 {
		group.Go(func() {
			for range 20 {
				b, err := pagemem.Map(int64(g+1) * pagemem.HugePage / 2)
				if err != nil {
					t.Error(err)
					return
				}
				if err := pagemem.Populate(b, 2); err != nil {
					t.Error(err)
				}
				if err := pagemem.Unmap(b); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
}

// Each iteration faults in one GiB of fresh huge pages.
func BenchmarkPopulateGiB(b *testing.B) {
	for workers := 1; workers <= max(4, runtime.GOMAXPROCS(0)); workers *= 2 {
		b.Run(fmt.Sprint("workers=", workers), func(b *testing.B) {
			b.SetBytes(1 << 30)
			for b.Loop() {
				mem, err := pagemem.Map(1 << 30)
				if err != nil {
					b.Fatal(err)
				}
				pagemem.Huge(mem)
				if err := pagemem.Populate(mem, workers); err != nil {
					b.Fatal(err)
				}
				if err := pagemem.Unmap(mem); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
