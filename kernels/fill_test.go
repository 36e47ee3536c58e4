package kernels_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/pinion-gpu/pinion/internal/testkit"
)

func TestFill(t *testing.T) {
	f := open(t)
	rng := rand.New(rand.NewPCG(3, 3))
	for _, size := range []int{1, 2, 4, 8} {
		counts := []int{0, 1, 2, 3, 7, 100_003}
		for range 40 {
			counts = append(counts, rng.IntN(70))
		}
		for _, n := range counts {
			pattern := rng.Uint64()
			dst := f.result(n*size, size*rng.IntN(17))
			testkit.OK(t, f.set.Fill(f.stream, dst.p, size, pattern, int64(n)))
			want := bytes.Repeat(binary.LittleEndian.AppendUint64(nil, pattern)[:size], n)
			if got := dst.download(); !bytes.Equal(got, want) {
				t.Fatalf("%d elements of %d bytes with pattern %#x at %#x are\n%x", n, size, pattern, dst.p, got)
			}
			dst.free()
		}
	}
}
