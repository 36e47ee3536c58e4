package ntcopy

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
)

func TestCopy(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const most = 200_000
	src, dst := make([]byte, most+1000), make([]byte, most+1000)
	for i := range src {
		src[i], dst[i] = byte(r.Uint32()), byte(r.Uint32())
	}
	for round := range 500 {
		from, to, n := r.IntN(300), r.IntN(300), r.IntN(most)
		if round%5 == 0 {
			n = r.IntN(100)
		}
		want := bytes.Clone(dst)
		copy(want[to:to+n], src[from:])
		if got := Copy(dst[to:to+n], src[from:]); got != n {
			t.Fatalf("%d bytes of %d", got, n)
		}
		if !bytes.Equal(dst, want) {
			t.Fatalf("%d bytes from offset %d to %d: wrong content", n, from, to)
		}
		src[r.IntN(most)]++ // so that a copy of nothing shows
		src[r.IntN(300)]++
	}
	if Copy(dst, src[:10]) != 10 || Copy(dst[:10], src) != 10 || Copy(nil, src) != 0 {
		t.Error("the shorter one does not count")
	}
}

func FuzzCopy(f *testing.F) {
	f.Add(uint(0), uint(0), uint(1<<15))
	f.Add(uint(31), uint(1), uint(100_001))
	src := make([]byte, 1<<18)
	rand.NewChaCha8([32]byte{1}).Read(src)
	f.Fuzz(func(t *testing.T, from, to, n uint) {
		from, to, n = from%4096, to%4096, n%(1<<17)
		dst := make([]byte, n+to+64)
		Copy(dst[to:to+n], src[from:])
		if !bytes.Equal(dst[to:to+n], src[from:from+n]) {
			t.Fatal("wrong content")
		}
		if bytes.Count(dst[:to], []byte{0}) != int(to) || bytes.Count(dst[to+n:], []byte{0}) != 64 {
			t.Fatal("wrote outside")
		}
	})
}

func BenchmarkCopy(b *testing.B) {
	src, ring := make([]byte, 256<<20), make([]byte, 8<<20)
	for i := range src {
		src[i] = byte(i)
	}
	for _, n := range []int{128 << 10, 2 << 20} {
		for _, how := range []struct {
			name string
			copy func(dst, src []byte) int
		}{{"past-caches", Copy}, {"built-in", func(dst, src []byte) int { return copy(dst, src) }}} {
			b.Run(fmt.Sprintf("%dKiB/%s", n>>10, how.name), func(b *testing.B) {
				b.SetBytes(int64(n))
				from, to := 0, 0
				for b.Loop() {
					how.copy(ring[to:to+n], src[from:])
					from, to = (from+n)%len(src), (to+n)%len(ring)
				}
			})
		}
	}
}
