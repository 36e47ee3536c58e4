//go:build unix && amd64 && !noasm

package imaging

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/pinion-gpu/pinion/internal/pagemem"
)

// fence hands out memory that ends (or begins) where no page can be touched,
// so that a load or a store beyond it crashes the test.
type fence struct {
	regions [][]byte // whole pages between two that are not accessible
	used    int
	atEnd   bool
}

func newFence(t *testing.T, regions int) *fence {
	t.Helper()
	page := pagemem.PageSize()
	f := new(fence)
	for range regions {
		all, err := pagemem.Map(3 * page)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { pagemem.Unmap(all) })
		for _, outer := range [][]byte{all[:page], all[2*page:]} {
			if err := unix.Mprotect(outer, unix.PROT_NONE); err != nil {
				t.Fatal(err)
			}
		}
		f.regions = append(f.regions, all[page:2*page])
	}
	return f
}

func (f *fence) get(n int) []byte {
	b := f.regions[f.used%len(f.regions)]
	f.used++
	if f.atEnd {
		return b[len(b)-n:]
	}
	return b[:n:n]
}

func (f *fence) memory(_ testing.TB, n int) ([]byte, func()) { return f.get(n), func() {} }

// fenced is a copy of s in fenced memory.
func fenced[T int16 | int32](f *fence, s []T) []T {
	size := int(unsafe.Sizeof(s[0]))
	b := unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(f.get(size*len(s))))), len(s))
	copy(b, s)
	return b
}

// TestVectorPassesStayInside: neither sources nor destination, weights nor
// starts are touched beyond their ends.
func TestVectorPassesStayInside(t *testing.T) {
	extensions(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(9, 10))
		f := newFence(t, 24)
		for i := range 600 {
			f.atEnd = i%2 == 0
			a := randomAxis(rng, 1+rng.IntN(200), 120)
			compareHorizontal(t, rng, a, f.memory)
			compareVertical(t, rng, 32+rng.IntN(200), 1+rng.IntN(12), f.memory)

			var inside table
			inside.compute(a)
			if 4*len(inside.weight) > int(pagemem.PageSize()) {
				continue
			}
			inside.start, inside.weight = fenced(f, inside.start), fenced(f, inside.weight)
			inside.halves = fenced(f, inside.split())
			out, in := f.get(3*a.N+1), f.get(3*(inside.hi-inside.lo))
			horizontalRGB([][]byte{out}, [][]byte{in}, &inside)
			horizontalPlane(f.get(a.N), f.get(inside.hi-inside.lo), &inside)
		}
	})
}
